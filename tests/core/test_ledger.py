"""Accounts: who is charged for what, what is shown while it lasts, and what is kept after."""

from __future__ import annotations

import pytest

from gpuledger.core.ledger import OTHER_UNITS, UNIT_LIMIT, XID_OWNERS_SECONDS, Ledger
from gpuledger.core.meter import Moment
from gpuledger.core.model import (
    Allocation,
    Gpu,
    GpuReading,
    GpuUuid,
    MigUuid,
    Owner,
    PodUid,
    ProcessSample,
    ProcessUse,
    Reason,
    Unattributed,
    Values,
    Workload,
    XidEvent,
)
from gpuledger.core.snapshot import AttributedProcess, ContainerUse, Holder

GPU = Gpu(0, GpuUuid("GPU-0"))
WHOLE_GPU = MigUuid("")
START = 1_000_000.0
ALICE, BOB = Owner("ml", "alice", "train"), Owner("ml", "bob", "serve")
WHOLE = Allocation("ml", "alice", "train", "nvidia.com/gpu", "GPU-0", GPU.uuid)


def process(pid: int, holder: Holder, memory: int | None = 100, mig: MigUuid = WHOLE_GPU) -> AttributedProcess:
    return AttributedProcess(GPU, ProcessUse(pid, memory, mig), holder)


def book(
    ledger: Ledger,
    at: float,
    *processes: AttributedProcess,
    samples: dict[int, float] | None = None,
    joules: float | None = None,
    held: tuple[Owner, ...] = (),
    listed: bool = True,
) -> dict[str, ContainerUse]:
    """One cycle `at` seconds after the start; the containers after it, by pod."""
    now = Moment(at, START + at)
    values: dict[str, Values] = {} if joules is None else {"gpu_energy_joules_total": {(): joules}}
    reading = GpuReading(
        GPU,
        up=True,
        values=values,
        processes=tuple(p.use for p in processes) if listed else None,
        process_samples=None
        if samples is None
        else tuple(ProcessSample(pid, now.wall, ratio) for pid, ratio in samples.items()),
    )
    ledger.open()
    ledger.book_allocations([(GPU, WHOLE, owner) for owner in held], now)
    ledger.book(reading, processes, now)
    ledger.close(now)
    return {use.owner.pod: use for use in ledger.containers()}


def test_two_pods_on_one_gpu_are_charged_by_their_own_processes() -> None:
    ledger = Ledger()
    both = (process(1, ALICE, 300), process(2, ALICE, 200), process(3, BOB, 50))
    book(ledger, 0.0, *both, samples={1: 0.4, 2: 0.2, 3: 0.1})

    uses = book(ledger, 1.0, *both, samples={1: 0.4, 2: 0.2, 3: 0.1})

    assert (500, 2) == (uses["alice"].memory_used, uses["alice"].processes)
    assert (50, 1) == (uses["bob"].memory_used, uses["bob"].processes)
    assert uses["alice"].sm_ratio == pytest.approx(0.6)
    assert uses["alice"].sm_seconds == pytest.approx(0.6)
    assert uses["bob"].sm_seconds == pytest.approx(0.1)


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    uses = book(Ledger(), 0.0, process(1, ALICE, 300), process(2, ALICE, None), process(3, BOB, 0))

    assert uses["alice"].memory_used is None
    assert uses["alice"].processes == 2
    assert uses["bob"].memory_used == 0


def test_holding_a_gpu_without_a_process_is_idle_and_is_charged_for_the_time() -> None:
    ledger = Ledger()
    book(ledger, 0.0, samples={}, held=(ALICE,))

    idle = book(ledger, 60.0, samples={}, held=(ALICE,))["alice"]

    assert (0, 0.0, 0) == (idle.memory_used, idle.sm_ratio, idle.processes)
    assert idle.allocated == {"nvidia.com/gpu": 1}
    assert idle.allocated_seconds == {"nvidia.com/gpu": 60.0}
    assert idle.sm_seconds == 0.0


