"""Use of GPUs that is not as it was asked for: what only the node can see, while pods run.

The ids are those of the audit's catalogue. What is seen once may be a moment between two sources; a finding is
what goes on for the check's patience.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpuledger.core.attribution import PodIndex
from gpuledger.core.model import (
    NOTHING,
    Allocation,
    GpuReading,
    Owner,
    Pod,
    PodContainer,
    Unattributed,
)
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.core.snapshot import AttributedProcess, ContainerUse

DRIVER_SERVICES = frozenset(
    {"nvidia-persistenced", "nv-hostengine", "nvidia-cuda-mps-server", "nvidia-cuda-mps-control", "Xorg", "X"}
)
"""Processes of the host that belong on a GPU; /proc cuts names to 15 letters."""

IDLE_RATIO = 0.01
BUSY_RATIO = 0.10
GHOST_MEMORY_RATIO = 0.10
"""More of a GPU's memory than the driver itself takes."""

MIB = 2**20
PATIENCE_SECONDS = 30.0
GHOST_SECONDS = 300.0

_COUNTED = ("whole", "slice", "shared", "passthrough")


@dataclass(frozen=True, slots=True)
class Misuse:
    """A rule of the audit's catalogue that is broken now; `owner` is None for what the node itself does."""

    check: str
    owner: Owner | None = None


@dataclass(frozen=True, slots=True)
class NodeView:
    """One cycle of a node, as attribution and the accounts have it; None is unknown.

    `allocations` have the GPU that they stand for, where it could be told.
    """

    readings: Iterable[GpuReading]
    processes: Collection[AttributedProcess]
    containers: Collection[ContainerUse]
    pods: PodIndex
    api_is_current: bool
    allocations: Collection[Allocation] | None
    in_host_pid_namespace: bool


class Patience:
    """Tells misuse that has gone on for long enough; `idle` is how long for idle GPUs, in seconds."""

    def __init__(self, idle: float) -> None:
        self._seconds = {"rt-idle": idle, "rt-idle-holding-memory": idle, "rt-ghost": GHOST_SECONDS}
        self._since: dict[Misuse, float] = {}

    def outlasted(self, seen: Iterable[Misuse], now: float) -> tuple[Misuse, ...]:
        """Of what is seen now, at a steady time, what has been seen in every cycle for its check's patience."""
        self._since = {each: self._since.get(each, now) for each in seen}
        return tuple(
            each
            for each, since in self._since.items()
            if now - since >= self._seconds.get(each.check, PATIENCE_SECONDS)
        )


def misuse(view: NodeView) -> Iterator[Misuse]:
    """Every rule that is broken in this cycle; where evidence is missing, nothing is said."""
    yield from _past_the_kubelet(view)
    yield from _by_nobody_alive(view)
    yield from _ghosts(view)
    yield from _idle(view)
    yield from _over_share(view)
    yield from _drift(view)


def _past_the_kubelet(view: NodeView) -> Iterator[Misuse]:
    """Processes on GPUs that their container was not given."""
    if view.allocations is None:
        return
    given: dict[tuple[str, str], list[Allocation]] = {}
    for each in view.allocations:
        given.setdefault((each.namespace, each.pod), []).append(each)
    for process in view.processes:
        owner = process.holder
        if not isinstance(owner, Owner) or _is_gone(owner, view):
            continue
        of_pod = given.get((owner.namespace, owner.pod), ())
        allocations = [each for each in of_pod if owner.container in ("", each.container)]
        if not allocations:
            pod = _pod(owner, view)
            if pod is None or not pod.asks_otherwise:
                yield Misuse("rt-use-without-request", owner)
        elif all(each.gpu_uuid is not None for each in allocations) and not any(
            each.gpu_uuid == process.gpu.uuid and each.mig_uuid in (None, "", process.use.mig_uuid)
            for each in allocations
        ):
            yield Misuse("rt-use-wrong-device", owner)


