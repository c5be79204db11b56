"""A GPU node that does not exist: what every source would say of it, from a seed and the time alone.

Four GPUs: one trained on around the clock, one that a notebook holds and leaves idle, one shared by two
inference pods, one divided by MIG. Jobs come and go, somebody uses a GPU without asking, the host runs a
process of its own, and now and then the driver reports an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
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

    def generation(self, time: float) -> int | None:
        """Which of its pods lives at `time`; None between two."""
        if not self.period:
            return 0
        return int(time // self.period) if time % self.period < self.life else None


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
        self._read_at = self._start
        self._pods: dict[PodUid, Pod] = {}

    def nvml(self) -> NvmlReading:
        """What NVML would say now."""
        now = self._clock()
        elapsed, self._read_at = now - self._read_at, now
        return NvmlReading(tuple(self._gpu(index, now, elapsed) for index in range(len(_MODELS))))

    def processes(self, pids: Collection[int], _listed_at: float) -> Mapping[int, ProcessFacts]:
        """What /proc would say of these PIDs."""
        known = {pid: (tenant, name) for tenant, name, pid in self._alive(self._clock())}
        host = ProcessFacts(
            _HOST_PROCESS.pid, 1, self._start, "nv-hostengine", Cgroup("host", unit="nvidia-dcgm.service")
        )
        facts = {pid: self._facts(pid, *known[pid]) for pid in pids if pid in known}
        return {**facts, host.pid: host}

    def _facts(self, pid: int, tenant: _Tenant, pod: str) -> ProcessFacts:
        cgroup = Cgroup("pod", _pod_uid(tenant, pod), _container_id(tenant, pod), "burstable")
        age = self._clock() - self._start
        return ProcessFacts(pid, pid, self._start, "python", cgroup, cpu_seconds=age, resident_bytes=2 * GIB)

    def allocations(self) -> AllocationsReading:
        """What the kubelet's PodResources would list."""
        return AllocationsReading(
            tuple(
                Allocation(tenant.namespace, pod, tenant.container, tenant.resource, _device_id(tenant, index))
                for tenant, pod, _ in self._alive(self._clock())
                if tenant.resource
                for index in tenant.gpus
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
        alive = {_pod_uid(tenant, pod): (tenant, pod) for tenant, pod, _ in self._alive(self._clock())}
        if alive.keys() != self._pods.keys():
            now = self._clock()
            self._pods = {
                uid: self._pods.get(uid) or self._pod(tenant, pod, now) for uid, (tenant, pod) in alive.items()
            }
        return self._pods

    def _pod(self, tenant: _Tenant, name: str, now: float) -> Pod:
        requests = {tenant.resource: float(len(tenant.gpus))} if tenant.resource else {}
        container = PodContainer(tenant.container, "regular", _container_id(tenant, name), ready=True)
        return Pod(
            _pod_uid(tenant, name),
            tenant.namespace,
            name,
            self.node,
            "Running",
            "Burstable",
            ready=True,
            created_at=now,
            workload=tenant.workload,
            containers=(container,),
            requests=requests,
        )

    def health(self) -> SourceHealth:
        """A simulated API never fails."""
        return SourceHealth("kube", up=True, last_success=self._clock())

    def xids(self, since: float, until: float) -> list[XidEvent]:
        """Driver errors in a span of time."""
        first = int((since - self._start) // _XID_PERIOD) + 1
        last = int((until - self._start) // _XID_PERIOD)
        return [
            XidEvent(_gpu_uuid(_XID_GPU), _XID, self._start + n * _XID_PERIOD) for n in range(first, last + 1)
        ]

    def _alive(self, now: float) -> list[tuple[_Tenant, str, int]]:
        """Tenants that live now, with pod name and PID."""
        age = now - self._start
        lives = []
        for number, tenant in enumerate(_TENANTS):
            generation = tenant.generation(age)
            if generation is not None:
                lives.append((tenant, tenant.pod.format(generation), 1000 + 100 * number + generation % 100))
        return lives

    def _gpu(self, index: int, now: float, elapsed: float) -> GpuReading:
        model = _MODELS[index]
        tenants = [(t, pod, pid) for t, pod, pid in self._alive(now) if index in t.gpus]
        loads = {pid: tenant.load(now - self._start) for tenant, _, pid in tenants}
        total = sum(loads.values())
        busy = min(1.0, total)
        loads = {pid: load / max(1.0, total) for pid, load in loads.items()}
        watts = model.idle_watts + busy * (model.full_watts - model.idle_watts)
        self._joules[index] += watts * elapsed
        uses = [
            ProcessUse(pid, int(t.memory_gib * GIB), _mig_uuid(t.mig) if t.mig is not None else MigUuid(""))
            for t, _, pid in tenants
        ]
        if index == _HOST_GPU:
            uses.append(_HOST_PROCESS)
        used = sum(use.memory_used or 0 for use in uses) + int(DRIVER_GIB * GIB)
        total_bytes = model.memory_gib * GIB
        mig = index == _MIG_GPU
        return GpuReading(
            gpu=Gpu(index, _gpu_uuid(index)),
            up=True,
            info={"model": model.name, "architecture": model.architecture, "driver_version": "580.65.06"},
            memory=Memory(total_bytes, used, total_bytes - used),
            values=_values(model, busy, watts, self._joules[index], mig=mig),
            processes=tuple(uses),
            busy_samples=None if mig else ((now, busy),),
            process_samples=None if mig else tuple(ProcessSample(p, now, load) for p, load in loads.items()),
            mig_devices=_mig_devices(uses) if mig else (),
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
    devices = tuple(
        MigDevice(_mig_uuid(n), "1g.10gb", 7 + n, 0, Memory(10 * GIB, 0, 10 * GIB)) for n in range(2)
    )
    used = {use.mig_uuid: use.memory_used or 0 for use in uses}
    return tuple(
        replace(device, memory=Memory(10 * GIB, used.get(device.uuid, 0), 10 * GIB - used.get(device.uuid, 0)))
        for device in devices
    )


def _gpu_uuid(index: int) -> GpuUuid:
    return GpuUuid(f"GPU-51b0e4d2-0000-4000-8000-00000000000{index}")


def _mig_uuid(number: int) -> MigUuid:
    return MigUuid(f"MIG-51b0e4d2-0000-5000-8000-00000000000{number}")


def _device_id(tenant: _Tenant, index: int) -> str:
    return _mig_uuid(tenant.mig) if tenant.mig is not None else _gpu_uuid(index) + tenant.replica


def _pod_uid(tenant: _Tenant, pod: str) -> PodUid:
    digits = sha256(f"{tenant.namespace}/{pod}".encode()).hexdigest()
    return PodUid("-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32])))


def _container_id(tenant: _Tenant, pod: str) -> ContainerId:
    return ContainerId(sha256(f"{tenant.namespace}/{pod}/{tenant.container}".encode()).hexdigest())
