"""The demo's node: the same at the same time whoever asks, and with everything that it promises to show."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pytest

from gpuledger.app.bookkeeper import Bookkeeper, Findings
from gpuledger.core.meter import Moment
from gpuledger.core.model import NvmlReading, Owner, Workload
from gpuledger.core.snapshot import ContainerUse, NodeSnapshot, UnattributedUse
from gpuledger.sources.simulated import SimulatedNode

START = 1_767_225_600.0
HOUR = 3600


@dataclass
class Clock:
    now: float = START

    def __call__(self) -> float:
        return self.now


def pids(reading: NvmlReading) -> set[int]:
    return {process.pid for gpu in reading.gpus for process in gpu.processes or ()}


@dataclass
class Demo:
    """A simulated node with the books that are kept of it."""

    clock: Clock = field(default_factory=Clock)
    books: Bookkeeper = field(default_factory=lambda: Bookkeeper("sim", retention=120.0, process_metrics=True))

    def __post_init__(self) -> None:
        self.node = SimulatedNode("sim", self.clock)

    def cycle(self, second: int) -> NodeSnapshot:
        since, self.clock.now = self.clock.now, START + second
        reading = self.node.nvml()
        found = Findings(
            nvml=reading,
            facts=self.node.processes(pids(reading), listed_at=0.0),
            pods=self.node.pods(),
            api_is_current=True,
            allocations=self.node.allocations().allocations,
            xids=tuple(self.node.xids(since, self.clock.now)),
        )
        return self.books.book(found, Moment(float(second), self.clock.now))


@pytest.fixture(scope="module")
def hour() -> list[NodeSnapshot]:
    demo = Demo()
    return [demo.cycle(second) for second in range(HOUR)]


@pytest.mark.parametrize("second", [0, 41, 60, 151, 1000.5, HOUR])
def test_two_nodes_agree_however_often_each_is_asked(second: float) -> None:
    clock = Clock()
    watched, asked_once = SimulatedNode("sim", clock), SimulatedNode("sim", clock)
    for earlier in range(int(second)):
        clock.now = START + earlier
        watched.nvml()
        watched.pods()
    clock.now = START + second

    reading = watched.nvml()

    assert reading == asked_once.nvml()
    assert watched.allocations() == asked_once.allocations()
    assert watched.pods() == asked_once.pods()
    assert watched.processes(pids(reading), listed_at=0.0) == asked_once.processes(pids(reading), listed_at=0.0)


def test_pods_are_the_same_picture_until_one_comes_or_goes() -> None:
    clock = Clock()
    node = SimulatedNode("sim", clock)
    first = node.pods()

    clock.now += 1
    assert node.pods() is first
    clock.now += 60
    assert node.pods() is not first


def test_a_clock_that_steps_back_takes_no_energy_back() -> None:
    demo = Demo()
    before = demo.cycle(100)

    after = demo.cycle(40)

    for old, new in zip(before.gpus, after.gpus, strict=True):
        counter = "gpu_energy_joules_total"
        assert new.reading.values[counter][()] == old.reading.values[counter][()]


def test_only_pids_that_are_asked_for_are_told_and_those_gone_have_exited() -> None:
    node = SimulatedNode("sim", Clock())

    facts = node.processes({1000, 4711}, listed_at=0.0)

    assert {1000: "", 4711: "exited"} == {pid: process.fault for pid, process in facts.items()}


def test_each_error_is_told_once(hour: list[NodeSnapshot]) -> None:
    (account,) = hour[-1].xids

    assert (31, (HOUR - 1) // 97) == (account.xid, account.count)


def test_memory_adds_up_on_every_gpu_all_the_time(hour: list[NodeSnapshot]) -> None:
    for snapshot in hour:
        shown: dict[str, int] = defaultdict(int)
        uses: list[ContainerUse | UnattributedUse] = [*snapshot.containers, *snapshot.unattributed]
        for use in uses:
            shown[use.gpu.uuid] += use.memory_used or 0
        device = {
            state.reading.gpu.uuid: state.reading.memory.used for state in snapshot.gpus if state.reading.memory
        }
        assert device == shown, snapshot.taken_at


def test_every_process_has_an_owner_but_the_hosts(hour: list[NodeSnapshot]) -> None:
    for snapshot in hour:
        strangers = [p.holder for p in snapshot.processes if not isinstance(p.holder, Owner)]
        assert ["nvidia-dcgm.service"] == [holder.unit for holder in strangers]
        assert snapshot.unresolved_allocations == 0


def test_energy_is_split_among_those_who_ran(hour: list[NodeSnapshot]) -> None:
    last = hour[-1]
    trainer = use_of(last, "finetune-x7k2p")
    device = last.gpus[0].reading.values["gpu_energy_joules_total"][()]

    assert trainer.energy_joules == pytest.approx(device)
    assert trainer.sm_seconds == pytest.approx(0.9 * HOUR, rel=0.02)


def use_of(snapshot: NodeSnapshot, pod: str) -> ContainerUse:
    (use,) = (use for use in snapshot.containers if use.owner.pod == pod)
    return use


def test_a_notebook_holds_a_gpu_and_leaves_it_idle(hour: list[NodeSnapshot]) -> None:
    notebook = use_of(hour[-1], "notebook-0")

    assert {"nvidia.com/gpu": 1} == notebook.allocated
    assert (0.0, 0.0) == (notebook.sm_ratio, notebook.sm_seconds)
    assert notebook.allocated_seconds["nvidia.com/gpu"] == pytest.approx(HOUR - 1)


def test_two_pods_share_a_gpu_and_differ_in_use(hour: list[NodeSnapshot]) -> None:
    server, reranker = (
        use_of(hour[-1], pod) for pod in ("llm-server-6d9f7c5b8d-q4zlm", "reranker-5c7b9d6f4f-8vwtx")
    )

    assert server.gpu == reranker.gpu
    assert {"nvidia.com/gpu.shared": 1} == server.allocated == reranker.allocated
    assert (server.sm_seconds or 0.0) > 1.5 * (reranker.sm_seconds or 0.0) > 0.0


def test_a_job_comes_and_goes_on_a_mig_device_under_a_new_name_each_time(hour: list[NodeSnapshot]) -> None:
    evals = {
        use.owner.pod: use
        for snapshot in hour
        for use in snapshot.containers
        if use.owner.workload == Workload("CronJob", "nightly-eval")
    }

    assert len(evals) == HOUR // 60
    assert all(use.mig_uuid and use.sm_seconds is None for use in evals.values())
    assert len([use for use in hour[-1].containers if use.owner.workload.name == "nightly-eval"]) <= 4


def test_somebody_uses_a_gpu_without_a_request(hour: list[NodeSnapshot]) -> None:
    sneaky = [use for snapshot in hour for use in snapshot.containers if use.owner.pod == "sneaky-3"]

    assert any(use.active and use.memory_used for use in sneaky)
    assert not any(use.allocated for use in sneaky)


def test_an_error_names_who_was_on_the_gpu(hour: list[NodeSnapshot]) -> None:
    (account,) = hour[-1].xids

    assert ["finetune-x7k2p"] == [owner.pod for owner in account.owners]
