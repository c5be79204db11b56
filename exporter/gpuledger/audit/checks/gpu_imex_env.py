"""A container asks for IMEX channels by its environment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.reach import IMEX_CHANNELS
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "gpu-imex-env",
    Severity.MEDIUM,
    title="IMEX channels by environment",
    flags="env NVIDIA_IMEX_CHANNELS",
    why="IMEX channels let GPUs of several nodes map each other's memory. The container toolkit hands them"
    " out by this variable unless it is told to ignore it: a pod can join a domain that is not its own.",
    remediation="Use a ComputeDomain of NVIDIA's DRA driver, and set the toolkit's feature"
    " ignore-imex-channel-requests.",
    references=("https://github.com/NVIDIA/k8s-dra-driver-gpu",),
    of=("environment",),
    expected=True,
)
def gpu_imex_env(pod: PodSubject) -> Iterator[Hit]:
    """Wherever the value comes from."""
    for container in pod.containers:
        if (index := container.env_index(IMEX_CHANNELS)) is not None:
            channels = container.spec.env[index].value or "set from elsewhere"
            yield Hit(f"{container.path}.env[{index}]", channels, container.name)
