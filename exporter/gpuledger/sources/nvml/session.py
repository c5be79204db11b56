"""What one GPU answers under one handle and in one MIG mode; what it refuses is remembered for as long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import pynvml

from gpuledger.core.model import Gpu, GpuReading, MigUuid, ProcessUse
from gpuledger.sources.nvml.driver import Calls, Handle
from gpuledger.sources.nvml.gpm import RATIOS, TOTALS, GpmMeter, has_gpm
from gpuledger.sources.nvml.memory import memory_v2, read_memory
from gpuledger.sources.nvml.mig import MigDevices
from gpuledger.sources.nvml.plausible import Values
from gpuledger.sources.nvml.processes import LISTS, ProcessLists
from gpuledger.sources.nvml.samples import UseSamples
from gpuledger.sources.nvml.table import Table

_GPM_NAMES = (*RATIOS, *TOTALS)
_GPM_METRICS = tuple(f"gpu_{name}" for name in _GPM_NAMES)

_METRICS_BY_CALL: Mapping[Hashable, tuple[str, ...]] = {
    "gpu_mig_enabled": ("gpu_mig_enabled",),
    "memory": ("gpu_memory_total_bytes", "gpu_memory_used_bytes", "gpu_memory_free_bytes"),
    ("memory", memory_v2): ("gpu_memory_reserved_bytes",),
    "process_sm_utilization_ratio": ("process_sm_utilization_ratio",),
    "GPM": _GPM_METRICS,
    **{name: (f"gpu_{name}",) for name in _GPM_NAMES},
}
"""What is missing where a call outside the table is refused."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """`wall` tells Unix time, with which the driver stamps samples; `uptime` tells seconds since boot."""

    wall: Callable[[], float]
    uptime: Callable[[], float]


class Session:
    """Reads one GPU. Every method may raise `GpuLostError`."""

    def __init__(self, handle: Handle, clocks: Clocks, dropped: Counter[str], *, mig: bool) -> None:
        self.calls = Calls(handle)
        self._clocks = clocks
        self._values = Values(dropped)
        self._table = Table(self.calls, self._values)
        self._samples = UseSamples(self.calls, self._values)
        self._lists = ProcessLists(self.calls)
        self._meter: GpmMeter | None = None
        self._mig = MigDevices(self.calls, self._values) if mig else None
        self._refusals = 0
        self._unsupported: frozenset[str] = frozenset()

    def mig_enabled(self) -> bool | None:
        """Whether the GPU is in MIG mode; None when it does not tell."""
        modes = self.calls.ask("gpu_mig_enabled", pynvml.nvmlDeviceGetMigMode, self.calls.handle)
        enabled = None if modes is None else bool(modes[0])
        self._values.put(("gpu_mig_enabled", ()), enabled)
        return enabled

    def read_slow(self) -> None:
        """Read what changes rarely or is an average since the last time, and find the MIG devices."""
        self._table.read_slow()
        uptime = self._clocks.uptime()
        if self._meter is None and has_gpm(self.calls):
            self._meter = self.calls.ask("GPM samples", GpmMeter, self.calls, self._values)
        if self._meter is not None:
            measured = self._meter.read(uptime)
            for name in _GPM_NAMES:
                self._values.put((f"gpu_{name}", ()), measured.get(name))
        if self._mig is not None:
            self._mig.refresh()
            self._mig.measure(uptime)

    def read(self, gpu: Gpu, info: Mapping[str, str]) -> GpuReading:
        """Read what changes from cycle to cycle; the rest is as of the last slow round."""
        self._table.read_fast()
        memory = read_memory(self.calls, self._values, "gpu_memory_used_bytes")
        listed_at, wall = self._clocks.uptime(), self._clocks.wall()
        processes = self._read_processes(None if memory is None else memory.total)
        busy_samples = self._samples.of_gpu(wall)
        process_samples = self._samples.of_processes(wall)
        return GpuReading(
            gpu,
            up=self.calls.heard,
            info=info,
            memory=memory,
            values=self._values.by_metric(),
            processes=processes,
            listed_at=listed_at,
            read_at=wall,
            busy_samples=busy_samples,
            process_samples=process_samples,
            mig_devices=self._mig.read() if self._mig else (),
            unsupported=self._named_refusals(),
        )

    def close(self) -> None:
        """Give back what is held of NVML."""
        for held in (self._meter, self._mig):
            if held is not None:
                held.close()

    def _read_processes(self, total: int | None) -> tuple[ProcessUse, ...] | None:
        """The processes; one that has more memory than the GPU (`total` bytes) has none that is known."""
        merged = self._lists.read()
        if merged is None:
            return None
        for process, used in merged.items():
            if used is not None and total is not None and used > total:
                self._values.dropped["process_memory_used_bytes"] += 1
                merged[process] = None
        if self._mig is None:
            return tuple(ProcessUse(pid, used) for (pid, _), used in merged.items())
        uuids = self._mig.uuids({instance for _, instance in merged})
        return tuple(
            ProcessUse(pid, used, uuids.get(instance, MigUuid(""))) for (pid, instance), used in merged.items()
        )

    def _named_refusals(self) -> frozenset[str]:
        """The metrics that this GPU cannot tell."""
        refused = self.calls.refused
        if len(refused) != self._refusals:
            names = self._table.unsupported()
            names.update(*(metrics for key, metrics in _METRICS_BY_CALL.items() if key in refused))
            if self._meter in refused:
                names.update(_GPM_METRICS)
            if LISTS.keys() <= refused:
                names.add("gpu_processes")
            if "gpu_busy_seconds_total" in refused and "gpu_utilization_ratio" in names:
                names.add("gpu_busy_seconds_total")
            self._refusals, self._unsupported = len(refused), frozenset(names)
        return self._unsupported
