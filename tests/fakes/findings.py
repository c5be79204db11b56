"""Nodes that Hypothesis makes up: what their sources say, cycle after cycle, consistent or not.

The cast is small on purpose, so that names meet: pods of one name, containers under two workloads, PIDs reused.
"""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st

from gpuledger.app.node.bookkeeper import Findings
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
    MigDevice,
    MigUuid,
    NvmlReading,
    Pod,
    PodContainer,
    PodLogs,
    PodUid,
    ProcessFacts,
    ProcessSample,
    ProcessUse,
    Workload,
    XidEvent,
)

START = 1_700_000_000.0
WHOLE = MigUuid("")
GPUS = tuple(Gpu(n, GpuUuid(f"GPU-{n}0000000-0000-4000-8000-000000000000")) for n in range(2))
MIG_GPU = GPUS[1]
NAMES = ("a", "b-6d4cf56db6-x7k2p")
MIGS = tuple(
    MigDevice(MigUuid(f"MIG-{n}0000000-0000-5000-8000-000000000000"), "1g.10gb", n, 0) for n in range(2)
)
UIDS = tuple(PodUid(f"uid-{n}") for n in range(3))
UNHEARD_OF = PodUid("uid-unheard-of")
CONTAINERS = ("main", "side")
PIDS = range(1, 5)
DEPARTED = 99
"""A PID that is sampled and listed nowhere."""


Cycle = tuple[Findings, Moment]
"""One cycle: what was found, and when."""

T = TypeVar("T")


