"""A pod runs under the NVIDIA runtime without asking for a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "gpu-runtimeclass-no-request",
    Severity.MEDIUM,
    title="NVIDIA runtime class without a request",
    flags="spec.runtimeClassName nvidia* in a pod that asks for no GPU",
    why="Where the NVIDIA runtime is not the default, this class is what makes NVIDIA_VISIBLE_DEVICES work,"
    " also when the image sets it, which a manifest does not show.",
    remediation="Request a GPU, or leave the class out.",
    references=("https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/cdi.html",),
    expected=True,
)
def gpu_runtimeclass_no_request(pod: PodSubject) -> Iterator[Hit]:
    """A pod of which any container asks is entitled to the class."""
    name = pod.spec.runtime_class_name
    if name.startswith("nvidia") and not pod.asks:
        yield Hit(pod.path("runtimeClassName"), name)
