"""Whatever happens to pods, and however late the evidence: never a wrong owner, and once quiet the true one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from gpuledger.app.node.bookkeeper import Bookkeeper, Findings
from gpuledger.core.meter import Moment
from gpuledger.core.model import (
    Allocation,
    Cgroup,
    ContainerId,
    Gpu,
    GpuReading,
    GpuUuid,
    LoggedContainer,
    LoggedPod,
    Memory,
    NvmlReading,
    Owner,
    Pod,
    PodContainer,
    PodLogs,
    PodUid,
    ProcessFacts,
    ProcessUse,
    Workload,
    XidEvent,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuledger.core.snapshot import ContainerUse, Holder, NodeSnapshot, UnattributedUse

T = TypeVar("T")

GPUS = (Gpu(0, GpuUuid("GPU-0")), Gpu(1, GpuUuid("GPU-1")))
NAMES = st.sampled_from(["web-0", "llm-6d4cf56db6-x7k2p"])
"""Few, so that pods come back under the name of another; the second reads like a Deployment's."""
WORKLOADS = st.sampled_from([Workload("StatefulSet", "web"), Workload("Pod", "web-0"), Workload("Job", "llm")])
ANY = st.integers(0, 99)
"""Which of those that there are."""
PIDS = st.integers(1, 5)
"""Few, so that they are reused."""
MEMORY, DRIVER_SHARE = 100, 7


@dataclass(eq=False)
class TruePod:
    """A pod on the node; `told` is what its kubelet has written to the API of it, None before and after."""

    uid: PodUid
    name: str
    workload: Workload
    config_hash: PodUid | None
    gpu: Gpu | None
    containers: dict[str, list[ContainerId]]
    """The ids of each container's runs, the present one last."""
    told: Pod | None = None

    @property
    def cgroup_uid(self) -> PodUid:
        return self.config_hash or self.uid

    def as_told(self) -> Pod:
        """What a status would say now."""
        containers = tuple(
            PodContainer(name, container_id=ids[-1], past_container_ids=tuple(ids[-2:-1]))
            for name, ids in self.containers.items()
        )
        return Pod(
            self.uid,
            "ml",
            self.name,
            phase="Running",
            workload=self.workload,
            config_hash=self.config_hash,
            containers=containers,
            created_at=float(int(self.uid)),
        )


@dataclass(eq=False)
class TrueProcess:
    """A process: whose it is, since when (ticks), on which GPUs, and what its cgroup gives away."""

    pod: TruePod
    container: str
    started: int
    cgroup: Cgroup
    gpus: set[Gpu] = field(default_factory=set)


