"""The books of a node: whatever its sources say, nothing is lost, counted twice, guessed or shown as 0."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings

from fakes.findings import GPUS, MIGS, START, Cycle, container_id, cycles
from gpuledger.app.node.bookkeeper import Bookkeeper, Findings
from gpuledger.core.meter import Moment
from gpuledger.core.model import (
    Allocation,
    Cgroup,
    Gpu,
    GpuReading,
    LoggedContainer,
    Memory,
    NvmlReading,
    Owner,
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
from gpuledger.core.snapshot import ContainerUse, Holder, NodeSnapshot, UnattributedUse
from gpuledger.metrics.render import render_node

RETENTION = 60.0
Key = tuple[str, ...]


def bookkeeper() -> Bookkeeper:
    return Bookkeeper("node-1", retention=RETENTION, process_metrics=True)


def names(holder: Holder) -> tuple[str, ...]:
    """What a holder is known by, and what its account goes by."""
    if isinstance(holder, Owner):
        return (holder.namespace, holder.pod, holder.container)
    return (holder.reason, holder.unit)


def uses(snapshot: NodeSnapshot) -> list[ContainerUse | UnattributedUse]:
    return [*snapshot.containers, *snapshot.unattributed]


def account(use: ContainerUse | UnattributedUse) -> Key:
    return (use.gpu.uuid, use.mig_uuid, *names(use.owner if isinstance(use, ContainerUse) else use.holder))


# ---- whatever the sources say ----


@settings(max_examples=100, deadline=None)
@given(cycles())
def test_whatever_the_sources_say_the_books_are_true(history: list[Cycle]) -> None:
    books = bookkeeper()
    before: NodeSnapshot | None = None
    for found, now in history:
        snapshot = books.book(found, now)
        assert_memory_adds_up(found, snapshot)
        assert_each_process_is_on_one_holder(snapshot)
        assert_unknown_use_is_not_shown(snapshot)
        assert_nobody_is_named_without_evidence(found, snapshot)
        assert_what_ended_pods_held_is_free(found, snapshot)
        assert_pods_use_hold_or_ask_for_a_gpu(found, snapshot)
        assert_no_series_is_there_twice(snapshot)
        if before is not None:
            assert_counters_go_on(before, snapshot)
        before = snapshot


def assert_memory_adds_up(found: Findings, snapshot: NodeSnapshot) -> None:
    shown: Counter[str] = Counter()
    for use in uses(snapshot):
        shown[use.gpu.uuid] += use.memory_used or 0
    for reading in found.nvml.gpus if found.nvml else ():
        if reading.memory is not None:
            assert reading.memory.used == shown[reading.gpu.uuid]


def assert_each_process_is_on_one_holder(snapshot: NodeSnapshot) -> None:
    """And a sum with an unknown part is unknown."""
    listed: dict[Key, list[int | None]] = defaultdict(list)
    for process in snapshot.processes:
        listed[process.gpu.uuid, process.use.mig_uuid, *names(process.holder)].append(process.use.memory_used)
    for use in uses(snapshot):
        rows = listed.pop(account(use), [])
        if rows:
            known = [row for row in rows if row is not None]
            memory = sum(known) if len(known) == len(rows) else None
            assert (memory, len(rows)) == (use.memory_used, use.processes)
    assert not listed


def assert_unknown_use_is_not_shown(snapshot: NodeSnapshot) -> None:
    told = {state.reading.gpu.uuid for state in snapshot.gpus if state.reading.processes is not None}
    for use in snapshot.containers:
        if use.gpu.uuid not in told or not use.active:
            assert (None, None, None) == (use.memory_used, use.processes, use.sm_ratio)


def assert_nobody_is_named_without_evidence(found: Findings, snapshot: NodeSnapshot) -> None:
    named = set(named_by(found))
    assert named >= {names(p.holder) for p in snapshot.processes if isinstance(p.holder, Owner)}
    named |= {(a.namespace, a.pod, a.container) for a in found.allocations or ()}
    assert named >= {names(use.owner) for use in snapshot.containers if use.active}


def named_by(found: Findings) -> Iterator[tuple[str, ...]]:
    """Those whom the API and the log folders know; without a container where it can't be told."""
    for pod in found.pods.values():
        yield (pod.namespace, pod.name, "")
        yield from ((pod.namespace, pod.name, container.name) for container in pod.containers)
    for logged in found.logs.containers.values():
        yield (logged.namespace, logged.pod, logged.container)
    for folder in found.logs.pods.values():
        yield (folder.namespace, folder.pod, "")
        yield from ((folder.namespace, folder.pod, container) for container in folder.containers)


