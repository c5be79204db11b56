"""The node's loop over sources that hang, fail and come back: each by itself, and the books stay true."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

import pytest

from gpuledger.app.http import Request
from gpuledger.app.node import loop as loop_module
from gpuledger.app.node.bookkeeper import Bookkeeper, Findings
from gpuledger.app.node.loop import NodeLoop, Sources
from gpuledger.app.node.site import NodeSite
from gpuledger.core.errors import SourceError
from gpuledger.core.meter import Moment
from gpuledger.core.model import (
    Allocation,
    AllocationsReading,
    Cgroup,
    ContainerId,
    Gpu,
    GpuReading,
    GpuUuid,
    Memory,
    NvmlReading,
    Owner,
    Pod,
    PodContainer,
    PodLogs,
    PodUid,
    ProcessFacts,
    ProcessUse,
    Unattributed,
    XidEvent,
)
from gpuledger.core.snapshot import NodeSnapshot, SourceHealth

INTERVAL = 0.05
DEADLINE = 0.2
GPU = Gpu(0, GpuUuid("GPU-51b0e4d2-0000-4000-8000-000000000000"))
CID = ContainerId("a" * 64)
POD = Pod(PodUid("uid"), "ml", "train-0", phase="Running", containers=(PodContainer("main", container_id=CID),))
OWNER = Owner("ml", "train-0", "main", pod_uid=POD.uid)
ALLOCATION = Allocation("ml", "train-0", "main", "nvidia.com/gpu", GPU.uuid)


class World:
    """Sources that answer well; a test replaces `before[name]` to let one fail or hang first."""

    def __init__(self) -> None:
        self.before: dict[str, Callable[[], object]] = {}
        self.listed_at: list[float] = []
        self.api = SourceHealth("kube", up=True)
        self.other_node = False
        self.sources = Sources(
            nvml=self.nvml,
            processes=self.processes,
            allocations=self.allocations,
            logs=self.logs,
            pods=self,
            xids=deque(),
        )

    def nvml(self) -> NvmlReading:
        self._first("nvml")
        processes = (ProcessUse(7, 300),)
        return NvmlReading(
            (GpuReading(GPU, up=True, memory=Memory(1000, 400, 600), processes=processes, listed_at=5.0),)
        )

    def processes(self, pids: Collection[int], *, listed_at: float) -> Mapping[int, ProcessFacts]:
        self._first("procfs")
        self.listed_at.append(listed_at)
        return {pid: ProcessFacts(pid, cgroup=Cgroup("pod", POD.uid, CID)) for pid in pids}

    def allocations(self) -> AllocationsReading:
        self._first("podresources")
        return AllocationsReading((ALLOCATION,), {"nvidia.com/gpu": 8})

    def logs(self) -> PodLogs:
        self._first("podlogs")
        return PodLogs()

    def run(self, stop: threading.Event) -> None:
        stop.wait()

    def pods(self) -> Mapping[PodUid, Pod]:
        return {} if self.other_node else {POD.uid: POD}

    def health(self) -> SourceHealth:
        return self.api

    def _first(self, name: str) -> None:
        self.before.get(name, lambda: None)()

    def fail(self, name: str, message: str = "gone", *, restart: bool = False) -> None:
        def act() -> None:
            raise SourceError(message, restart=restart)

        self.before[name] = act

    @contextmanager
    def hanging(self, name: str) -> Iterator[None]:
        release = threading.Event()
        self.before[name] = release.wait
        try:
            yield
        finally:
            del self.before[name]
            release.set()


class RecordingBookkeeper(Bookkeeper):
    """Remembers what it was given; `fault` is raised where there is one."""

    def __init__(self) -> None:
        super().__init__("node-1", retention=0.0, process_metrics=True)
        self.found: list[Findings] = []
        self.fault: Exception | None = None

    def book(self, found: Findings, now: Moment) -> NodeSnapshot:
        self.found.append(found)
        if self.fault is not None:
            raise self.fault
        return super().book(found, now)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {
        "NVML_DEADLINE_SECONDS": DEADLINE,
        "PROCFS_DEADLINE_SECONDS": DEADLINE,
        "KUBELET_INTERVAL_SECONDS": INTERVAL,
        "KUBELET_DEADLINE_SECONDS": DEADLINE,
        "LOGS_INTERVAL_SECONDS": INTERVAL,
        "LOGS_DEADLINE_SECONDS": DEADLINE,
        "ALLOCATIONS_OUTLIVE_SECONDS": 2 * DEADLINE,
        "STOP_SECONDS": 0.5,
    }.items():
        monkeypatch.setattr(loop_module, name, seconds)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def books() -> RecordingBookkeeper:
    return RecordingBookkeeper()


@contextmanager
def running(sources: Sources, books: Bookkeeper, interval: float = INTERVAL) -> Iterator[NodeLoop]:
    loop = NodeLoop(sources, books, interval=interval)
    loop.start()
    try:
        until(lambda: loop.snapshot() is not None and health(loop, "podresources").up)
        yield loop
    finally:
        loop.stop()


@pytest.fixture
def loop(world: World, books: RecordingBookkeeper) -> Iterator[NodeLoop]:
    with running(world.sources, books) as loop:
        until(lambda: shown(loop).containers)
        yield loop


def until(holds: Callable[[], object], timeout: float = 5) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def shown(loop: NodeLoop) -> NodeSnapshot:
    snapshot = loop.snapshot()
    assert snapshot is not None
    return snapshot


def health(loop: NodeLoop, name: str) -> SourceHealth:
    return {source.name: source for source in loop.health()}[name]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_what_the_sources_say_is_brought_together(loop: NodeLoop, world: World) -> None:
    until(lambda: shown(loop).containers[0].allocated)
    (use,) = shown(loop).containers

    assert (OWNER, 300, {"nvidia.com/gpu": 1}) == (use.owner, use.memory_used, use.allocated)
    assert ["nvml", "podresources", "podlogs", "procfs", "kube"] == [source.name for source in loop.health()]
    assert all(source.up for source in loop.health())
    assert {5.0} == set(world.listed_at)
    assert [] == loop.troubles(stall_timeout=1)


def test_a_driver_that_hangs_takes_its_own_readings_along_and_nobody_elses(
    loop: NodeLoop, world: World
) -> None:
    with world.hanging("nvml"):
        until(lambda: not shown(loop).gpus)

        assert [source.name for source in loop.health() if not source.up] == ["nvml"]
        (use,) = shown(loop).containers
        assert (True, None, None) == (use.active, use.memory_used, use.processes)
        later = shown(loop).taken_at
        until(lambda: shown(loop).taken_at > later)
    until(lambda: shown(loop).gpus)


def test_a_hang_shows_in_time_however_rarely_the_gpus_are_read(
    world: World, books: RecordingBookkeeper, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "TICK_SECONDS", INTERVAL)
    with world.hanging("nvml"), running(world.sources, books, interval=60.0):
        until(lambda: lines(caplog))

    assert ["nvml: no answer for more than 0.2 s"] == lines(caplog)


def test_a_stuck_driver_is_trouble_after_the_stall_timeout_and_not_before(loop: NodeLoop, world: World) -> None:
    with world.hanging("nvml"):
        until(lambda: not shown(loop).gpus)

        assert [] == loop.troubles(stall_timeout=10)
        until(lambda: loop.troubles(stall_timeout=0.3))
        assert ["nvml: a call has been without an answer for 0 s"] == loop.troubles(stall_timeout=0.3)
    until(lambda: not loop.troubles(stall_timeout=0.3))


def test_what_only_a_restart_cures_is_trouble_at_once(loop: NodeLoop, world: World) -> None:
    world.fail("nvml", "unknown error", restart=True)

    until(lambda: loop.troubles(stall_timeout=10))
    assert ["nvml: unknown error"] == loop.troubles(stall_timeout=10)


def test_a_missing_driver_is_no_trouble(loop: NodeLoop, world: World) -> None:
    world.fail("nvml", "no driver")

    until(lambda: not shown(loop).gpus)
    assert [] == loop.troubles(stall_timeout=10)


def test_a_loop_that_hangs_shows_no_old_snapshot_and_is_trouble(loop: NodeLoop, world: World) -> None:
    with world.hanging("procfs"):
        until(lambda: loop.snapshot() is None)

        (trouble,) = loop.troubles(stall_timeout=0.3)
        assert trouble.startswith("loop: no cycle for ")
    until(lambda: loop.snapshot() is not None)
    assert [] == loop.troubles(stall_timeout=0.3)


def test_a_hang_in_proc_is_told_though_the_loop_itself_hangs(
    loop: NodeLoop, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    shown(loop)
    with world.hanging("procfs"):
        until(lambda: "no answer" in health(loop, "procfs").error)

        assert not health(loop, "procfs").up
        assert health(loop, "nvml").up
        until(lambda: any(line.startswith("procfs: no answer for") for line in lines(caplog)))
        time.sleep(1.2)
        assert 1 == sum(line.startswith("procfs: no answer for") for line in lines(caplog))
        assert loop.last_cycle() is not None


def test_an_api_that_knows_none_of_the_kubelets_pods_is_no_evidence(
    world: World, books: RecordingBookkeeper
) -> None:
    world.other_node = True
    with running(world.sources, books) as loop:
        until(lambda: "--node-name" in health(loop, "kube").error)

        assert not health(loop, "kube").up
        assert ["nvidia.com/gpu"] == [r for use in shown(loop).containers for r in use.allocated]


def test_a_loop_whose_first_cycle_hangs_is_trouble_too(world: World, books: RecordingBookkeeper) -> None:
    loop = NodeLoop(world.sources, books, interval=INTERVAL)
    with world.hanging("procfs"):
        loop.start()

        until(lambda: loop.troubles(stall_timeout=0.2))
        assert loop.snapshot() is None
    loop.stop()


def test_what_the_kubelet_could_give_is_shown(loop: NodeLoop) -> None:
    until(lambda: shown(loop).allocatable)
    assert {"nvidia.com/gpu": 8} == shown(loop).allocatable


def test_a_reading_is_booked_once_however_often_the_loop_looks(
    world: World, books: RecordingBookkeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "TICK_SECONDS", 0.01)
    with running(world.sources, books, interval=0.2):
        time.sleep(0.7)
    readings = [found.nvml for found in books.found if found.nvml is not None]

    assert 3 <= len(readings) <= 6
    assert len({id(reading) for reading in readings}) == len(readings)


def test_processes_that_proc_does_not_tell_of_are_no_exited_ones(loop: NodeLoop, world: World) -> None:
    world.fail("procfs", "cannot read /proc/7: Too many open files")

    until(lambda: not health(loop, "procfs").up)
    until(lambda: any(use.active for use in shown(loop).unattributed if use.holder.reason == "permission"))
    assert shown(loop).attribution["exited"] == 0
    assert shown(loop).gpus
    failed = health(loop, "procfs")
    assert failed.error == "cannot read /proc/7: Too many open files"
    assert failed.failures > 0
    assert failed.last_success is not None
    del world.before["procfs"]
    until(lambda: health(loop, "procfs").up)
    assert health(loop, "procfs").error == ""


def test_outside_the_hosts_pid_namespace_no_process_is_looked_up(
    world: World, books: RecordingBookkeeper
) -> None:
    sources = Sources(
        nvml=world.nvml,
        processes=None,
        allocations=world.allocations,
        logs=world.logs,
        pods=None,
        xids=deque(),
    )
    with running(sources, books) as loop:
        until(lambda: shown(loop).processes)

        assert [Unattributed("pid-namespace")] == [process.holder for process in shown(loop).processes]
        assert not health(loop, "procfs").up
        assert "set hostPID: true" in health(loop, "procfs").error


def test_allocations_outlive_a_kubelet_that_is_away_for_a_while(loop: NodeLoop, world: World) -> None:
    until(lambda: shown(loop).containers[0].allocated)
    world.fail("podresources")
    until(lambda: not health(loop, "podresources").up)
    after_a_cycle(loop)
    assert {"nvidia.com/gpu": 1} == shown(loop).containers[0].allocated

    until(lambda: not shown(loop).containers[0].allocated)
    assert shown(loop).containers[0].memory_used == 300


def after_a_cycle(loop: NodeLoop) -> None:
    for _ in range(2):
        before = shown(loop).taken_at
        until(lambda before=before: shown(loop).taken_at > before)  # type: ignore[misc]


def test_driver_errors_are_booked_once_each(loop: NodeLoop, world: World) -> None:
    world.sources.xids.extend([XidEvent(GPU.uuid, 79, time.time())] * 2)

    until(lambda: shown(loop).xids)
    after_a_cycle(loop)
    (account,) = shown(loop).xids
    assert (79, 2, (OWNER,)) == (account.xid, account.count, account.owners)


def test_a_cycle_that_fails_is_told_once_and_is_trouble_while_it_lasts(
    loop: NodeLoop, books: RecordingBookkeeper, caplog: pytest.LogCaptureFixture
) -> None:
    books.fault = ZeroDivisionError("by nought")

    until(lambda: loop.snapshot() is None)
    assert loop.troubles(stall_timeout=0.3)
    assert ["cycle failed; the last snapshot stands until it is too old"] == lines(caplog)
    books.fault = None
    until(lambda: loop.snapshot() is not None)
    assert [] == loop.troubles(stall_timeout=0.3)


@pytest.mark.parametrize("source", ["nvml", "podresources", "podlogs", "procfs"])
def test_a_failing_source_is_one_line_in_the_log_and_its_return_another(
    loop: NodeLoop, world: World, caplog: pytest.LogCaptureFixture, source: str
) -> None:
    caplog.set_level(logging.INFO)
    world.fail(source, "gone; bring it back")
    until(lambda: health(loop, source).failures >= 2)
    del world.before[source]
    until(lambda: health(loop, source).up and len(lines(caplog)) > 1)

    assert [f"{source}: gone; bring it back", f"{source}: answers again"] == lines(caplog)


@pytest.mark.usefixtures("loop")
def test_the_api_is_in_the_log_as_every_source_is(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    states = (
        SourceHealth("kube", up=False, error="403: forbidden; see RBAC"),
        SourceHealth("kube", up=False, error="connection refused"),
        SourceHealth("kube", up=True),
    )
    for told, state in enumerate(states):
        world.api = state
        until(lambda: len(lines(caplog)) > told)  # noqa: B023 - waited for within the turn

    assert ["kube: 403: forbidden; see RBAC", "kube: connection refused", "kube: answers again"] == lines(
        caplog
    )


def test_stopping_ends_all_threads(world: World, books: RecordingBookkeeper) -> None:
    before = set(threading.enumerate())
    with running(world.sources, books):
        assert {"health", "loop", "nvml", "podresources", "podlogs", "kube"} == {
            thread.name for thread in set(threading.enumerate()) - before
        }

    assert before >= set(threading.enumerate())


def test_stopping_does_not_wait_for_a_driver_that_hangs(loop: NodeLoop, world: World) -> None:
    with world.hanging("nvml"):
        until(lambda: not shown(loop).gpus)
        began = time.monotonic()
        loop.stop()

        assert time.monotonic() - began < 1


@pytest.mark.parametrize(
    ("path", "well", "hung"),
    [
        pytest.param("/healthz", b"ok\n", b"loop: no cycle for ", id="healthz"),
        pytest.param("/readyz", b"ready\n", b"no cycle has been completed lately\n", id="readyz"),
    ],
)
def test_probes_tell_a_loop_that_hangs(
    loop: NodeLoop, world: World, path: str, well: bytes, hung: bytes
) -> None:
    site = NodeSite("node-1", loop, stall_timeout=0.3, series_limit=10)
    answer = site.answer(Request("GET", path, {}))
    assert (200, well) == (answer.status, answer.body)

    with world.hanging("procfs"):
        until(lambda: loop.snapshot() is None)
        answer = site.answer(Request("GET", path, {}))
        assert answer.status == 503
        assert answer.body.startswith(hung)