def test_unreadable_process_lists_make_a_holder_unknown_and_not_idle() -> None:
    unknown = book(Ledger(), 0.0, samples={}, held=(ALICE,), listed=False)["alice"]

    assert (None, None, None) == (unknown.memory_used, unknown.sm_ratio, unknown.processes)
    assert unknown.allocated == {"nvidia.com/gpu": 1}


@pytest.mark.parametrize(
    ("reason", "shown"),
    [("pod-unknown", None), ("pid-namespace", None), ("permission", None), ("host", 0), ("container", 0)],
)
def test_a_holder_is_not_idle_while_a_process_on_its_gpu_may_be_its_own(
    reason: Reason, shown: int | None
) -> None:
    stranger = process(9, Unattributed(reason))

    use = book(Ledger(), 0.0, stranger, samples={}, held=(ALICE,))["alice"]

    assert (shown, shown) == (use.memory_used, use.processes)


def test_allocated_time_goes_on_while_the_driver_is_silent() -> None:
    ledger = Ledger()
    book(ledger, 0.0, held=(ALICE,))
    for at in (10.0, 20.0):
        now = Moment(at, START + at)
        ledger.open()
        ledger.book_allocations([(GPU, WHOLE, ALICE)], now)

    (use,) = ledger.containers()

    assert use.allocated_seconds == {"nvidia.com/gpu": 20.0}
    assert use.memory_used is None


def test_time_between_two_allocations_is_not_charged() -> None:
    ledger = Ledger()
    book(ledger, 0.0, held=(ALICE,))
    book(ledger, 10.0, held=(ALICE,))
    book(ledger, 20.0)
    book(ledger, 70.0, held=(ALICE,))

    assert book(ledger, 80.0, held=(ALICE,))["alice"].allocated_seconds == {"nvidia.com/gpu": 20.0}


def test_gauges_end_with_the_process_and_counters_after_the_retention() -> None:
    ledger = Ledger(retention=120.0)
    book(ledger, 0.0, process(1, ALICE), samples={1: 1.0})
    book(ledger, 1.0, process(1, ALICE), samples={1: 1.0})

    ended = book(ledger, 2.0, samples={})["alice"]
    kept = book(ledger, 120.0, samples={})["alice"]
    gone = book(ledger, 122.0, samples={})

    assert not ended.active
    assert (None, None) == (ended.memory_used, ended.processes)
    assert ended.sm_seconds == kept.sm_seconds == pytest.approx(1.0)
    assert gone == {}


def test_a_thousand_pods_one_after_another_leave_no_more_than_the_retention_holds() -> None:
    ledger = Ledger(retention=10.0)
    for number in range(1000):
        book(
            ledger, float(number), process(number, Owner("ml", f"job-{number}", "main")), samples={number: 1.0}
        )

    assert len(ledger.containers()) <= 11


def test_a_pod_recreated_under_its_name_goes_on_counting() -> None:
    ledger = Ledger()
    first = Owner("ml", "web-0", "c", Workload("StatefulSet", "web"), PodUid("1"))
    second = Owner("ml", "web-0", "c", Workload("StatefulSet", "web"), PodUid("2"))
    book(ledger, 0.0, process(1, first), samples={1: 1.0})
    book(ledger, 1.0, process(1, first), samples={1: 1.0})

    uses = book(ledger, 2.0, process(2, second), samples={2: 1.0})

    assert len(uses) == 1
    assert uses["web-0"].owner.pod_uid == PodUid("2")
    assert uses["web-0"].sm_seconds == pytest.approx(2.0)


def test_sm_time_of_a_process_that_ended_since_its_last_listing_is_its_owners() -> None:
    ledger = Ledger()
    book(ledger, 0.0, process(1, ALICE), samples={1: 0.5})

    ended = book(ledger, 1.0, samples={1: 0.5})["alice"]

    assert ended.sm_seconds == pytest.approx(0.5)
    assert not ended.active


