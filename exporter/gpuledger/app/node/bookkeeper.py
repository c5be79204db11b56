"""One cycle of the node role: what the sources said, turned into accounts and a snapshot. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuledger.app.node.runtimeaudit import RuntimeAudit
from gpuledger.core.attribution import (
    PROCESS_RESULTS,
    Evidence,
    PodIndex,
    allocation_owner,
    attribute,
    knows_this_node,
    live_allocations,
    remainder,
)
from gpuledger.core.ledger import Ledger
from gpuledger.core.meter import Moment
from gpuledger.core.misuse import NodeView
from gpuledger.core.model import (
    NOTHING,
    Allocation,
    Gpu,
    GpuReading,
    GpuUuid,
    NvmlReading,
    Owner,
    Pod,
    PodLogs,
    PodUid,
    ProcessFacts,
    XidEvent,
)
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.core.snapshot import AttributedProcess, Holder, NodeSnapshot
from gpuledger.parse.deviceid import resolve
from gpuledger.parse.workload import infer_workload


@dataclass(frozen=True, slots=True)
class Findings:
    """What the sources said in one cycle; None where a source has nothing to say."""

    nvml: NvmlReading | None = None
    facts: Mapping[int, ProcessFacts] | None = None
    """None outside the host's PID namespace, where NVML's PIDs mean nothing."""
    pods: Mapping[PodUid, Pod] = field(default_factory=lambda: NOTHING)
    api_is_current: bool = False
    logs: PodLogs = field(default_factory=PodLogs)
    allocations: tuple[Allocation, ...] | None = None
    """None while the kubelet has not told them: who was given a GPU is unknown then, and nobody's fault."""
    allocatable: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    """Devices that the kubelet could give, by resource."""
    xids: tuple[XidEvent, ...] = ()


