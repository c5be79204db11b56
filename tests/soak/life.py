"""The node role's own loop on a node that lives fast: `life.py DAYS` tells its size as it goes, in JSON.

Pods come and go on eight GPUs: each stays for minutes, has a name, a UID and a process that were never there
before, and some end badly, share a GPU or are unknown to the API. A cycle is 15 seconds of that life, and
takes a millisecond or two.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import uuid
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import psutil

from gpuledger.app import polling
from gpuledger.app.http import Request
from gpuledger.app.node import loop as nodeloop
from gpuledger.app.node.bookkeeper import Bookkeeper
from gpuledger.app.node.loop import NodeLoop, Sources
from gpuledger.app.node.site import NodeSite
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
from gpuledger.core.snapshot import SourceHealth
from soak.growth import size_of

START = 1_800_000_000.0
STEP_S = 15.0
DAY_S = 86_400.0
GPUS = 8
SLOTS = 2
"""Pods that may be on a GPU at once."""
LONGEST_S = 900.0
SIZES = 120
"""How often the size is told."""
GIB = 2**30


class FastClock:
    """In place of the module `time`."""

    def __init__(self) -> None:
        self.passed = 0.0

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self.passed

    def time(self) -> float:
        """Unix seconds."""
        return START + self.passed


@dataclass(frozen=True)
class Tenant:
    """A pod with a process, on a GPU until `ends`."""

    uid: PodUid
    container: ContainerId
    name: str
    namespace: str
    pid: int
    gpu: int
    ends: float
    known: bool


@dataclass
class Town:
    """Everybody on the node; it answers for all sources."""

    clock: FastClock
    chance: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - no secret
    xids: deque[XidEvent] = field(default_factory=deque)
    generations: int = 0
    _slots: dict[tuple[int, int], Tenant | None] = field(default_factory=dict)
    _pods: Mapping[PodUid, Pod] = field(default_factory=dict)

    def live(self) -> None:
        """Another cycle has passed."""
        for gpu in range(GPUS):
            for slot in range(SLOTS):
                tenant = self._slots.get((gpu, slot))
                if tenant is None or tenant.ends <= self.clock.passed:
                    if tenant is not None and self.chance.random() < 0.02:
                        self.xids.append(
                            XidEvent(_uuid(gpu), self.chance.choice((13, 31, 43)), self.clock.time())
                        )
                    self._slots[gpu, slot] = self._newcomer(gpu) if self.chance.random() < 0.7 else None
        self._pods = {tenant.uid: _pod(tenant) for tenant in self.tenants() if tenant.known}

    def tenants(self) -> Iterator[Tenant]:
        """Who is there now."""
        return (tenant for tenant in self._slots.values() if tenant is not None)

    def _newcomer(self, gpu: int) -> Tenant:
        self.generations += 1
        number = self.generations
        identity = uuid.UUID(int=self.chance.getrandbits(128), version=4)
        return Tenant(
            PodUid(str(identity)),
            ContainerId(f"{identity.hex}{number:032x}"),
            f"job-{number}-{identity.hex[:5]}",
            f"team-{number % 40}",
            1_000 + number % 4_000_000,
            gpu,
            self.clock.passed + self.chance.uniform(STEP_S, LONGEST_S),
            known=self.chance.random() < 0.95,
        )

    # ---- what the sources say ----

    def nvml(self) -> NvmlReading:
        return NvmlReading(tuple(self._reading(index) for index in range(GPUS)))

    def _reading(self, index: int) -> GpuReading:
        now = self.clock.time()
        here = [tenant for tenant in self.tenants() if tenant.gpu == index]
        used = len(here) * 10 * GIB + GIB
        busy = 0.4 * len(here)
        return GpuReading(
            Gpu(index, _uuid(index), index),
            up=True,
            memory=Memory(80 * GIB, used, 80 * GIB - used),
            values={"gpu_utilization_ratio": {(): busy}, "gpu_energy_joules_total": {(): 300.0 * now}},
            processes=tuple(ProcessUse(tenant.pid, 10 * GIB) for tenant in here),
            busy_samples=tuple((now - STEP_S + second, busy) for second in range(1, int(STEP_S) + 1)),
            process_samples=tuple(ProcessSample(tenant.pid, now, 0.4) for tenant in here if tenant.pid % 3),
        )

    def processes(self, pids: Collection[int], *, listed_at: float) -> Mapping[int, ProcessFacts]:  # noqa: ARG002 - as the loop asks
        return {
            tenant.pid: ProcessFacts(
                tenant.pid,
                100,
                START,
                "trainer",
                Cgroup("pod", tenant.uid, tenant.container, "burstable"),
                1.0,
                GIB,
            )
            for tenant in self.tenants()
            if tenant.pid in pids
        }

    def allocations(self) -> AllocationsReading:
        held = (
            Allocation(
                tenant.namespace, tenant.name, "main", "nvidia.com/gpu", _uuid(tenant.gpu), _uuid(tenant.gpu)
            )
            for tenant in self.tenants()
        )
        return AllocationsReading(tuple(held), {"nvidia.com/gpu": GPUS})

    def logs(self) -> PodLogs:
        return PodLogs()

    def pods(self) -> Mapping[PodUid, Pod]:
        return self._pods

    def health(self) -> SourceHealth:
        return SourceHealth("kube", up=True, last_success=self.clock.time())

    def run(self, _: object) -> None:
        """No thread is needed."""


def _uuid(gpu: int) -> GpuUuid:
    return GpuUuid(f"GPU-{gpu}0000000-0000-4000-8000-000000000000")


def _pod(tenant: Tenant) -> Pod:
    container = PodContainer(
        "main", container_id=tenant.container, ready=True, requests={"nvidia.com/gpu": 1.0}
    )
    return Pod(
        tenant.uid,
        tenant.namespace,
        tenant.name,
        node="n",
        phase="Running",
        workload=Workload("Job", tenant.name),
        containers=(container,),
        requests={"nvidia.com/gpu": 1.0},
    )


def main() -> int:
    """Live so many days."""
    cycles = int(float(sys.argv[1]) * DAY_S / STEP_S)
    clock = FastClock()
    # The loop and the polls take their time from the module of that name.
    for module in (nodeloop, polling):
        vars(module)["time"] = clock
    town = Town(clock)
    sources: dict[str, Any] = {
        name: getattr(town, name) for name in ("nvml", "processes", "allocations", "logs", "xids")
    }
    books = Bookkeeper("n", retention=120.0, process_metrics=True, idle_window=3_600.0)
    loop = NodeLoop(Sources(**sources, pods=town), books, interval=STEP_S)
    site = NodeSite("n", loop, stall_timeout=60.0, series_limit=10_000)
    process = psutil.Process()
    for cycle in range(1, cycles + 1):
        clock.passed += STEP_S
        town.live()
        for poll in loop._polls:
            poll._attempt(clock.passed)
        loop._cycle()
        if cycle % max(1, cycles // SIZES) == 0:
            pages = [site.answer(Request("GET", path, {})).body for path in ("/metrics", "/")]
            gc.collect()
            size = size_of(process, pages[0].decode(), len(gc.get_objects()))
            sys.stdout.write(json.dumps({**asdict(size), "generations": town.generations}) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