def assert_what_ended_pods_held_is_free(found: Findings, snapshot: NodeSnapshot) -> None:
    lives: dict[tuple[str, str], bool] = {}
    for pod in sorted(found.pods.values(), key=lambda pod: pod.created_at or 0.0):
        lives[pod.namespace, pod.name] = not pod.terminal
    for use in snapshot.containers:
        if use.allocated:
            assert lives.get((use.owner.namespace, use.owner.pod), True)


def assert_pods_use_hold_or_ask_for_a_gpu(found: Findings, snapshot: NodeSnapshot) -> None:
    in_api = {(pod.namespace, pod.name) for pod in found.pods.values()}
    active = {(use.owner.namespace, use.owner.pod) for use in snapshot.containers if use.active}
    asking = {(pod.namespace, pod.name) for pod in snapshot.pods if "nvidia.com/gpu" in pod.requests}
    shown = [(pod.namespace, pod.name) for pod in snapshot.pods]

    assert sorted((active & in_api) | asking) == sorted(shown)


def assert_no_series_is_there_twice(snapshot: NodeSnapshot) -> None:
    for family in render_node(snapshot):
        ((_, most),) = Counter(labels for labels, _ in family.rows).most_common(1)
        assert most == 1, family.spec.name


def counters(snapshot: NodeSnapshot) -> Iterator[tuple[Key, float]]:
    for use in uses(snapshot):
        totals = {"sm": use.sm_seconds}
        if isinstance(use, ContainerUse):
            totals |= {"energy": use.energy_joules, **use.allocated_seconds}
        yield from (((*account(use), name), value) for name, value in totals.items() if value is not None)


def assert_counters_go_on(before: NodeSnapshot, after: NodeSnapshot) -> None:
    """As long as its account lasts, a counter neither goes back nor vanishes.

    Of an account that had ended and is in use again nobody can tell whether it is the old one. What no
    process accounts for is no account: it may go by the name of one.
    """
    accounts = (u for u in uses(before) if isinstance(u, ContainerUse) or u.sm_seconds is not None)
    activity = {account(use): use.active for use in accounts}
    lasting = {account(use) for use in uses(after) if activity.get(account(use)) in (True, use.active)}
    counted = dict(counters(after))
    for counter, value in counters(before):
        if counter[:-1] in lasting:
            assert counted[counter] >= value, counter


# ---- one thing at a time ----

GPU, MIG_GPU = GPUS
POD = Pod(
    PodUid("u1"),
    "ml",
    "train-0",
    phase="Running",
    created_at=1.0,
    workload=Workload("StatefulSet", "train"),
    containers=(PodContainer("main", container_id=container_id(PodUid("u1"), "main")),),
    requests={"nvidia.com/gpu": 1.0},
)
OWNER = Owner("ml", "train-0", "main", POD.workload, POD.uid)
SUCCESSOR = replace(
    POD,
    uid=PodUid("u2"),
    created_at=2.0,
    containers=(PodContainer("main", container_id=container_id(PodUid("u2"), "main")),),
)
ALLOCATION = Allocation("ml", "train-0", "main", "nvidia.com/gpu", GPU.uuid)


def nvml(*processes: ProcessUse, gpu: Gpu = GPU) -> NvmlReading:
    migs = MIGS if gpu == MIG_GPU else ()
    return NvmlReading(
        (GpuReading(gpu, up=True, memory=Memory(1000, 900, 100), processes=processes, mig_devices=migs),)
    )


def facts(**uids: PodUid) -> dict[int, ProcessFacts]:
    """Facts of processes `p1`, `p2`, … of the pods with these UIDs."""
    return {
        int(name[1:]): ProcessFacts(int(name[1:]), cgroup=Cgroup("pod", uid, container_id(uid, "main")))
        for name, uid in uids.items()
    }


