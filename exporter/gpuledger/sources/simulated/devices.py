"""What NVML reads of a GPU, given who is on it and how busy they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuledger.core.model import Gpu, GpuReading, Memory, MigDevice, MigUuid, ProcessSample, ProcessUse
from gpuledger.sources.simulated.hardware import GIB, MigSlice, Model

DRIVER_BYTES = GIB // 2
"""What the driver itself takes of each GPU."""
_SLOWDOWN_CELSIUS = 92.0
_NEAR_FULL = 0.92
_ASLEEP, _AWAKE = 8.0, 0.0
"""Performance states: P8 and P0."""

Values = dict[str, dict[tuple[str, ...], float]]


@dataclass(frozen=True, slots=True)
class Occupant:
    """A process on a GPU, and the share of its multiprocessors that it has."""

    pid: int
    memory: int
    load: float
    mig_uuid: MigUuid


@dataclass(frozen=True, slots=True)
class Board:
    """A GPU at a moment; `parts` are its MIG devices with their names."""

    model: Model
    gpu: Gpu
    occupants: Sequence[Occupant]
    parts: Mapping[MigUuid, MigSlice]
    joules: float
    hot: bool = False
    memory_faults: int = 0

    @property
    def busy(self) -> float:
        """Its use by all, from 0 to 1."""
        return min(1.0, sum(each.load for each in self.occupants))

    @property
    def watts(self) -> float:
        """The power that it draws."""
        return self.model.idle_watts + self.busy * (self.model.full_watts - self.model.idle_watts)


def read_board(board: Board, now: float) -> GpuReading:
    """Everything that NVML says of it at a Unix time."""
    model, divided = board.model, bool(board.parts)
    used = DRIVER_BYTES + sum(each.memory for each in board.occupants)
    samples = tuple(ProcessSample(each.pid, now, each.load) for each in board.occupants)
    return GpuReading(
        gpu=board.gpu,
        up=True,
        info={
            "model": model.name,
            "architecture": model.architecture,
            "driver_version": "580.65.06",
            "cuda_version": "13.0",
        },
        memory=_memory(model.memory_gib * GIB, used),
        values=_values(board),
        processes=tuple(ProcessUse(each.pid, each.memory, each.mig_uuid) for each in board.occupants),
        busy_samples=None if divided else ((now, board.busy),),
        process_samples=None if divided else samples,
        mig_devices=tuple(_mig_device(board, uuid, part) for uuid, part in board.parts.items()),
        unsupported=frozenset({"gpu_utilization_ratio"} if divided else ()),
    )


def _values(board: Board) -> Values:
    model, busy = board.model, board.busy
    celsius = 89.0 if board.hot else round(31 + 42 * busy)
    mhz = 1095 if board.hot else 345 + (model.top_mhz - 345) * min(1.0, 4 * busy)
    values: Values = {
        "gpu_temperature_celsius": {("gpu",): celsius},
        "gpu_temperature_slowdown_celsius": {(): _SLOWDOWN_CELSIUS},
        "gpu_power_watts": {(): board.watts},
        "gpu_power_limit_watts": {(): model.full_watts},
        "gpu_energy_joules_total": {(): board.joules},
        "gpu_clock_hertz": {("sm",): mhz * 1e6},
        "gpu_clock_max_hertz": {("sm",): model.top_mhz * 1e6},
        "gpu_throttled": {
            ("idle",): float(busy == 0),
            ("sw_power_cap",): float(busy > _NEAR_FULL and not board.hot),
            ("hw_thermal_slowdown",): float(board.hot),
        },
        "gpu_performance_state": {(): _AWAKE if busy else _ASLEEP},
        "gpu_pcie_link_generation": {(): 4.0 if busy else 1.0},
        "gpu_pcie_link_generation_max": {(): 4.0},
        "gpu_pcie_link_width": {(): 16.0},
        "gpu_pcie_link_width_max": {(): 16.0},
        "gpu_mig_enabled": {(): float(bool(board.parts))},
        **_health(board),
    }
    if model.links:
        values["gpu_nvlink_up"] = {(str(link),): 1.0 for link in range(model.links)}
    if not board.parts:
        values["gpu_utilization_ratio"] = {(): busy}
        values["gpu_memory_utilization_ratio"] = {(): 0.6 * busy}
    return values


def _health(board: Board) -> Values:
    faults = float(board.memory_faults)
    return {
        "gpu_ecc_errors_total": {
            (kind, scope): faults if kind == "uncorrected" else 0.0
            for kind in ("corrected", "uncorrected")
            for scope in ("volatile", "aggregate")
        },
        "gpu_remapped_rows": {("correctable",): 0.0, ("uncorrectable",): 0.0},
        "gpu_row_remap_pending": {(): float(faults > 0)},
        "gpu_row_remap_failed": {(): 0.0},
        "gpu_recovery_action": {(): float(faults > 0)},
    }


def _mig_device(board: Board, uuid: MigUuid, part: MigSlice) -> MigDevice:
    used = sum(each.memory for each in board.occupants if each.mig_uuid == uuid)
    return MigDevice(uuid, part.profile, part.gpu_instance, 0, _memory(part.memory_gib * GIB, used))


def _memory(total: int, used: int) -> Memory:
    return Memory(total, used, total - used)