class AnyNode(RuleBasedStateMachine):
    """A node, the evidence on it, and a bookkeeper that sees just the evidence."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count(1)
        self.now = 0
        self.pods: list[TruePod] = []
        self.gone: list[TruePod] = []
        self.processes: dict[int, TrueProcess] = {}
        self.listed: dict[tuple[Gpu, int], TrueProcess] = {}
        """What NVML said when it was asked (`listed_at`), and whom it meant."""
        self.listed_at = 0
        self.api: list[Mapping[PodUid, Pod]] = [{}]
        """Every state of the API, of which the watch shows one after the other."""
        self.shown = 0
        self.links: dict[ContainerId, LoggedContainer] = {}
        self.folders: dict[PodUid, LoggedPod] = {}
        self.allocations: tuple[Allocation, ...] = ()
        self.books = Bookkeeper("node1", retention=5.0, process_metrics=True)
        self.processes_shown: dict[tuple[Gpu, int], Holder] = {}

    # ---- what happens to pods ----

    def new_id(self) -> ContainerId:
        return ContainerId(f"{next(self.numbers):064x}")

    @rule(name=NAMES, workload=WORKLOADS, several=st.booleans(), static=st.booleans(), gpu=st.none() | ANY)
    def create(self, name: str, workload: Workload, several: bool, static: bool, gpu: int | None) -> None:  # noqa: FBT001 - Hypothesis passes them by name
        """A pod comes; one of that name that was there is deleted, as the API has no two."""
        for pod in [pod for pod in self.pods if pod.name == name]:
            self.remove(pod)
        number = next(self.numbers)
        config_hash = PodUid(f"{number:032x}") if static else None
        containers = {each: [self.new_id()] for each in (("main", "side") if several else ("main",))}
        held = None if gpu is None else GPUS[gpu % 2]
        pod = TruePod(PodUid(f"{number}"), name, workload, config_hash, held, containers)
        self.pods.append(pod)

    def remove(self, pod: TruePod) -> None:
        """From the API; its processes may linger, as after a forced deletion."""
        self.pods.remove(pod)
        self.gone.append(pod)
        pod.told = None
        self.store()

    @precondition(lambda self: self.pods)
    @rule(which=ANY)
    def delete(self, which: int) -> None:
        self.remove(pick(self.pods, which))

    @precondition(lambda self: self.pods)
    @rule(which=ANY, container=ANY)
    def restart(self, which: int, container: int) -> None:
        """A container starts anew; what ran in it has ended."""
        pod = pick(self.pods, which)
        name = pick(list(pod.containers), container)
        self.processes = {
            pid: each for pid, each in self.processes.items() if (each.pod, each.container) != (pod, name)
        }
        pod.containers[name].append(self.new_id())

    @precondition(lambda self: self.pods)
    @rule(which=ANY)
    def debug(self, which: int) -> None:
        """An ephemeral container comes."""
        pod = pick(self.pods, which)
        pod.containers.setdefault(f"debug-{len(pod.containers)}", [self.new_id()])

    # ---- what happens to processes ----

    @precondition(lambda self: self.pods)
    @rule(
        pid=PIDS, which=ANY, container=ANY, gpus=st.sets(st.sampled_from(GPUS), min_size=1), uid=st.booleans()
    )
    def run(self, pid: int, which: int, container: int, gpus: set[Gpu], uid: bool) -> None:  # noqa: FBT001 - as above
        """A process starts on GPUs, perhaps with the PID of one that has just ended.

        Without `uid` its cgroup tells the container's id alone, as a sibling's behind a private namespace.
        """
        self.now += 1
        pod = pick(self.pods, which)
        name = pick(list(pod.containers), container)
        cgroup = Cgroup("pod", pod.cgroup_uid if uid else None, pod.containers[name][-1])
        self.processes[pid] = TrueProcess(pod, name, self.now, cgroup, gpus)

    @rule(pid=PIDS)
    def end(self, pid: int) -> None:
        self.processes.pop(pid, None)

    @rule(pid=PIDS, gpus=st.sets(st.sampled_from(GPUS)))
    def move(self, pid: int, gpus: set[Gpu]) -> None:
        """Onto other GPUs, or off them."""
        if pid in self.processes:
            self.processes[pid].gpus = gpus

    # ---- what comes of the evidence, sooner or later or never ----

    def store(self) -> None:
        self.api.append({pod.uid: pod.told for pod in self.pods if pod.told is not None})

    @precondition(lambda self: self.pods)
    @rule(which=ANY)
    def tell(self, which: int) -> None:
        """The kubelet writes a pod's status to the API."""
        pod = pick(self.pods, which)
        pod.told = pod.as_told()
        self.store()

    @rule(steps=st.integers(1, 3))
    def watch(self, steps: int) -> None:
        """The API's next states arrive; without this rule the picture gets old."""
        self.shown = min(self.shown + steps, len(self.api) - 1)

    @precondition(lambda self: self.pods + self.gone)
    @rule(which=ANY, container=ANY, uid=st.booleans())
    def link(self, which: int, container: int, uid: bool) -> None:  # noqa: FBT001 - as above
        """The kubelet links a container's log, early or late; old links may not tell the pod's UID."""
        pod = pick(self.pods + self.gone, which)
        name = pick(list(pod.containers), container)
        for each in pod.containers[name]:
            self.links[each] = LoggedContainer("ml", pod.name, name, pod.cgroup_uid if uid else None)

    @precondition(lambda self: self.links)
    @rule(which=ANY)
    def unlink(self, which: int) -> None:
        del self.links[pick(list(self.links), which)]

    @precondition(lambda self: self.pods + self.gone)
    @rule(which=ANY, containers=ANY)
    def make_folder(self, which: int, containers: int) -> None:
        """A pod's log folder stands, with those of some of its containers."""
        pod = pick(self.pods + self.gone, which)
        names = tuple(pod.containers)[: containers % (len(pod.containers) + 1)]
        self.folders[pod.cgroup_uid] = LoggedPod("ml", pod.name, names)

    @precondition(lambda self: self.folders)
    @rule(which=ANY)
    def remove_folder(self, which: int) -> None:
        del self.folders[pick(list(self.folders), which)]

    @rule()
    def allocate(self) -> None:
        """The kubelet is asked what it has allocated."""
        self.allocations = tuple(
            Allocation("ml", pod.name, "main", "nvidia.com/gpu", pod.gpu.uuid, pod.gpu.uuid)
            for pod in self.pods
            if pod.gpu is not None
        )

    # ---- what the bookkeeper makes of it ----

    @rule()
    def list_processes(self) -> None:
        """NVML is asked; what happens until the cycle happens behind its back."""
        self.now += 1
        self.listed_at = self.now
        self.listed = {(gpu, pid): each for pid, each in self.processes.items() for gpu in each.gpus}

    @rule(xid=st.none() | st.sampled_from(GPUS), api_is_current=st.booleans())
    def cycle(self, xid: Gpu | None, api_is_current: bool) -> None:  # noqa: FBT001 - as above
        self.now += 1
        snapshot = self.books.book(
            Findings(
                nvml=NvmlReading(tuple(self.reading(gpu) for gpu in GPUS)),
                facts={pid: self.facts(pid) for _, pid in self.listed},
                pods=self.api[self.shown],
                api_is_current=api_is_current,
                logs=PodLogs(dict(self.links), dict(self.folders)),
                allocations=self.allocations,
                xids=() if xid is None else (XidEvent(xid.uuid, 31, self.now),),
            ),
            Moment(self.now, self.now),
        )
        self.processes_shown = {(row.gpu, row.use.pid): row.holder for row in snapshot.processes}
        for key, holder in self.processes_shown.items():
            if isinstance(holder, Owner):
                assert_not_wrong(holder, self.listed[key])
        self.books_balance(snapshot)

    def reading(self, gpu: Gpu) -> GpuReading:
        uses = tuple(ProcessUse(pid, MEMORY) for on, pid in self.listed if on is gpu)
        used = MEMORY * len(uses) + DRIVER_SHARE
        return GpuReading(gpu, up=True, memory=Memory(2**40, used, 2**40 - used), processes=uses)

    def facts(self, pid: int) -> ProcessFacts:
        """As /proc tells them of a PID that NVML listed: one born since is not the process that was meant."""
        process = self.processes.get(pid)
        if process is None or process.started > self.listed_at:
            return ProcessFacts(pid, fault="exited")
        return ProcessFacts(pid, process.started, cgroup=process.cgroup)

    def books_balance(self, snapshot: NodeSnapshot) -> None:
        """Nothing is booked twice or forgotten, and only those who ever were have an account."""
        for gpu in GPUS:
            every: tuple[ContainerUse | UnattributedUse, ...] = (*snapshot.containers, *snapshot.unattributed)
            uses = [use for use in every if use.gpu == gpu and use.active]
            listed = sum(on is gpu for on, _ in self.listed)
            assert MEMORY * listed + DRIVER_SHARE == sum(use.memory_used or 0 for use in uses)
        names = {(pod.name, name) for pod in self.pods + self.gone for name in (*pod.containers, "")}
        shown = [use.owner for use in snapshot.containers] + [o for x in snapshot.xids for o in x.owners]
        assert {(owner.pod, owner.container) for owner in shown} <= names

    @rule()
    def settle_by_the_api(self) -> None:
        """Once it is quiet, every process has its true owner."""
        for pod in self.pods:
            pod.told = pod.as_told()
        self.store()
        self.shown = len(self.api) - 1
        self.list_processes()
        self.cycle(xid=None, api_is_current=True)
        for key, process in self.listed.items():
            if process.pod in self.pods:
                pod = process.pod
                owner = Owner("ml", pod.name, process.container, pod.workload, pod.uid)
                assert owner == self.processes_shown[key]

    @rule()
    def settle_by_the_logs(self) -> None:
        """Without the API, whose picture may be of any age, the names at least."""
        for pod in self.pods:
            for name, ids in pod.containers.items():
                self.links[ids[-1]] = LoggedContainer("ml", pod.name, name, pod.cgroup_uid)
        self.list_processes()
        self.cycle(xid=None, api_is_current=False)
        for key, process in self.listed.items():
            if process.pod in self.pods:
                holder = self.processes_shown[key]
                assert isinstance(holder, Owner)
                assert (process.pod.name, process.container) == (holder.pod, holder.container)


def assert_not_wrong(said: Owner, process: TrueProcess) -> None:
    """What is not known may be left open, or guessed and marked; all else must be so."""
    pod = process.pod
    assert (pod.name, "ml") == (said.pod, said.namespace)
    assert said.container in (process.container, "")
    assert said.pod_uid in (pod.uid, pod.config_hash, None)
    assert said.workload in (pod.workload, Workload("", "")) or said.workload.inferred


def pick(of: list[T], which: int) -> T:
    return of[which % len(of)]


TestAnyNode = AnyNode.TestCase
TestAnyNode.settings = settings(stateful_step_count=40)
