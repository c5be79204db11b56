"""Who owns what runs on a GPU: evidence in order of strength, and what is said when it is missing.

The order (docs/attribution.md): the container id in the process's cgroup against the API's container
statuses, then against the kubelet's log links; the pod UID against the API, then against the log folders. A
container id beats a pod UID. What no evidence names is booked by reason, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpuledger.core.model import (
    NOTHING,
    Allocation,
    Cgroup,
    ContainerId,
    GpuReading,
    LoggedContainer,
    LoggedPod,
    MigUuid,
    Owner,
    Pod,
    PodContainer,
    PodLogs,
    PodUid,
    ProcessFacts,
    Reason,
    Unattributed,
    Workload,
)
from gpuledger.core.snapshot import AttributedProcess, ContainerUse, Holder, UnattributedUse

PROCESS_RESULTS = ("owned", "host", "container", "pod-unknown", "exited", "pid-namespace", "permission")
"""What attribution can make of a process: an owner, or a reason why not."""


@dataclass(frozen=True, slots=True)
class PodIndex:
    """The API's pods of this node by what a process can be recognised by.

    A static pod is found by its configuration hash too: that is the UID which its cgroup carries.
    """

    by_uid: Mapping[PodUid, Pod] = field(default_factory=lambda: NOTHING)
    by_name: Mapping[tuple[str, str], Pod] = field(default_factory=lambda: NOTHING)
    by_container: Mapping[ContainerId, tuple[Pod, PodContainer]] = field(default_factory=lambda: NOTHING)

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> PodIndex:
        """Index `pods`; of two with one name (one being replaced) the later created stands in `by_name`."""
        by_uid: dict[PodUid, Pod] = {}
        by_hash: dict[PodUid, Pod] = {}
        by_name: dict[tuple[str, str], Pod] = {}
        by_container: dict[ContainerId, tuple[Pod, PodContainer]] = {}
        for pod in sorted(pods, key=lambda p: p.created_at or 0.0):
            by_uid[pod.uid] = pod
            by_name[pod.namespace, pod.name] = pod
            if pod.config_hash:
                by_hash.setdefault(pod.config_hash, pod)
            for container in pod.containers:
                for container_id in (*container.past_container_ids, container.container_id):
                    if container_id:
                        by_container[container_id] = (pod, container)
        # Until the kubelet deletes it, anybody's pod may pass for a static one: it takes no other pod's place.
        return cls(by_hash | by_uid, by_name, by_container)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known in one cycle; `facts` is None where the PIDs that NVML reports mean nothing here."""

    facts: Mapping[int, ProcessFacts] | None = None
    pods: PodIndex = field(default_factory=PodIndex)
    logs: PodLogs = field(default_factory=PodLogs)
    infer_workload: Callable[[str], Workload | None] = lambda _pod_name: None
    """A guess at the workload from a pod's name, for when the API does not tell; marked as inferred."""


def holder_of(facts: ProcessFacts | None, evidence: Evidence) -> Holder:
    """The owner of a process, or why it has none; `facts` None means that /proc had no answer at all."""
    if evidence.facts is None:
        return Unattributed("pid-namespace")
    if facts is None or facts.fault == "exited":
        return Unattributed("exited")
    if facts.fault:
        return Unattributed(facts.fault)
    if facts.cgroup is None:
        return Unattributed("permission")
    # A container that may make cgroups can name one like another pod's, but can't leave its own, the outermost.
    for cgroup in (facts.cgroup.outer, facts.cgroup):
        if cgroup is not None and cgroup.kind == "pod":
            owner = _owner_by_container(cgroup, evidence) or _owner_by_pod(cgroup, evidence)
            if owner is not None:
                return owner
    return _unowned(facts.cgroup)


def _unowned(cgroup: Cgroup) -> Unattributed:
    """The reason for a cgroup that led to nobody; a hidden path is some pod's or container's, unnamed."""
    reasons: dict[str, Reason] = {"pod": "pod-unknown", "container": "container", "hidden": "pod-unknown"}
    return Unattributed(reasons.get(cgroup.kind, "host"), cgroup.unit if cgroup.kind == "host" else "")


def _owner_by_container(cgroup: Cgroup, evidence: Evidence) -> Owner | None:
    if cgroup.container_id is None:
        return None
    known = evidence.pods.by_container.get(cgroup.container_id)
    if known is not None:
        pod, container = known
        return _api_owner(pod, container.name)
    logged = evidence.logs.containers.get(cgroup.container_id)
    return _logged_owner(logged, cgroup.pod_uid, evidence) if logged is not None else None