class Bookkeeper:
    """Keeps the books of one node, cycle after cycle."""

    def __init__(
        self, node: str, *, retention: float, process_metrics: bool, idle_window: float = 3600.0
    ) -> None:
        self._node = node
        self._process_metrics = process_metrics
        self._ledger = Ledger(retention=retention)
        self._audit = RuntimeAudit(idle_window)
        self._readings: tuple[GpuReading, ...] = ()
        """The last readings: they tell which GPU a device id means, also while NVML is silent."""
        self._processes: tuple[AttributedProcess, ...] = ()
        """The processes of the cycle before."""
        self._waiting: deque[XidEvent] = deque(maxlen=1000)
        """Driver errors of GPUs that have not been read yet."""
        self._resolved: tuple[object, Sequence[Allocation]] = (None, ())
        """What the last allocations and devices came to."""
        self._index: tuple[Mapping[PodUid, Pod], PodIndex] = (NOTHING, PodIndex())

    def book(self, found: Findings, now: Moment) -> NodeSnapshot:
        """Take in a cycle's findings and show the state of the books after it."""
        evidence = Evidence(found.facts, self._pod_index(found.pods), found.logs, infer_workload)
        readings = found.nvml.gpus if found.nvml is not None else ()
        self._readings = readings or self._readings
        self._ledger.open()
        allocations = found.allocations or ()
        api_knows_node = not found.api_is_current or knows_this_node(allocations, evidence.pods)
        resolved = self._resolve(live_allocations(allocations, evidence.pods))
        unresolved = self._book_allocations(resolved, evidence, now)
        processes: list[AttributedProcess] = []
        for reading in readings:
            processes += self._ledger.book(reading, attribute(reading, evidence), now)
        self._book_xids(found.xids, processes)
        self._ledger.close(now)
        self._processes = tuple(processes)
        containers, unattributed = self._ledger.containers(), self._ledger.unattributed()
        rest = (remainder(reading, (*containers, *unattributed)) for reading in readings)
        view = NodeView(
            readings=readings,
            processes=processes,
            containers=containers,
            pods=evidence.pods,
            api_is_current=found.api_is_current and api_knows_node,
            allocations=resolved if found.allocations is not None else None,
            in_host_pid_namespace=found.facts is not None,
        )
        return NodeSnapshot(
            node=self._node,
            taken_at=now.wall,
            gpus=tuple(self._ledger.gpu_state(reading) for reading in readings),
            containers=containers,
            processes=tuple(processes) if self._process_metrics else (),
            unattributed=(*unattributed, *(use for use in rest if use is not None)),
            pods=_gpu_pods(evidence.pods, {use.owner for use in containers if use.active}),
            xids=self._ledger.xids(now),
            findings=self._audit.findings(view, now.steady) if found.nvml is not None else (),
            attribution=_results(processes) if any(r.processes is not None for r in readings) else NOTHING,
            api_knows_node=api_knows_node,
            unresolved_allocations=unresolved if found.allocations is not None else None,
            allocatable=found.allocatable,
            dropped=found.nvml.dropped if found.nvml is not None else NOTHING,
        )

    def _pod_index(self, pods: Mapping[PodUid, Pod]) -> PodIndex:
        """The index of `pods`, built anew only when the API source shows another picture."""
        if pods is not self._index[0]:
            self._index = (pods, PodIndex.of(pods.values()))
        return self._index[1]

    def _resolve(self, allocations: tuple[Allocation, ...]) -> Sequence[Allocation]:
        """The allocations with the devices that they mean; anew only when either has changed."""
        devices = [(reading.gpu, [mig.uuid for mig in reading.mig_devices]) for reading in self._readings]
        if (allocations, devices) != self._resolved[0]:
            resolved = [resolve(allocation, self._readings) for allocation in allocations]
            self._resolved = ((allocations, devices), resolved)
        return self._resolved[1]

    def _book_allocations(
        self, allocations: Sequence[Allocation], evidence: Evidence, now: Moment
    ) -> int | None:
        """Book what the kubelet allocated; returns how many devices name no GPU that we know.

        Before the first reading of NVML nothing can be resolved, which says nothing about the ids: None.
        """
        gpus: dict[GpuUuid, Gpu] = {reading.gpu.uuid: reading.gpu for reading in self._readings}
        known = [(gpus[a.gpu_uuid], a) for a in allocations if a.gpu_uuid in gpus]
        self._ledger.book_allocations(((gpu, a, allocation_owner(a, evidence)) for gpu, a in known), now)
        return len(allocations) - len(known) if gpus else None

    def _book_xids(self, events: tuple[XidEvent, ...], processes: list[AttributedProcess]) -> None:
        """Book driver errors on whoever used the GPU around then, or held it when nobody did.

        Whom an error killed is no longer listed when it is heard of; whom it met at the start was not yet.
        """
        gpus = {reading.gpu.uuid: reading.gpu for reading in self._readings}
        heard = (*self._waiting, *events)
        self._waiting.clear()
        for event in heard:
            gpu = gpus.get(event.gpu_uuid)
            if gpu is None:
                self._waiting.append(event)
            else:
                around = (p.holder for p in (*self._processes, *processes) if p.gpu.uuid == gpu.uuid)
                held = (
                    use.owner for use in self._ledger.containers() if use.active and use.gpu.uuid == gpu.uuid
                )
                self._ledger.book_xid(event, gpu, _owners(around) or _owners(held))


def _owners(holders: Iterable[Holder]) -> tuple[Owner, ...]:
    """The owners among `holders`, each name once: a pod may be recreated under it, or be on two MIG devices."""
    named = {(h.namespace, h.pod, h.container): h for h in holders if isinstance(h, Owner)}
    return tuple(named.values())


def _results(processes: Iterable[AttributedProcess]) -> Mapping[str, int]:
    """How many processes were owned, and how many not, by reason."""
    counts = dict.fromkeys(PROCESS_RESULTS, 0)
    for process in processes:
        counts["owned" if isinstance(process.holder, Owner) else process.holder.reason] += 1
    return counts


def _gpu_pods(pods: PodIndex, owners: set[Owner]) -> tuple[Pod, ...]:
    """The API's pods that use or hold a GPU, or ask for one."""
    names = {(owner.namespace, owner.pod) for owner in owners}
    return tuple(
        pod
        for name, pod in pods.by_name.items()
        if name in names or any(gpu_resource_kind(resource) for resource in pod.requests)
    )