def pods(*pods: Pod) -> dict[PodUid, Pod]:
    return {pod.uid: pod for pod in pods}


def at(seconds: float) -> Moment:
    return Moment(seconds, START + seconds)


def xid(seconds: float, gpu: Gpu = GPU) -> tuple[XidEvent]:
    return (XidEvent(gpu.uuid, 79, START + seconds),)


TRAINING = Findings(nvml=nvml(ProcessUse(1, 300)), facts=facts(p1=POD.uid), pods=pods(POD))


def test_an_error_is_booked_on_those_who_were_there_the_cycle_before() -> None:
    books = bookkeeper()
    books.book(TRAINING, at(0))

    snapshot = books.book(Findings(nvml=nvml(), facts={}, pods=pods(POD), xids=xid(1)), at(1))

    assert [(OWNER,)] == [account.owners for account in snapshot.xids]


def test_an_error_in_the_first_cycle_is_booked_on_those_who_are_there_now() -> None:
    snapshot = bookkeeper().book(replace(TRAINING, xids=xid(0)), at(0))

    assert [(OWNER,)] == [account.owners for account in snapshot.xids]


def test_an_error_on_a_gpu_that_nobody_uses_is_booked_on_whoever_holds_it() -> None:
    found = Findings(nvml=nvml(), facts={}, pods=pods(POD), allocations=(ALLOCATION,), xids=xid(0))

    assert [(OWNER,)] == [account.owners for account in bookkeeper().book(found, at(0)).xids]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(
            Findings(
                nvml=nvml(ProcessUse(1, 1), ProcessUse(2, 1)),
                facts=facts(p1=POD.uid, p2=SUCCESSOR.uid),
                pods=pods(POD, SUCCESSOR),
                xids=xid(0),
            ),
            id="a-pod-and-its-successor-of-the-same-name",
        ),
        pytest.param(
            Findings(
                nvml=nvml(gpu=MIG_GPU),
                pods=pods(POD),
                allocations=tuple(replace(ALLOCATION, device_id=mig.uuid) for mig in MIGS),
                xids=xid(0, MIG_GPU),
            ),
            id="one-pod-on-two-mig-devices",
        ),
    ],
)
def test_an_error_names_each_owner_once(found: Findings) -> None:
    (account,) = bookkeeper().book(found, at(0)).xids

    assert [("ml", "train-0", "main")] == [names(owner) for owner in account.owners]


def test_a_pod_and_its_successor_of_the_same_name_share_an_account() -> None:
    books = bookkeeper()
    books.book(TRAINING, at(0))
    both = Findings(
        nvml=nvml(ProcessUse(1, 300), ProcessUse(2, 200)),
        facts=facts(p1=POD.uid, p2=SUCCESSOR.uid),
        pods=pods(POD, SUCCESSOR),
        allocations=(ALLOCATION,),
    )

    snapshot = books.book(both, at(1))

    (use,) = snapshot.containers
    assert (500, 2, {"nvidia.com/gpu": 1}) == (use.memory_used, use.processes, use.allocated)
    assert (SUCCESSOR,) == snapshot.pods


def test_a_workload_that_becomes_known_moves_the_series_and_doubles_none() -> None:
    books = bookkeeper()
    unknown = replace(POD, workload=Workload("", ""))
    books.book(replace(TRAINING, pods=pods(unknown)), at(0))

    snapshot = books.book(TRAINING, at(1))

    assert [OWNER] == [use.owner for use in snapshot.containers]


def test_a_pod_that_leaves_the_api_before_its_processes_keeps_its_workload() -> None:
    books = bookkeeper()
    held = replace(TRAINING, allocations=(ALLOCATION,))
    books.book(held, at(0))
    logged = LoggedContainer("ml", "train-0", "main", POD.uid)
    logs = PodLogs({container_id(POD.uid, "main"): logged}, {})

    snapshot = books.book(replace(held, pods={}, logs=logs, xids=xid(1)), at(1))

    assert [OWNER] == [use.owner for use in snapshot.containers] == [p.holder for p in snapshot.processes]
    assert [(OWNER,)] == [account.owners for account in snapshot.xids]


