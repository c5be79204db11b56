"""A pod was refused by its node because a GPU could not be allocated."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject
from gpuledger.core.resources import gpu_resource_kind


@partial(
    Check,
    "gpu-admission-failed",
    Severity.MEDIUM,
    title="GPU allocation failed on the node",
    flags="status.phase Failed with reason UnexpectedAdmissionError or OutOf<GPU resource>",
    why="The kubelet could not allocate the GPU that the scheduler had counted on: the device plugin was"
    " restarting, devices were unhealthy, or static pods took them. Such pods stay behind, and"
    " controllers keep making new ones.",
    remediation="Look at the device plugin on that node, then delete the failed pods.",
    references=("https://github.com/NVIDIA/k8s-device-plugin/issues/231",),
    of_failed=True,
)
def gpu_admission_failed(pod: PodSubject) -> Iterator[Hit]:
    """UnexpectedAdmissionError has other causes too: only pods that ask for GPUs count."""
    reason = pod.manifest.status.reason
    resource = reason.removeprefix("OutOf")
    out_of_gpu = resource != reason and gpu_resource_kind(resource, pod.context.also)
    if out_of_gpu or (reason == "UnexpectedAdmissionError" and pod.asks):
        yield Hit("status.reason", f"{reason}: {pod.manifest.status.message}".strip(": "))
