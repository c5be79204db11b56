"""A GPU node that does not exist: what every source would say of it, from the time alone.

Four GPUs: one trained on around the clock, one that a notebook holds and leaves idle, one shared by two
inference pods, one divided by MIG. Jobs come and go, somebody uses a GPU without asking, the host runs a
process of its own, and now and then the driver reports an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import sin

from gpuledger.core.model import (
    Allocation,
    AllocationsReading,
    Cgroup,
    ContainerId,
    Gpu,
    GpuReading,
    GpuUuid,
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
from gpuledger.core.snapshot import SourceHealth

GIB = 2**30
DRIVER_GIB = 0.5
"""What the driver itself uses of each GPU."""


@dataclass(frozen=True, slots=True)
class _Model:
    name: str
    architecture: str
    memory_gib: int
    idle_watts: float
    full_watts: float


_H100 = _Model("NVIDIA H100 80GB HBM3", "hopper", 80, 70.0, 700.0)
_A100 = _Model("NVIDIA A100-SXM4-80GB", "ampere", 80, 55.0, 400.0)
_L4 = _Model("NVIDIA L4", "ada", 24, 16.0, 72.0)
_MODELS = (_H100, _H100, _L4, _A100)
_MIG_GPU = 3
_XID_GPU, _XID, _XID_PERIOD = 0, 31, 97.0


@dataclass(frozen=True, slots=True)
class _Tenant:
    """Something that runs on GPUs; with a period it lives for a part of each, as a new pod every time."""

    namespace: str
    pod: str
    container: str
    workload: Workload
    gpus: tuple[int, ...]
    memory_gib: float
    load: Callable[[float], float]
    resource: str = "nvidia.com/gpu"
    replica: str = ""
    mig: int | None = None
    period: float = 0.0
    life: float = 0.0

    @property
    def mig_uuid(self) -> MigUuid:
        return MigUuid("") if self.mig is None else _mig_uuid(self.mig)

    def generation(self, age: float) -> int | None:
        """Which of its pods lives when the node is `age` seconds old; None between two."""
        if not self.period:
            return 0
        return int(age // self.period) if age % self.period < self.life else None


@dataclass(frozen=True, slots=True)
class _Life:
    """One pod of a tenant, with its only process; `born` is in Unix seconds."""

    tenant: _Tenant
    pod: str
    pid: int
    born: float

    @property
    def uid(self) -> PodUid:
        digits = sha256(f"{self.tenant.namespace}/{self.pod}".encode()).hexdigest()
        return PodUid("-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32])))

    @property
    def container_id(self) -> ContainerId:
        name = f"{self.tenant.namespace}/{self.pod}/{self.tenant.container}"
        return ContainerId(sha256(name.encode()).hexdigest())


def _busy(level: float) -> Callable[[float], float]:
    return lambda time: min(1.0, max(0.0, level + 0.08 * sin(time / 7.0)))


def _idle(_time: float) -> float:
    return 0.0


_TENANTS = (
    _Tenant("ml-training", "finetune-x7k2p", "trainer", Workload("Job", "finetune"), (0,), 61.0, _busy(0.9)),
    _Tenant("research", "notebook-0", "jupyter", Workload("StatefulSet", "notebook"), (1,), 9.0, _idle),
    _Tenant(
        "inference", "llm-server-6d9f7c5b8d-q4zlm", "server", Workload("Deployment", "llm-server"),
        (2,), 9.0, _busy(0.45), "nvidia.com/gpu.shared", "::0",
    ),
    _Tenant(
        "inference", "reranker-5c7b9d6f4f-8vwtx", "server", Workload("Deployment", "reranker"),
        (2,), 4.0, _busy(0.2), "nvidia.com/gpu.shared", "::1",
    ),
    _Tenant(
        "ml-training", "nightly-eval-2993430{}-rs69m", "eval", Workload("CronJob", "nightly-eval"),
        (3,), 6.0, _busy(0.6), "nvidia.com/mig-1g.10gb", mig=0, period=60.0, life=40.0,
    ),
    _Tenant(
        "research", "sneaky-{}", "miner", Workload("Pod", "sneaky"),
        (1,), 3.0, _busy(0.7), "", period=150.0, life=60.0,
    ),
)  # fmt: skip

_HOST_PROCESS = ProcessUse(900, int(0.3 * GIB))
_HOST_GPU = 1


class SimulatedNode:
    """Answers as every source of the node role would; `clock` gives Unix seconds."""

    def __init__(self, node: str, clock: Callable[[], float]) -> None:
        self.node = node
        self._clock = clock
        self._start = clock()
        self._joules = [0.0] * len(_MODELS)
        self._metered_seconds = 0
        self._pods: dict[PodUid, Pod] = {}

    def nvml(self) -> NvmlReading:
        """What NVML would say now."""
        now = self._clock()
        self._meter_energy(now)
        return NvmlReading(tuple(self._gpu(index, now) for index in range(len(_MODELS))))

    def processes(self, pids: Collection[int], *, listed_at: float) -> Mapping[int, ProcessFacts]:  # noqa: ARG002 - as Processes in app/loop.py; no PID is reused here
        """What /proc would say of these PIDs."""
        now = self._clock()
        host = Cgroup("host", unit="nvidia-dcgm.service")
        facts = {
            _HOST_PROCESS.pid: ProcessFacts(_HOST_PROCESS.pid, 1, self._start, "nv-hostengine", host),
            **{life.pid: _facts(life, now) for life in self._alive(now)},
        }
        return {pid: facts.get(pid, ProcessFacts(pid, fault="exited")) for pid in pids}

    def allocations(self) -> AllocationsReading:
        """What the kubelet's PodResources would list."""
        return AllocationsReading(
            tuple(
                Allocation(t.namespace, life.pod, t.container, t.resource, _device_id(t, index))
                for life in self._alive(self._clock())
                if (t := life.tenant).resource
                for index in t.gpus
            )
        )

    def logs(self) -> PodLogs:
        """What the kubelet's log folders would name; the API names everything here."""
        return PodLogs()

    def run(self, stop: threading.Event) -> None:
        """Nothing to watch: `pods` looks at the clock."""
        stop.wait()

    def pods(self) -> Mapping[PodUid, Pod]:
        """The pods that the API would list; the same object while none comes or goes."""
        alive = {life.uid: life for life in self._alive(self._clock())}
        if alive.keys() != self._pods.keys():
            self._pods = {uid: _pod(life, self.node) for uid, life in alive.items()}
        return self._pods

    def health(self) -> SourceHealth:
        """A simulated API never fails."""
        return SourceHealth("kube", up=True, last_success=self._clock())

    def xids(self, since: float, until: float) -> list[XidEvent]:
        """Driver errors after `since`, up to `until`."""
        first = int((since - self._start) // _XID_PERIOD) + 1
        last = int((until - self._start) // _XID_PERIOD)
        return [
            XidEvent(_gpu_uuid(_XID_GPU), _XID, self._start + n * _XID_PERIOD) for n in range(first, last + 1)
        ]

    def _alive(self, now: float) -> list[_Life]:
        """Pods that live now, each with its process."""
        lives = []
        for number, tenant in enumerate(_TENANTS):
            generation = tenant.generation(now - self._start)
            if generation is not None:
                pid = 1000 + 100 * number + generation % 100
                born = self._start + generation * tenant.period
                lives.append(_Life(tenant, tenant.pod.format(generation), pid, born))
        return lives

    def _loads(self, index: int, now: float) -> dict[_Life, float]:
        """SM use by process on a GPU, which together they can't use more than wholly."""
        age = now - self._start
        wanted = {life: life.tenant.load(age) for life in self._alive(now) if index in life.tenant.gpus}
        total = max(1.0, sum(wanted.values()))
        return {life: load / total for life, load in wanted.items()}

    def _watts(self, index: int, now: float) -> float:
        model = _MODELS[index]
        return model.idle_watts + sum(self._loads(index, now).values()) * (model.full_watts - model.idle_watts)

    def _meter_energy(self, now: float) -> None:
        """Count the energy of each whole second since the start, whenever it is asked for."""
        for second in range(self._metered_seconds, int(now - self._start)):
            for index in range(len(_MODELS)):
                self._joules[index] += self._watts(index, self._start + second)
            self._metered_seconds = second + 1

    def _gpu(self, index: int, now: float) -> GpuReading:
        model, loads = _MODELS[index], self._loads(index, now)
        busy = min(1.0, sum(loads.values()))
        uses = [ProcessUse(life.pid, int(life.tenant.memory_gib * GIB), life.tenant.mig_uuid) for life in loads]
        if index == _HOST_GPU:
            uses.append(_HOST_PROCESS)
        used = sum(use.memory_used or 0 for use in uses) + int(DRIVER_GIB * GIB)
        mig = index == _MIG_GPU
        samples = tuple(ProcessSample(life.pid, now, load) for life, load in loads.items())
        return GpuReading(
            gpu=Gpu(index, _gpu_uuid(index)),
            up=True,
            info={"model": model.name, "architecture": model.architecture, "driver_version": "580.65.06"},
            memory=_memory(model.memory_gib * GIB, used),
            values=_values(model, busy, self._watts(index, now), self._joules[index], mig=mig),
            processes=tuple(uses),
            busy_samples=None if mig else ((now, busy),),
            process_samples=None if mig else samples,
            mig_devices=_mig_devices(uses) if mig else (),
        )


def _facts(life: _Life, now: float) -> ProcessFacts:
    cgroup = Cgroup("pod", life.uid, life.container_id, "burstable")
    return ProcessFacts(
        life.pid,
        life.pid,
        life.born,
        "python",
        cgroup,
        cpu_seconds=now - life.born,
        resident_bytes=2 * GIB,
    )


def _pod(life: _Life, node: str) -> Pod:
    tenant = life.tenant
    return Pod(
        life.uid,
        tenant.namespace,
        life.pod,
        node,
        "Running",
        "Burstable",
        ready=True,
        created_at=life.born,
        workload=tenant.workload,
        containers=(PodContainer(tenant.container, "regular", life.container_id, ready=True),),
        requests={tenant.resource: float(len(tenant.gpus))} if tenant.resource else {},
    )


def _values(
    model: _Model, busy: float, watts: float, joules: float, *, mig: bool
) -> dict[str, dict[tuple[str, ...], float]]:
    values: dict[str, dict[tuple[str, ...], float]] = {
        "gpu_temperature_celsius": {("gpu",): round(32 + 44 * busy)},
        "gpu_power_watts": {(): watts},
        "gpu_power_limit_watts": {(): model.full_watts},
        "gpu_energy_joules_total": {(): joules},
        "gpu_clock_hertz": {("sm",): (345 + 1635 * busy) * 1e6},
        "gpu_throttled": {("idle",): float(busy == 0), ("sw_power_cap",): float(busy > 0.95)},  # noqa: PLR2004 - near full
        "gpu_mig_enabled": {(): float(mig)},
    }
    if not mig:
        values["gpu_utilization_ratio"] = {(): busy}
    return values


def _mig_devices(uses: list[ProcessUse]) -> tuple[MigDevice, ...]:
    used = {use.mig_uuid: use.memory_used or 0 for use in uses}
    return tuple(
        MigDevice(uuid, "1g.10gb", 7 + number, 0, _memory(10 * GIB, used.get(uuid, 0)))
        for number, uuid in enumerate(map(_mig_uuid, range(2)))
    )


def _memory(total: int, used: int) -> Memory:
    return Memory(total, used, total - used)


def _gpu_uuid(index: int) -> GpuUuid:
    return GpuUuid(f"GPU-51b0e4d2-0000-4000-8000-00000000000{index}")


def _mig_uuid(number: int) -> MigUuid:
    return MigUuid(f"MIG-51b0e4d2-0000-5000-8000-00000000000{number}")


def _device_id(tenant: _Tenant, index: int) -> str:
    return tenant.mig_uuid or _gpu_uuid(index) + tenant.replica
