"""A GPU container loads a library of its own into every program."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.reach import visible_devices
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "gpu-ld-preload",
    Severity.MEDIUM,
    title="LD_PRELOAD in a GPU container",
    flags="env LD_PRELOAD in a container that asks for a GPU or names one in its environment",
    why="Hooks of the container toolkit up to 1.17.7 ran with the container's environment: a library that"
    " they were told to preload ran as root on the host (CVE-2025-23266). An image can set the same"
    " unseen.",
    remediation="Remove the variable where it is not needed, and upgrade the container toolkit.",
    references=("https://nvidia.custhelp.com/app/answers/detail/a_id/5659",),
    of=("environment",),
    expected=True,
)
def gpu_ld_preload(pod: PodSubject) -> Iterator[Hit]:
    """Wherever the value comes from."""
    for container in pod.containers:
        index = container.env_index("LD_PRELOAD")
        if index is not None and (container.asks or visible_devices(container.spec)):
            library = container.spec.env[index].value or "set from elsewhere"
            yield Hit(f"{container.path}.env[{index}]", library, container.name)