def _owner_by_pod(cgroup: Cgroup, evidence: Evidence) -> Owner | None:
    if cgroup.pod_uid is None:
        return None
    pod = evidence.pods.by_uid.get(cgroup.pod_uid)
    logged = evidence.logs.pods.get(cgroup.pod_uid)
    if pod is not None:
        owner = _api_owner(pod, _only(tuple(c.name for c in pod.containers)))
    elif logged is not None:
        owner = _logged_owner(logged, cgroup.pod_uid, evidence)
    else:
        return None
    # An id that names none of the pod's containers may be its sandbox or a debug container still unheard of.
    return owner if cgroup.container_id is None else replace(owner, container="")


def _api_owner(pod: Pod, container: str) -> Owner:
    return Owner(pod.namespace, pod.name, container, pod.workload, pod.uid)


def _logged_owner(logged: LoggedContainer | LoggedPod, pod_uid: PodUid | None, evidence: Evidence) -> Owner:
    """An owner named by the log folders, with the workload of the API's pod of that UID.

    Not of that name: another pod may have taken it. Without a UID the name may hint at the workload.
    """
    if isinstance(logged, LoggedContainer):
        uid, container = logged.pod_uid or pod_uid, logged.container
    else:
        uid, container = pod_uid, _only(logged.containers)
    pod = evidence.pods.by_uid.get(uid) if uid is not None else None
    if pod is not None:
        return _api_owner(pod, container)
    return Owner(logged.namespace, logged.pod, container, _guess(logged.pod, evidence), uid)


def _guess(pod_name: str, evidence: Evidence) -> Workload:
    return evidence.infer_workload(pod_name) or Workload("", "")


def _only(names: tuple[str, ...]) -> str:
    """The name where there is one to choose; a container is never picked among several."""
    return names[0] if len(names) == 1 else ""


def attribute(reading: GpuReading, evidence: Evidence) -> tuple[AttributedProcess, ...]:
    """Every process that NVML lists on this GPU, with its holder."""
    facts = evidence.facts or NOTHING
    return tuple(
        AttributedProcess(reading.gpu, use, holder_of(facts.get(use.pid), evidence), facts.get(use.pid))
        for use in reading.processes or ()
    )


def remainder(reading: GpuReading, uses: Iterable[ContainerUse | UnattributedUse]) -> UnattributedUse | None:
    """What the device says is used beyond what is booked on holders in `uses`: the driver's share.

    It is booked as `unmeasured` when the memory of some holder (or every list) is unknown, since it then holds
    that as well: what is shown always adds up to the whole. None where the device does not tell its memory. Two
    readings taken moments apart may sum to more than the device's; the remainder is then 0.
    """
    if reading.memory is None:
        return None
    booked = [use.memory_used for use in uses if use.active and use.gpu.uuid == reading.gpu.uuid]
    known = reading.processes is not None and None not in booked
    rest = max(0, reading.memory.used - sum(memory for memory in booked if memory is not None))
    return UnattributedUse(
        reading.gpu, MigUuid(""), Unattributed("driver" if known else "unmeasured"), memory_used=rest
    )


def live_allocations(allocations: Iterable[Allocation], pods: PodIndex) -> tuple[Allocation, ...]:
    """Allocations of pods that are not known to have ended.

    The kubelet goes on listing terminal pods for a while (kubernetes/kubernetes#119423). Of a pod that the API
    does not list, the kubelet knows more: one deleted by force may run on.
    """

    def lives(allocation: Allocation) -> bool:
        pod = pods.by_name.get((allocation.namespace, allocation.pod))
        return pod is None or not pod.terminal

    return tuple(allocation for allocation in allocations if lives(allocation))


def knows_this_node(allocations: Collection[Allocation], pods: PodIndex) -> bool:
    """Whether the API's pods are this node's: an answer about another node lists none that the kubelet runs."""
    return not allocations or any((a.namespace, a.pod) in pods.by_name for a in allocations)


def allocation_owner(allocation: Allocation, evidence: Evidence) -> Owner:
    """The owner that an allocation names, with its workload where that is known.

    The kubelet tells no UID here, but lists only pods that it runs: the API's newest of that name is meant.
    """
    pod = evidence.pods.by_name.get((allocation.namespace, allocation.pod))
    if pod is not None:
        return _api_owner(pod, allocation.container)
    workload = _guess(allocation.pod, evidence)
    return Owner(allocation.namespace, allocation.pod, allocation.container, workload)
