"""Driver errors in the books: on whom they are booked, and for how long."""

from __future__ import annotations

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
    NvmlReading,
    PodLogs,
    ProcessFacts,
    ProcessUse,
    XidEvent,
)

GPU, OTHER = Gpu(0, GpuUuid("GPU-0")), Gpu(1, GpuUuid("GPU-1"))
PODS = {1: "first", 2: "second", 3: "elsewhere"}
"""Whose each PID is."""
LOGS = PodLogs({ContainerId(f"{pid:064}"): LoggedContainer("ml", pod, "main") for pid, pod in PODS.items()})
FACTS = {pid: ProcessFacts(pid, cgroup=Cgroup("pod", container_id=ContainerId(f"{pid:064}"))) for pid in PODS}


def books() -> Bookkeeper:
    return Bookkeeper("node1", retention=120.0, process_metrics=False)


def cycle(
    books: Bookkeeper, at: float, *pids: int, xid: int | None = None, held_by: str = ""
) -> dict[int, set[str]]:
    """A cycle with these processes on the first GPU; returns the pods named for each code."""
    readings = [
        GpuReading(gpu, up=True, processes=tuple(ProcessUse(pid, 1) for pid in on))
        for gpu, on in ((GPU, pids), (OTHER, (3,)))
    ]
    allocation = Allocation("ml", held_by, "main", "nvidia.com/gpu", GPU.uuid, GPU.uuid)
    found = Findings(
        nvml=NvmlReading(tuple(readings)),
        facts=FACTS,
        logs=LOGS,
        allocations=(allocation,) if held_by else (),
        xids=() if xid is None else (XidEvent(GPU.uuid, xid, at),),
    )
    snapshot = books.book(found, Moment(at, at))
    return {account.xid: {owner.pod for owner in account.owners} for account in snapshot.xids}


def test_an_error_names_whom_it_killed() -> None:
    ledger = books()
    cycle(ledger, 1.0, 1)

    assert {31: {"first"}} == cycle(ledger, 2.0, xid=31)


def test_an_error_while_one_pod_follows_another_names_both() -> None:
    ledger = books()
    cycle(ledger, 1.0, 1)

    assert {31: {"first", "second"}} == cycle(ledger, 2.0, 2, xid=31)


def test_whoever_comes_later_is_not_named() -> None:
    ledger = books()
    cycle(ledger, 1.0, 1, xid=31)

    assert {31: {"first"}} == cycle(ledger, 2.0, 2)


def test_an_error_on_a_gpu_that_nobody_uses_names_who_holds_it() -> None:
    assert {79: {"first"}} == cycle(books(), 1.0, xid=79, held_by="first")
    assert {79: set()} == cycle(books(), 1.0, xid=79)


def test_names_are_kept_for_an_hour_after_the_last_error_of_a_code() -> None:
    ledger = books()
    cycle(ledger, 1.0, 1, xid=31)
    cycle(ledger, 2.0, 2, xid=31)
    cycle(ledger, 1000.0, 2, xid=63)

    assert {31: {"second", "first"}, 63: {"second"}} == cycle(ledger, 3602.0)
    assert {31: set(), 63: {"second"}} == cycle(ledger, 3603.0)
