"""What a cycle and a scrape cost, in calls of Python functions: the same number on any machine, however busy.

The limits are what it was when this was written and a tenth more. Who goes past one with good reason
raises it, and says in the commit what is bought; `make bench` tells what it is in CPU.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable

from gpuledger.app.http import Request
from gpuledger.app.node.bookkeeper import Bookkeeper, Findings
from gpuledger.app.node.scrape import MetricsPage
from gpuledger.core.meter import Moment
from gpuledger.core.model import (
    Allocation,
    Cgroup,
    ContainerId,
    Gpu,
    GpuReading,
    GpuUuid,
    Memory,
    NvmlReading,
    Pod,
    PodContainer,
    PodUid,
    ProcessFacts,
    ProcessSample,
    ProcessUse,
    Workload,
)

GPUS = 8
PROCESSES = 64
START = 1_700_000_000.0

CYCLE_LIMIT = 110
"""Calls for each process."""
SCRAPE_LIMIT = 195
"""Calls for each process, of the first scrape after a cycle."""
FURTHER_SCRAPE_LIMIT = 930
"""Calls in all, of the next one: of the books nothing is written twice."""


def uuid(gpu: int) -> GpuUuid:
    return GpuUuid(f"GPU-{gpu:08}-0000-4000-8000-000000000000")


def pod(number: int) -> Pod:
    container = PodContainer("main", container_id=ContainerId(f"{number:064x}"), requests={"nvidia.com/gpu": 1})
    name = f"train-{number}"
    uid, workload = PodUid(f"uid-{number}"), Workload("Pod", name)
    return Pod(uid, "team", name, phase="Running", workload=workload, containers=(container,))


def reading(index: int, second: int) -> GpuReading:
    pids = range(index, PROCESSES, GPUS)
    at = START + second
    return GpuReading(
        Gpu(index, uuid(index)),
        up=True,
        memory=Memory(80 << 30, 10 << 30, 70 << 30),
        values={"gpu_utilization_ratio": {(): 0.5}, "gpu_energy_joules_total": {(): 500.0 * second}},
        processes=tuple(ProcessUse(pid, 1 << 30) for pid in pids),
        listed_at=float(second),
        read_at=at,
        busy_samples=((at, 0.5),),
        process_samples=tuple(ProcessSample(pid, at, 0.1) for pid in pids),
    )


PODS = {PodUid(f"uid-{number}"): pod(number) for number in range(PROCESSES)}
ALLOCATIONS = tuple(
    Allocation("team", f"train-{n}", "main", "nvidia.com/gpu", uuid(n % GPUS)) for n in range(PROCESSES)
)
FACTS = {
    n: ProcessFacts(n, n, START, "python", Cgroup("pod", PodUid(f"uid-{n}"), ContainerId(f"{n:064x}")), 1.0, 1)
    for n in range(PROCESSES)
}


def cycle(second: int) -> tuple[Findings, Moment]:
    gpus = tuple(reading(index, second) for index in range(GPUS))
    found = Findings(
        nvml=NvmlReading(gpus), facts=FACTS, pods=PODS, api_is_current=True, allocations=ALLOCATIONS
    )
    return found, Moment(float(second), START + second)


def calls_of(action: Callable[[], object]) -> int:
    """How many calls of functions an action makes, those written in C too."""
    with cProfile.Profile() as profile:
        action()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]  # typeshed lacks it


def test_a_cycle_makes_no_more_calls_than_it_did() -> None:
    books = Bookkeeper("node-1", retention=60.0, process_metrics=True)
    for second in range(3):
        books.book(*cycle(second))
    found, now = cycle(3)

    assert calls_of(lambda: books.book(found, now)) / PROCESSES < CYCLE_LIMIT


def test_a_scrape_makes_no_more_calls_than_it_did() -> None:
    books = Bookkeeper("node-1", retention=60.0, process_metrics=True)
    newest = [books.book(*cycle(0))]
    page = MetricsPage("node-1", lambda: newest[0], list, lambda: None, series_limit=10_000)
    request = Request("GET", "/metrics", {"accept-encoding": "gzip"})
    page.answer(request)
    newest[0] = books.book(*cycle(1))
    first, further = (calls_of(lambda: page.answer(request)) for _ in range(2))

    assert first / PROCESSES < SCRAPE_LIMIT
    assert further < FURTHER_SCRAPE_LIMIT