def _by_nobody_alive(view: NodeView) -> Iterator[Misuse]:
    """Processes of the host itself, and of pods that have ended or are unknown to an API that is current."""
    for process in view.processes:
        holder = process.holder
        if isinstance(holder, Owner):
            if _is_gone(holder, view):
                yield Misuse("rt-orphan", holder)
        elif holder.reason == "pod-unknown" and view.api_is_current:
            yield Misuse("rt-orphan")
        elif holder.reason in ("host", "container") and not _is_driver_service(process, holder):
            yield Misuse("rt-host-process")


def _is_driver_service(process: AttributedProcess, holder: Unattributed) -> bool:
    name = process.facts.name if process.facts else ""
    return holder.reason == "host" and bool(name) and any(s[:15] == name[:15] for s in DRIVER_SERVICES)


def _ghosts(view: NodeView) -> Iterator[Misuse]:
    """GPUs in use without a process to see; in another PID namespace none would be seen anyway."""
    for reading in view.readings if view.in_host_pid_namespace else ():
        if reading.processes is None or reading.processes or reading.mig_devices:
            continue
        busy = reading.values.get("gpu_utilization_ratio", NOTHING).get((), 0.0) >= BUSY_RATIO
        memory = reading.memory
        if busy or (memory is not None and memory.used >= GHOST_MEMORY_RATIO * memory.total):
            yield Misuse("rt-ghost")


def _idle(view: NodeView) -> Iterator[Misuse]:
    """Devices that are held and not used; where use can't be told apart from idleness, nothing is said."""
    for use in view.containers:
        if not use.active or not use.allocated:
            continue
        if use.processes == 0:
            yield Misuse("rt-idle", use.owner)
        elif use.processes and use.memory_used and use.sm_ratio is not None and use.sm_ratio < IDLE_RATIO:
            yield Misuse("rt-idle-holding-memory", use.owner)


def _over_share(view: NodeView) -> Iterator[Misuse]:
    """GPU memory above what HAMi or KAI agreed on with the container, on one card."""
    totals = {reading.gpu.uuid: reading.memory.total for reading in view.readings if reading.memory}
    for use in view.containers:
        pod = _pod(use.owner, view)
        if pod is None or use.memory_used is None:
            continue
        share = _share(pod, _container(pod, use.owner.container), totals.get(use.gpu.uuid))
        if share is not None and use.memory_used > share:
            yield Misuse("rt-over-share", use.owner)


def _share(pod: Pod, container: PodContainer | None, total: int | None) -> float | None:
    """Bytes of one card that a container may use: nvidia.com/gpumem in MiB or percent, KAI's gpu-fraction."""
    requests: Mapping[str, float] = container.requests if container is not None else NOTHING
    if "nvidia.com/gpumem" in requests:
        return requests["nvidia.com/gpumem"] * MIB
    if total is None:
        return None
    if "nvidia.com/gpumem-percentage" in requests:
        return total * requests["nvidia.com/gpumem-percentage"] / 100
    return None if pod.gpu_fraction is None else total * pod.gpu_fraction


def _drift(view: NodeView) -> Iterator[Misuse]:
    """Running containers whose devices are more or fewer than they asked for."""
    if view.allocations is None or not view.api_is_current:
        return
    held = Counter((each.namespace, each.pod, each.container, each.resource) for each in view.allocations)
    for pod in view.pods.by_name.values():
        for container in pod.containers if pod.phase == "Running" and not pod.asks_otherwise else ():
            asked = {
                resource: count
                for resource, count in container.requests.items()
                if gpu_resource_kind(resource) in _COUNTED
            }
            if container.kind == "regular" and any(
                held[pod.namespace, pod.name, container.name, resource] != count
                for resource, count in asked.items()
            ):
                yield Misuse(
                    "rt-alloc-drift", Owner(pod.namespace, pod.name, container.name, pod.workload, pod.uid)
                )


def _pod(owner: Owner, view: NodeView) -> Pod | None:
    return view.pods.by_uid.get(owner.pod_uid) if owner.pod_uid else None


def _is_gone(owner: Owner, view: NodeView) -> bool:
    """Whether the pod has ended, or an API that is current does not know it."""
    pod = _pod(owner, view)
    return pod.terminal if pod is not None else owner.pod_uid is not None and view.api_is_current


def _container(pod: Pod, name: str) -> PodContainer | None:
    return next((each for each in pod.containers if each.name == name), None)