def test_a_host_process_that_tells_no_memory_leaves_its_units_memory_unmeasured() -> None:
    host = Cgroup("host", unit="ollama.service")
    found = Findings(
        nvml=nvml(ProcessUse(1, 300), ProcessUse(2, 100), ProcessUse(3, None)),
        facts={**facts(p1=POD.uid), 2: ProcessFacts(2, cgroup=host), 3: ProcessFacts(3, cgroup=host)},
        pods=pods(POD),
    )

    snapshot = bookkeeper().book(found, at(0))

    assert {("host", None), ("unmeasured", 600)} == {
        (use.holder.reason, use.memory_used) for use in snapshot.unattributed
    }


def test_an_ended_containers_counters_stand_for_the_retention_and_its_use_does_not() -> None:
    books = bookkeeper()
    books.book(replace(TRAINING, allocations=(ALLOCATION,)), at(0))
    books.book(replace(TRAINING, allocations=(ALLOCATION,)), at(10))
    gone = Findings(nvml=nvml(), facts={}, api_is_current=True)

    (kept,) = books.book(gone, at(11)).containers

    assert (False, None, None, {}) == (kept.active, kept.memory_used, kept.processes, kept.allocated)
    assert {"nvidia.com/gpu": 10.0} == kept.allocated_seconds
    assert books.book(gone, at(10 + RETENTION)).containers
    assert () == books.book(gone, at(10 + RETENTION + 1)).containers


def test_before_the_driver_has_answered_no_allocation_is_called_unresolved() -> None:
    found = Findings(pods=pods(POD), allocations=(ALLOCATION,))

    assert bookkeeper().book(found, at(0)).unresolved_allocations is None


def test_device_ids_keep_their_meaning_while_the_driver_is_silent() -> None:
    books = bookkeeper()
    found = Findings(pods=pods(POD), allocations=(ALLOCATION, replace(ALLOCATION, device_id="nobody's")))
    books.book(replace(found, nvml=nvml()), at(0))

    snapshot = books.book(found, at(1))

    assert ([{"nvidia.com/gpu": 1}], 1) == (
        [use.allocated for use in snapshot.containers],
        snapshot.unresolved_allocations,
    )
    assert () == snapshot.gpus


@pytest.mark.parametrize("shown", [True, False])
def test_processes_are_shown_if_wanted_and_counted_anyway(*, shown: bool) -> None:
    books = Bookkeeper("node-1", retention=RETENTION, process_metrics=shown)

    snapshot = books.book(TRAINING, at(0))

    assert (int(shown), 1) == (len(snapshot.processes), snapshot.attribution["owned"])


@pytest.mark.parametrize(
    ("pod", "shown"),
    [
        pytest.param(replace(POD, requests={}), True, id="uses-one-without-asking"),
        pytest.param(replace(SUCCESSOR, name="other", phase="Pending"), True, id="asks-for-one"),
        pytest.param(replace(SUCCESSOR, name="other", requests={"cpu": 1.0}), False, id="neither"),
    ],
)
def test_only_pods_that_concern_a_gpu_are_shown(pod: Pod, *, shown: bool) -> None:
    snapshot = bookkeeper().book(replace(TRAINING, pods=pods(POD) | pods(pod)), at(0))

    assert shown == (pod in snapshot.pods)


@pytest.mark.parametrize(
    "times",
    [
        pytest.param((0.0, 40.0, 80.0), id="each-within-the-retention-of-the-one-before"),
        pytest.param((0.0, RETENTION + 1), id="a-late-cycle-in-which-the-account-would-have-ended"),
    ],
)
def test_time_of_processes_too_short_lived_to_be_listed_adds_up(times: tuple[float, ...]) -> None:
    books = bookkeeper()
    counted = []
    for seconds in times:
        (unseen,) = nvml().gpus
        sampled = replace(unseen, process_samples=(ProcessSample(int(seconds) + 1, START + seconds, 0.5),))

        snapshot = books.book(Findings(nvml=NvmlReading((sampled,)), facts={}), at(seconds))

        counted += [u.sm_seconds for u in snapshot.unattributed if names(u.holder) == ("exited", "")]
    assert [seconds / 2 for seconds in times] == counted
