"""The demo's cluster: the same at the same time whoever asks, and with everything that it promises to show."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from fakes.simulated import PODS, Clock, WatchedNode, node_of, pids, pods_of
from gpuledger.core.errors import SourceError
from gpuledger.core.model import Owner, Workload
from gpuledger.sources.kubehttp import ApiError
from gpuledger.sources.simulated import SimulatedCluster
from gpuledger.sources.simulated.day import DAY_SECONDS, HOUR_SECONDS, hour_of, is_between, times_of
from gpuledger.sources.simulated.population import LINGER_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuledger.core.model import Pod
    from gpuledger.core.snapshot import ContainerUse, NodeSnapshot, UnattributedUse

START = 1_767_225_600.0


@pytest.fixture(scope="module")
def days() -> dict[str, list[NodeSnapshot]]:
    """A day of each node, second by second."""
    names = ("gpu-h100-1", "gpu-a100-1", "gpu-l4-1", "gpu-dra-1")
    return {name: list(day_of(name)) for name in names}


def day_of(name: str) -> Iterator[NodeSnapshot]:
    clock = Clock(START)
    watched = WatchedNode(SimulatedCluster(1, clock), name, clock, idle_window=60.0)
    for second in range(int(DAY_SECONDS)):
        clock.now = START + second
        yield watched.cycle()


def uses_of(snapshots: list[NodeSnapshot], pod: str) -> list[ContainerUse]:
    """What pods whose names begin so used, whenever they did."""
    return [
        use for each in snapshots for use in each.containers if use.owner.pod.startswith(pod) and use.active
    ]


# ---- the clock ----


def test_a_day_begins_in_the_morning_and_comes_again() -> None:
    assert (8.0, 9.0, 8.0) == (hour_of(0), hour_of(HOUR_SECONDS), hour_of(DAY_SECONDS))


@pytest.mark.parametrize(
    ("start", "end", "hour", "expected"),
    [(9, 17, 12, True), (9, 17, 17, False), (22, 6, 3, True), (22, 6, 12, False)],
)
def test_hours_may_span_midnight(start: float, end: float, hour: float, *, expected: bool) -> None:
    assert expected == is_between(start, end, times_of(hour, -1.0, DAY_SECONDS)[0])


def test_an_hour_comes_once_a_day() -> None:
    assert [HOUR_SECONDS, HOUR_SECONDS + DAY_SECONDS] == times_of(9.0, 0.0, 2 * DAY_SECONDS)
    assert [] == times_of(9.0, HOUR_SECONDS, DAY_SECONDS)


# ---- the same whoever asks ----


@pytest.mark.parametrize("second", [0, 41, 60, 151, 1000.5])
def test_two_clusters_agree_however_often_each_is_asked(second: float) -> None:
    clock = Clock(START)
    watched, asked_once = SimulatedCluster(7, clock), SimulatedCluster(7, clock)
    for earlier in range(int(second)):
        clock.now = START + earlier
        node_of(watched, "gpu-a100-1").nvml()
    clock.now = START + second

    for name in ("gpu-a100-1", "gpu-l4-1"):
        one, other = node_of(watched, name), node_of(asked_once, name)
        reading = one.nvml()
        assert reading == other.nvml()
        assert one.allocations() == other.allocations()
        assert one.processes(pids(reading), listed_at=0.0) == other.processes(pids(reading), listed_at=0.0)
    assert watched.api.objects(PODS, {}, clock.now) == asked_once.api.objects(PODS, {}, clock.now)


@pytest.mark.parametrize("second", [0, 30, 50, 151, 270])
def test_a_day_that_takes_longer_tells_the_same_story(second: float) -> None:
    def story(day: float, now: float) -> list[Any]:
        clock = Clock(START)
        cluster = SimulatedCluster(1, clock, day=day)
        clock.now = now
        node = node_of(cluster, "gpu-h100-1")
        pods = {pod.name: (pod.phase, pod.ready) for pod in pods_of(cluster, "gpu-h100-1", now)}
        xids = [(event.gpu_uuid, event.xid) for event in node.xids(START, now)]
        states = [gpu.values["gpu_throttled"] for gpu in node.nvml().gpus]
        return [cluster.hour(), pods, xids, states]

    assert story(DAY_SECONDS, START + second) == story(10 * DAY_SECONDS, START + 10 * second)


def test_a_cluster_without_faults_lacks_what_somebody_should_be_told_of() -> None:
    clock = Clock(START)
    cluster = SimulatedCluster(1, clock, faults=False)
    clock.now = START + DAY_SECONDS

    names = {
        pod["metadata"]["labels"]["app.kubernetes.io/name"] for pod in cluster.api.objects(PODS, {}, clock.now)
    }
    assert names.isdisjoint({"miner", "debug-shell", "notebook-bob", "ablation-17", "moe-pretrain"})
    assert {"llama-pretrain", "llm-server", "nightly-eval", "simulate"} <= names
    for node in cluster.nodes:
        reading = node.nvml()
        assert [] == node.xids(START, clock.now)
        assert 901 not in pids(reading)
        assert {0.0} == {gpu.values["gpu_recovery_action"][()] for gpu in reading.gpus}


def test_another_seed_gives_other_names_and_the_same_story() -> None:
    one, other = (SimulatedCluster(seed, Clock(START)).api.objects(PODS, {}, START) for seed in (1, 2))

    assert [pod["metadata"]["labels"] for pod in one] != [pod["metadata"]["labels"] for pod in other]
    assert {pod["metadata"]["uid"] for pod in one}.isdisjoint(pod["metadata"]["uid"] for pod in other)
    assert [pod["spec"]["containers"][0]["name"] for pod in one] == [
        pod["spec"]["containers"][0]["name"] for pod in other
    ]


def test_a_clock_that_steps_back_takes_no_energy_back() -> None:
    clock = Clock(START)
    watched = WatchedNode(SimulatedCluster(1, clock), "gpu-l4-1", clock)
    clock.now = START + 100
    before = watched.cycle()
    clock.now = START + 40
    after = watched.cycle()

    for old, new in zip(before.gpus, after.gpus, strict=True):
        counter = "gpu_energy_joules_total"
        assert new.reading.values[counter][()] == old.reading.values[counter][()]


def test_a_process_that_is_gone_has_exited() -> None:
    node = node_of(SimulatedCluster(1, Clock(START)), "gpu-h100-1")

    assert "exited" == node.processes({4711}, listed_at=0.0)[4711].fault


def test_a_node_without_a_driver_says_so() -> None:
    with pytest.raises(SourceError, match=r"libnvidia-ml\.so\.1"):
        node_of(SimulatedCluster(1, Clock(START)), "gpu-t4-1").nvml()


# ---- nodes and cluster tell one story ----


def test_there_are_some_forty_pods_in_six_namespaces() -> None:
    pods = SimulatedCluster(1, Clock(START)).api.objects(PODS, {}, START)

    assert 38 <= len(pods) <= 45
    assert {"ml-training", "research", "inference", "batch", "sandbox", "gpu-operator"} == {
        pod["metadata"]["namespace"] for pod in pods
    }
    assert len(pods) == len({(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods})


def test_every_process_has_an_owner_but_the_hosts(days: dict[str, list[NodeSnapshot]]) -> None:
    strangers: dict[str, set[str]] = defaultdict(set)
    for name, snapshots in days.items():
        for snapshot in snapshots:
            assert snapshot.unresolved_allocations == 0
            strangers[name] |= {p.holder.unit for p in snapshot.processes if not isinstance(p.holder, Owner)}

    assert {
        "gpu-h100-1": {"nvidia-dcgm.service"},
        "gpu-l4-1": {"ollama.service"},
        "gpu-a100-1": set(),
        "gpu-dra-1": set(),
    } == strangers


def test_memory_adds_up_on_every_gpu_all_the_time(days: dict[str, list[NodeSnapshot]]) -> None:
    for snapshot in (snapshot for snapshots in days.values() for snapshot in snapshots):
        shown: dict[str, int] = defaultdict(int)
        uses: list[ContainerUse | UnattributedUse] = [*snapshot.containers, *snapshot.unattributed]
        for use in uses:
            shown[use.gpu.uuid] += use.memory_used or 0
        device = {
            state.reading.gpu.uuid: state.reading.memory.used for state in snapshot.gpus if state.reading.memory
        }
        assert device == shown, snapshot.taken_at


def test_nobody_is_given_more_memory_than_there_is(days: dict[str, list[NodeSnapshot]]) -> None:
    for snapshots in days.values():
        for state in (state for snapshot in snapshots for state in snapshot.gpus):
            for memory in (state.reading.memory, *(mig.memory for mig in state.reading.mig_devices)):
                assert memory is not None
                assert memory.free >= 0, state.reading.gpu


def test_misuse_is_that_of_the_story_and_no_more(days: dict[str, list[NodeSnapshot]]) -> None:
    found = {
        (name, finding.check, finding.owner.workload.name.partition("-")[0] if finding.owner else "")
        for name, snapshots in days.items()
        for snapshot in snapshots
        for finding in snapshot.findings
        if not finding.check.startswith("rt-idle")
    }

    assert {
        ("gpu-h100-1", "rt-use-without-request", "miner"),
        ("gpu-l4-1", "rt-host-process", ""),
    } == found


def test_notebooks_that_nobody_uses_are_found_idle(days: dict[str, list[NodeSnapshot]]) -> None:
    idle = {
        finding.owner.pod
        for finding in days["gpu-h100-1"][-1].findings
        if finding.check == "rt-idle-holding-memory" and finding.owner
    }

    assert {"notebook-alice-0", "notebook-bob-0"} == idle


# ---- the stories ----


def test_a_job_comes_and_goes_on_a_mig_device_under_a_new_name_each_time(
    days: dict[str, list[NodeSnapshot]],
) -> None:
    uses = uses_of(days["gpu-a100-1"], "nightly-eval")

    assert len({use.owner.pod for use in uses}) == DAY_SECONDS // 60
    assert {Workload("CronJob", "nightly-eval", inferred=True)} == {use.owner.workload for use in uses}
    assert all(use.mig_uuid for use in uses)


def test_a_container_that_crashes_is_the_same_pod_with_one_restart_more_each_time() -> None:
    def crashing(second: float) -> Pod:
        pods = pods_of(SimulatedCluster(1, Clock(START)), "gpu-h100-1", START + second)
        (pod,) = (pod for pod in pods if pod.name.startswith("ablation"))
        return pod

    running, waiting, again = crashing(5), crashing(30), crashing(50)

    assert running.name == again.name
    assert [True, False, True] == [pod.ready for pod in (running, waiting, again)]
    restarts = [pod.containers[0].restarts for pod in (running, waiting, again)]
    assert [0, 0, 1] == [count - restarts[0] for count in restarts]
    assert waiting.containers[0].last_terminated is not None
    assert 139 == waiting.containers[0].last_terminated.exit_code


def test_a_job_that_has_ended_lingers_and_holds_nothing() -> None:
    clock = Clock(START)
    cluster = SimulatedCluster(1, clock)
    clock.now = START + 41

    (pod,) = (pod for pod in pods_of(cluster, "gpu-a100-1", clock.now) if pod.name.startswith("nightly"))
    held = {each.pod for each in node_of(cluster, "gpu-a100-1").allocations().allocations}

    assert "Succeeded" == pod.phase
    assert pod.name not in held
    later = pods_of(cluster, "gpu-a100-1", START + 40 + LINGER_SECONDS)
    assert pod.name not in {pod.name for pod in later}


def test_errors_are_told_once_and_name_who_was_there(days: dict[str, list[NodeSnapshot]]) -> None:
    accounts = {account.xid: account for account in days["gpu-h100-1"][-1].xids}

    assert {31: 11, 94: 1} == {xid: account.count for xid, account in accounts.items()}
    assert ["ablation-17"] == [owner.workload.name for owner in accounts[31].owners]
    assert ["llama-pretrain-worker-0"] == [owner.pod for owner in accounts[94].owners]


def test_a_gpu_gets_too_hot_and_slows_down(days: dict[str, list[NodeSnapshot]]) -> None:
    seconds = {
        state.reading.gpu.index: state.throttled_seconds.get("hw_thermal_slowdown", 0.0)
        for state in days["gpu-h100-1"][-1].gpus
    }

    assert seconds[3] == pytest.approx(1.5 * HOUR_SECONDS, abs=2)
    assert {0.0} == {value for gpu, value in seconds.items() if gpu != 3}


def test_pods_share_a_gpu_and_differ_in_use(days: dict[str, list[NodeSnapshot]]) -> None:
    by_gpu: dict[int, set[str]] = defaultdict(set)
    for use in days["gpu-l4-1"][0].containers:
        by_gpu[use.gpu.index].add(use.owner.workload.name)

    assert {"llm-server", "reranker", "translate"} == by_gpu[0]
    last = {use.owner.workload.name: use.sm_seconds or 0.0 for use in days["gpu-l4-1"][-1].containers}
    assert last["llm-server"] > 1.5 * last["reranker"] > 0.0


# ---- the API ----


def lines(connection: Any, path: str, version: float, count: int) -> list[Any]:
    query = {"watch": "1", "resourceVersion": repr(version)}
    with connection.get(path, query, seconds=30.0, quiet=True) as answer:
        return [json.loads(line) for line, _ in zip(answer.lines(), range(count), strict=False)]


def test_a_watch_tells_what_has_changed_since_the_version_that_it_is_given() -> None:
    clock = Clock(START)
    connection = SimulatedCluster(1, clock).api.connect()
    clock.now = START + 41

    events = lines(connection, f"{PODS}", START + 39, 2)

    assert [("MODIFIED", "Succeeded"), ("BOOKMARK", None)] == [
        (event["type"], event["object"].get("status", {}).get("phase")) for event in events
    ]
    assert {repr(clock.now)} == {event["object"]["metadata"]["resourceVersion"] for event in events}


def test_hanging_up_ends_a_watch() -> None:
    connection = SimulatedCluster(1, Clock(START)).api.connect()
    connection.hang_up()

    assert [] == lines(connection, PODS, START, 1)


def test_what_is_not_served_is_not_found() -> None:
    with pytest.raises(ApiError, match="not found") as caught:
        SimulatedCluster(1, Clock(START)).api.connect().get(
            "/apis/resource.k8s.io/v1beta1/none", {}, seconds=1.0
        )
    assert 404 == caught.value.status