def mostly(usual: st.SearchStrategy[T], *others: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    """Oftenest the usual case."""
    rare = st.one_of(*others)
    return st.integers(0, 4).flatmap(lambda n: usual if n else rare)


names = st.sampled_from(NAMES)
containers = st.sampled_from(CONTAINERS)
uids = st.sampled_from([*UIDS, UNHEARD_OF])


def container_id(uid: PodUid, container: str) -> ContainerId:
    """The id of a pod's container, as every source tells it."""
    return ContainerId(f"{uid}/{container}")


container_ids = st.builds(container_id, uids, containers)
workloads = st.sampled_from([Workload("Pod", "a"), Workload("Deployment", "b")])


@st.composite
def pods(draw: st.DrawFn, uid: PodUid) -> Pod:
    """A pod of that UID, of any name: two of one name overlap while one replaces the other."""
    return Pod(
        uid,
        "x",
        draw(names),
        phase=draw(st.sampled_from(["Running", "Running", "Pending", "Succeeded", "Failed"])),
        created_at=draw(st.sampled_from([None, 1.0, 2.0])),
        workload=draw(workloads),
        containers=tuple(PodContainer(name, container_id=container_id(uid, name)) for name in CONTAINERS),
        requests=draw(st.sampled_from([{}, {"nvidia.com/gpu": 1.0}, {"cpu": 1.0}])),
    )


api_pods = st.sampled_from([UIDS, UIDS, UIDS[:1], ()]).flatmap(lambda known: st.tuples(*map(pods, known)))
pod_logs = st.builds(
    PodLogs,
    st.dictionaries(
        container_ids, st.builds(LoggedContainer, st.just("x"), names, containers, uids), max_size=2
    ),
    st.dictionaries(
        uids,
        st.builds(LoggedPod, st.just("x"), names, st.sampled_from([(), ("main",), CONTAINERS])),
        max_size=1,
    ),
)
pod_cgroups = st.builds(Cgroup, st.just("pod"), uids, container_ids)
cgroups = mostly(
    pod_cgroups,
    st.builds(Cgroup, st.just("pod"), uids, st.none()),
    st.builds(Cgroup, st.just("pod"), uids, container_ids, outer=pod_cgroups),
    st.just(Cgroup("container", container_id=ContainerId("docker"))),
    st.builds(Cgroup, st.just("host"), unit=st.sampled_from(["", "ollama.service"])),
    st.just(Cgroup("hidden")),
)
process_facts = mostly(
    st.builds(ProcessFacts, st.just(0), name=st.sampled_from(["python", "sh"]), cgroup=cgroups),
    st.builds(ProcessFacts, st.just(0), fault=st.sampled_from(["exited", "permission"])),
)
device_ids = st.sampled_from(
    [*(gpu.uuid for gpu in GPUS), f"{GPUS[0].uuid}::1", *(mig.uuid for mig in MIGS), "nobody's"]
)
allocations = st.lists(
    st.builds(Allocation, st.just("x"), names, containers, st.just("nvidia.com/gpu"), device_ids),
    max_size=3,
).map(tuple)
samples = st.lists(
    st.tuples(
        st.sampled_from([0.9, 0.3, 0.0]),
        st.sampled_from([*PIDS, *PIDS, DEPARTED]),
        st.sampled_from([0.0, 0.5, 1.0]),
    ),
    max_size=4,
    unique=True,
).map(lambda drawn: sorted(drawn, reverse=True))
"""Ages, PIDs and ratios, oldest first."""
process_lists = {
    gpu: st.lists(
        st.builds(
            ProcessUse, st.sampled_from(PIDS), mostly(st.integers(0, 1000), st.none()), st.sampled_from(places)
        ),
        max_size=4,
        unique_by=lambda use: (use.pid, use.mig_uuid),
    ).map(tuple)
    for gpu, places in ((GPUS[0], [WHOLE]), (MIG_GPU, [WHOLE, *(mig.uuid for mig in MIGS)]))
}
facts_by_pid = st.fixed_dictionaries(dict.fromkeys(PIDS[:3], process_facts))
usually = st.sampled_from([True, True, True, True, False])


@st.composite
def readings(draw: st.DrawFn, gpu: Gpu, now: Moment) -> GpuReading:
    """What NVML says of one GPU."""
    if not draw(usually):
        return GpuReading(gpu, up=False)
    processes = draw(process_lists[gpu]) if draw(usually) else None
    used = sum(use.memory_used or 0 for use in processes or ()) + draw(st.sampled_from([0, 500]))
    joules = draw(st.sampled_from([100.0 * now.steady, 100.0 * now.steady, 7.0, None]))
    sampled = [ProcessSample(pid, now.wall - age, ratio) for age, pid, ratio in draw(samples)]
    return GpuReading(
        gpu,
        up=True,
        memory=Memory(10_000, used, 10_000 - used) if draw(usually) else None,
        values={} if joules is None else {"gpu_energy_joules_total": {(): joules}},
        processes=processes,
        process_samples=tuple(sampled) if draw(usually) else None,
        mig_devices=MIGS if gpu == MIG_GPU else (),
    )


@st.composite
def findings(draw: st.DrawFn, now: Moment) -> Findings:
    """What the sources of a node say at one time."""
    xid = XidEvent(draw(st.sampled_from(GPUS)).uuid, 31, now.wall)
    return Findings(
        nvml=NvmlReading(tuple(draw(readings(gpu, now)) for gpu in GPUS)) if draw(usually) else None,
        facts=draw(facts_by_pid) if draw(usually) else None,
        pods={pod.uid: pod for pod in draw(api_pods)},
        api_is_current=draw(st.booleans()),
        logs=draw(pod_logs),
        allocations=draw(allocations),
        xids=(xid,) if draw(usually) else (),
    )


@st.composite
def cycles(draw: st.DrawFn) -> list[Cycle]:
    """A few cycles of one node; between two lies no time at all, or up to 40 seconds."""
    steady = 0.0
    history: list[Cycle] = []
    for _ in range(draw(st.integers(2, 6))):
        steady += draw(st.sampled_from([1.0, 1.0, 0.0, 40.0]))
        now = Moment(steady, START + steady)
        history.append((draw(findings(now)), now))
    return history