def test_while_the_process_lists_fail_sm_time_stays_with_who_was_listed_last() -> None:
    ledger = Ledger()
    book(ledger, 0.0, process(1, ALICE), samples={1: 0.5})
    for at in (1.0, 2.0):
        use = book(ledger, at, samples={1: 0.5, 9: 0.25}, listed=False)["alice"]

    assert use.sm_seconds == pytest.approx(1.0)
    assert {(u.holder.reason, u.sm_seconds) for u in ledger.unattributed()} == {("unmeasured", 0.5)}


def test_sm_time_of_a_process_that_left_before_it_was_listed_is_nobodys_who_can_be_named() -> None:
    ledger = Ledger()
    book(ledger, 0.0, samples={})

    book(ledger, 1.0, samples={7: 0.5})

    (use,) = ledger.unattributed()
    assert Unattributed("exited") == use.holder
    assert use.sm_seconds == pytest.approx(0.5)


def test_a_flood_of_host_units_is_booked_under_one_name() -> None:
    ledger = Ledger(retention=10.0)
    for number in range(10 * UNIT_LIMIT):
        book(ledger, number * 0.001, process(number, Unattributed("host", f"job-{number}.service")))
        (current,) = (use for use in ledger.unattributed() if use.active)
        assert current.memory_used == 100
        assert current.holder.unit == (f"job-{number}.service" if number < UNIT_LIMIT else OTHER_UNITS)


def test_a_unit_that_is_gone_makes_room_for_another() -> None:
    ledger = Ledger(retention=10.0)
    for number in range(10 * UNIT_LIMIT):
        book(ledger, number * 1.0, process(number, Unattributed("host", f"job-{number}.service")))

    assert OTHER_UNITS not in {use.holder.unit for use in ledger.unattributed()}


def test_energy_is_split_by_sm_time_and_adds_up_to_the_devices() -> None:
    ledger = Ledger()
    host = Unattributed("host", "ollama.service")
    all_three = (process(1, ALICE), process(2, BOB), process(3, host))
    book(ledger, 0.0, *all_three, samples={1: 0.6, 2: 0.2, 3: 0.2}, joules=1000.0)

    uses = book(ledger, 1.0, *all_three, samples={1: 0.6, 2: 0.2, 3: 0.2}, joules=1500.0)

    assert uses["alice"].energy_joules == pytest.approx(300.0)
    assert uses["bob"].energy_joules == pytest.approx(100.0)


def test_an_idle_cycle_charges_nobody_for_energy() -> None:
    ledger = Ledger()
    book(ledger, 0.0, process(1, ALICE), samples={}, joules=1000.0)

    assert book(ledger, 1.0, process(1, ALICE), samples={}, joules=1070.0)["alice"].energy_joules == 0.0


def test_on_mig_sm_use_is_unknown_and_memory_is_booked_on_the_instance() -> None:
    mig = MigUuid("MIG-1")

    use = book(Ledger(), 0.0, process(1, ALICE, 64, mig), samples=None)["alice"]

    assert (mig, 64) == (use.mig_uuid, use.memory_used)
    assert (None, None, None) == (use.sm_ratio, use.sm_seconds, use.energy_joules)


def test_xids_are_counted_and_their_owners_forgotten_after_an_hour() -> None:
    ledger = Ledger()
    ledger.book_xid(XidEvent(GPU.uuid, 31, START), GPU, (ALICE,))
    ledger.book_xid(XidEvent(GPU.uuid, 31, START + 5), GPU, (BOB,))

    (fresh,) = ledger.xids(Moment(10.0, START + 10))
    (old,) = ledger.xids(Moment(10.0, START + 6 + XID_OWNERS_SECONDS))

    assert (2, START + 5, (BOB,)) == (fresh.count, fresh.last_time, fresh.owners)
    assert (2, START + 5, ()) == (old.count, old.last_time, old.owners)
