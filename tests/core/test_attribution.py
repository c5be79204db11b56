"""Evidence in order of strength, and what is said when it is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuledger.core.attribution import (
    Evidence,
    PodIndex,
    allocation_owner,
    holder_of,
    knows_this_node,
    live_allocations,
    remainder,
)
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
    MigUuid,
    Owner,
    Pod,
    PodContainer,
    PodLogs,
    PodUid,
    ProcessFacts,
    ProcessUse,
    Unattributed,
    Workload,
)
from gpuledger.core.snapshot import ContainerUse, Holder, UnattributedUse

UID, OTHER_UID = PodUid("2fa837fd-7da1-4896-863d-368a4ca73c2d"), PodUid("0418d9dd-6da9-40ca-aa25-adb326765218")
CID, OTHER_CID = ContainerId("a" * 64), ContainerId("b" * 64)
DEPLOYMENT = Workload("Deployment", "llm")
GUESS = Workload("Deployment", "llm", inferred=True)
POD = Pod(
    UID,
    "ml",
    "llm-6d9f7c5b8d-q4zlm",
    workload=DEPLOYMENT,
    containers=(PodContainer("server", container_id=CID), PodContainer("logs", container_id=OTHER_CID)),
)
OWNER = Owner("ml", POD.name, "server", DEPLOYMENT, UID)


def guess(pod_name: str) -> Workload | None:
    return GUESS if pod_name == POD.name else None


def evidence(*pods: Pod, logs: PodLogs | None = None) -> Evidence:
    return Evidence({}, PodIndex.of(pods), logs or PodLogs(), guess)


def in_pod(uid: PodUid | None = UID, cid: ContainerId | None = CID) -> ProcessFacts:
    return ProcessFacts(7, cgroup=Cgroup("pod", uid, cid))


LOGGED = PodLogs(containers={CID: LoggedContainer("ml", POD.name, "server", UID)})


@pytest.mark.parametrize(
    ("facts", "known", "holder"),
    [
        pytest.param(in_pod(), evidence(POD), OWNER, id="container-id-in-the-api"),
        pytest.param(in_pod(uid=OTHER_UID), evidence(POD), OWNER, id="container-id-beats-pod-uid"),
        pytest.param(in_pod(uid=None), evidence(POD), OWNER, id="container-id-alone"),
        pytest.param(
            in_pod(cid=None),
            evidence(POD),
            replace(OWNER, container=""),
            id="several-containers-none-is-picked",
        ),
        pytest.param(
            in_pod(cid=None),
            evidence(replace(POD, containers=POD.containers[:1])),
            OWNER,
            id="no-container-id-but-only-one-container",
        ),
        pytest.param(
            in_pod(cid=ContainerId("c" * 64)),
            evidence(replace(POD, containers=POD.containers[:1])),
            replace(OWNER, container=""),
            id="an-id-unheard-of-may-be-the-sandbox-or-a-debug-container",
        ),
        pytest.param(
            in_pod(), evidence(logs=LOGGED), replace(OWNER, workload=GUESS), id="log-link-without-api"
        ),
        pytest.param(
            in_pod(cid=None),
            evidence(logs=PodLogs(pods={UID: LoggedPod("ml", POD.name, ("logs", "server"))})),
            replace(OWNER, container="", workload=GUESS),
            id="log-folder-without-api-several-containers",
        ),
        pytest.param(
            in_pod(cid=None),
            evidence(logs=PodLogs(pods={UID: LoggedPod("ml", POD.name, ("server",))})),
            replace(OWNER, workload=GUESS),
            id="log-folder-without-api-one-container",
        ),
        pytest.param(
            in_pod(cid=ContainerId("c" * 64)),
            evidence(POD, logs=PodLogs({ContainerId("c" * 64): LoggedContainer("ml", POD.name, "debug", UID)})),
            replace(OWNER, container="debug"),
            id="log-link-names-a-container-that-the-status-does-not-show-yet",
        ),
        pytest.param(
            in_pod(uid=OTHER_UID, cid=OTHER_CID),
            evidence(
                replace(POD, containers=(), workload=Workload("StatefulSet", "other")),
                logs=PodLogs({OTHER_CID: LoggedContainer("ml", POD.name, "server", OTHER_UID)}),
            ),
            Owner("ml", POD.name, "server", GUESS, OTHER_UID),
            id="a-pod-that-reuses-the-name-gives-no-workload",
        ),
        pytest.param(
            in_pod(uid=None, cid=ContainerId("c" * 64)),
            evidence(POD, logs=PodLogs({ContainerId("c" * 64): LoggedContainer("ml", POD.name, "server")})),
            Owner("ml", POD.name, "server", GUESS),
            id="a-log-link-that-tells-no-uid-may-be-of-an-earlier-pod-of-that-name",
        ),
        pytest.param(
            ProcessFacts(7, cgroup=Cgroup("pod", PodUid("59c4df0a0ccce5b7aad9ad5d4e5233db"))),
            evidence(replace(POD, containers=(), config_hash=PodUid("59c4df0a0ccce5b7aad9ad5d4e5233db"))),
            replace(OWNER, container=""),
            id="static-pod-by-its-configuration-hash",
        ),
        pytest.param(in_pod(), evidence(), Unattributed("pod-unknown"), id="pod-that-nothing-names"),
        pytest.param(
            ProcessFacts(7, cgroup=Cgroup("hidden")),
            evidence(POD),
            Unattributed("pod-unknown"),
            id="hidden-path",
        ),
        pytest.param(
            ProcessFacts(7, cgroup=Cgroup("container", container_id=ContainerId("d" * 64))),
            evidence(POD),
            Unattributed("container"),
            id="container-outside-kubernetes",
        ),
        pytest.param(
            ProcessFacts(7, cgroup=Cgroup("host", unit="ollama.service")),
            evidence(POD),
            Unattributed("host", "ollama.service"),
            id="host-process-with-its-unit",
        ),
        pytest.param(None, evidence(POD), Unattributed("exited"), id="no-answer-from-proc"),
        pytest.param(ProcessFacts(7, fault="exited"), evidence(POD), Unattributed("exited"), id="exited"),
        pytest.param(
            ProcessFacts(7, fault="permission"), evidence(POD), Unattributed("permission"), id="refused"
        ),
        pytest.param(
            in_pod(), Evidence(None, PodIndex.of([POD])), Unattributed("pid-namespace"), id="foreign-pids"
        ),
    ],
)
def test_holder(facts: ProcessFacts | None, known: Evidence, holder: Holder) -> None:
    assert holder == holder_of(facts, known)


VICTIM = Pod(OTHER_UID, "finance", "payroll", containers=(PodContainer("app", container_id=OTHER_CID),))


def test_a_container_that_names_a_cgroup_after_another_pod_stays_its_own_pods() -> None:
    disguised = ProcessFacts(7, cgroup=Cgroup("pod", OTHER_UID, OTHER_CID, outer=Cgroup("pod", UID, CID)))

    assert OWNER == holder_of(disguised, evidence(POD, VICTIM))


def test_a_container_of_another_runtime_is_nobodys_though_it_bears_a_known_id() -> None:
    forged = ProcessFacts(7, cgroup=Cgroup("container", container_id=CID))

    assert Unattributed("container") == holder_of(forged, evidence(POD))


def test_a_nested_kubelets_pod_owns_the_process_where_nothing_here_knows_the_outer_one() -> None:
    nested = ProcessFacts(
        7, cgroup=Cgroup("pod", UID, CID, outer=Cgroup("pod", OTHER_UID, ContainerId("e" * 64)))
    )

    assert OWNER == holder_of(nested, evidence(POD))


def test_an_earlier_run_of_a_container_is_still_its_pods() -> None:
    pod = replace(POD, containers=(PodContainer("server", container_id=OTHER_CID, past_container_ids=(CID,)),))

    assert replace(OWNER) == holder_of(in_pod(), evidence(pod))


def test_of_two_pods_with_one_name_the_later_stands() -> None:
    old, new = replace(POD, created_at=1.0), replace(POD, uid=OTHER_UID, created_at=2.0)

    index = PodIndex.of([new, old])

    assert new == index.by_name["ml", POD.name]
    assert old == index.by_uid[UID]


def test_a_pod_that_passes_for_a_static_one_takes_nobodys_place() -> None:
    config_hash = PodUid("59c4df0a0ccce5b7aad9ad5d4e5233db")
    static = replace(POD, containers=(), config_hash=config_hash, created_at=1.0)
    forged = Pod(OTHER_UID, "evil", "twin", config_hash=config_hash, created_at=2.0)
    thief = Pod(OTHER_UID, "evil", "thief", config_hash=UID, created_at=3.0)

    assert static == PodIndex.of([static, forged]).by_uid[config_hash]
    assert POD == PodIndex.of([POD, thief]).by_uid[UID]


GPU = Gpu(0, GpuUuid("GPU-0"))


def reading(processes: tuple[ProcessUse, ...] | None = ()) -> GpuReading:
    return GpuReading(GPU, up=True, memory=Memory(2000, 1000, 1000), processes=processes)


def container(memory: int | None) -> ContainerUse:
    return ContainerUse(GPU, MigUuid(""), OWNER, memory_used=memory)


def host(memory: int | None) -> UnattributedUse:
    return UnattributedUse(GPU, MigUuid(""), Unattributed("host"), memory_used=memory)


ENDED = replace(container(None), active=False)
ELSEWHERE = replace(container(100), gpu=Gpu(1, GpuUuid("GPU-1")))


@pytest.mark.parametrize(
    ("uses", "holder", "memory"),
    [
        pytest.param((container(300), host(200)), Unattributed("driver"), 500, id="what-no-holder-explains"),
        pytest.param((container(300), host(None)), Unattributed("unmeasured"), 700, id="a-holder-is-not-told"),
        pytest.param((ENDED, ELSEWHERE), Unattributed("driver"), 1000, id="the-ended-and-those-elsewhere"),
        pytest.param((container(1200),), Unattributed("driver"), 0, id="never-less-than-nothing"),
    ],
)
def test_the_remainder_makes_up_what_the_device_says(
    uses: tuple[ContainerUse | UnattributedUse, ...], holder: Unattributed, memory: int
) -> None:
    rest = remainder(reading(), uses)

    assert rest is not None
    assert (holder, memory) == (rest.holder, rest.memory_used)


def test_unreadable_process_lists_leave_all_memory_unmeasured() -> None:
    rest = remainder(reading(processes=None), [])

    assert rest is not None
    assert (Unattributed("unmeasured"), 1000) == (rest.holder, rest.memory_used)


def test_a_device_that_does_not_tell_its_memory_has_no_remainder() -> None:
    assert remainder(replace(reading(), memory=None), []) is None


ALLOCATION = Allocation("ml", POD.name, "server", "nvidia.com/gpu", "GPU-0")


@pytest.mark.parametrize(
    ("pods", "held"),
    [
        pytest.param([replace(POD, phase="Running")], True, id="running"),
        pytest.param([replace(POD, phase="Succeeded")], False, id="ended-pod-still-listed-by-the-kubelet"),
        pytest.param([replace(POD, phase="Failed")], False, id="failed"),
        pytest.param([], True, id="deleted-by-force-or-not-heard-of-yet"),
    ],
)
def test_allocations_end_with_their_pod(pods: list[Pod], held: bool) -> None:  # noqa: FBT001 - a table
    assert held == (live_allocations([ALLOCATION], PodIndex.of(pods)) == (ALLOCATION,))


def test_an_api_that_lists_none_of_the_kubelets_pods_was_asked_for_another_node() -> None:
    other = PodIndex.of([replace(POD, name="elsewhere")])

    assert not knows_this_node([ALLOCATION], other)
    assert not knows_this_node([ALLOCATION], PodIndex())
    assert knows_this_node([ALLOCATION], PodIndex.of([POD]))
    assert knows_this_node([], other)


def test_an_allocation_names_its_container_and_the_api_its_workload() -> None:
    assert OWNER == allocation_owner(ALLOCATION, evidence(POD))
    assert Owner("ml", POD.name, "server", GUESS) == allocation_owner(ALLOCATION, evidence())
