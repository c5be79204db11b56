"""What is read of every GPU: one row a reading. To add a device metric, add its row here and its spec.

Calls, fields and units are those of nvml.h. A row that a GPU refuses is dropped for that GPU alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import pynvml

from gpuledger.sources.nvml.plausible import Series

Unit: TypeAlias = Callable[[float], float]
"""Converts NVML's unit to the base unit."""

ALL_LINKS = 0xFFFFFFFF
"""The scope of an NVLink field that asks for the sum over all links."""


class Tier(Enum):
    """How often a row is read."""

    STATIC = "once per handle"
    FAST = "each cycle"
    SLOW = "each slow round"
    RARE = "each sixth slow round"


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One call and the series that it answers; `calls` are its versions, newest first.

    `values` takes the answer apart, in the order of `series`; None is unknown. By default the answer is the one
    value, in `unit`.
    """

    series: tuple[Series, ...]
    tier: Tier
    calls: tuple[Callable[..., Any], ...]
    args: tuple[int, ...] = ()
    unit: Unit = float
    values: Callable[[Any], Sequence[float | None]] | None = None

    def parse(self, answer: Any) -> Sequence[float | None]:
        """The values of `series`, in base units."""
        return (self.unit(answer),) if self.values is None else self.values(answer)


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field of nvmlDeviceGetFieldValues, which answers all of them in one call in each slow round."""

    name: str
    field_id: int
    labels: tuple[str, ...] = ()
    scope: int = 0
    unit: Unit = float

    @property
    def series(self) -> Series:
        """The one series that it answers."""
        return (self.name, self.labels)


def _from_percent(value: float) -> float:
    return value / 100


def _from_milli(value: float) -> float:
    return value / 1000


def _from_mega(value: float) -> float:
    return value * 1e6


def _from_kibi(value: float) -> float:
    return value * 1024


def _one(
    name: str,
    tier: Tier,
    *calls: Callable[..., Any],
    labels: tuple[str, ...] = (),
    args: tuple[int, ...] = (),
    unit: Unit = float,
    values: Callable[[Any], Sequence[float | None]] | None = None,
) -> Reading:
    return Reading(((name, labels),), tier, calls, args, unit, values)


_CLOCKS = {
    "graphics": pynvml.NVML_CLOCK_GRAPHICS,
    "sm": pynvml.NVML_CLOCK_SM,
    "memory": pynvml.NVML_CLOCK_MEM,
    "video": pynvml.NVML_CLOCK_VIDEO,
}

_THROTTLE_REASONS = {
    "idle": pynvml.nvmlClocksEventReasonGpuIdle,
    "applications_clocks_setting": pynvml.nvmlClocksEventReasonApplicationsClocksSetting,
    "sw_power_cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "hw_slowdown": pynvml.nvmlClocksEventReasonHwSlowdown,
    "sync_boost": pynvml.nvmlClocksEventReasonSyncBoost,
    "sw_thermal_slowdown": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "hw_thermal_slowdown": pynvml.nvmlClocksEventReasonHwThermalSlowdown,
    "hw_power_brake_slowdown": pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
    "display_clock_setting": pynvml.nvmlClocksEventReasonDisplayClockSetting,
}

_ECC_TYPES = {
    "corrected": pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
    "uncorrected": pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
}
_ECC_SCOPES = {"volatile": pynvml.NVML_VOLATILE_ECC, "aggregate": pynvml.NVML_AGGREGATE_ECC}

_MAX_FANS = 8


def _first_percent(answer: Sequence[int]) -> tuple[float]:
    return (_from_percent(answer[0]),)


READINGS = (
    Reading(
        (("gpu_utilization_ratio", ()), ("gpu_memory_utilization_ratio", ())),
        Tier.FAST,
        (pynvml.nvmlDeviceGetUtilizationRates,),
        values=lambda rates: (_from_percent(rates.gpu), _from_percent(rates.memory)),
    ),
    _one(
        "gpu_temperature_celsius",
        Tier.FAST,
        pynvml.nvmlDeviceGetTemperatureV,
        pynvml.nvmlDeviceGetTemperature,
        labels=("gpu",),
        args=(pynvml.NVML_TEMPERATURE_GPU,),
    ),
    _one(
        "gpu_temperature_slowdown_celsius",
        Tier.STATIC,
        pynvml.nvmlDeviceGetTemperatureThreshold,
        args=(pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,),
    ),
    _one("gpu_power_watts", Tier.FAST, pynvml.nvmlDeviceGetPowerUsage, unit=_from_milli),
    _one("gpu_power_limit_watts", Tier.SLOW, pynvml.nvmlDeviceGetEnforcedPowerLimit, unit=_from_milli),
    _one("gpu_energy_joules_total", Tier.FAST, pynvml.nvmlDeviceGetTotalEnergyConsumption, unit=_from_milli),
    *(
        _one(
            "gpu_clock_hertz",
            Tier.SLOW,
            pynvml.nvmlDeviceGetClockInfo,
            labels=(name,),
            args=(clock,),
            unit=_from_mega,
        )
        for name, clock in _CLOCKS.items()
    ),
    *(
        _one(
            "gpu_clock_max_hertz",
            Tier.STATIC,
            pynvml.nvmlDeviceGetMaxClockInfo,
            labels=(name,),
            args=(clock,),
            unit=_from_mega,
        )
        for name, clock in _CLOCKS.items()
    ),
    Reading(
        tuple(("gpu_throttled", (reason,)) for reason in _THROTTLE_REASONS),
        Tier.FAST,
        (pynvml.nvmlDeviceGetCurrentClocksEventReasons, pynvml.nvmlDeviceGetCurrentClocksThrottleReasons),
        values=lambda mask: [float(mask & bit != 0) for bit in _THROTTLE_REASONS.values()],
    ),
    _one(
        "gpu_performance_state",
        Tier.SLOW,
        pynvml.nvmlDeviceGetPerformanceState,
        values=lambda state: (None if state == pynvml.NVML_PSTATE_UNKNOWN else state,),
    ),
    _one(
        "gpu_encoder_utilization_ratio",
        Tier.SLOW,
        pynvml.nvmlDeviceGetEncoderUtilization,
        values=_first_percent,
    ),
    _one(
        "gpu_decoder_utilization_ratio",
        Tier.SLOW,
        pynvml.nvmlDeviceGetDecoderUtilization,
        values=_first_percent,
    ),
    *(
        _one(
            "gpu_ecc_errors_total",
            Tier.SLOW,
            pynvml.nvmlDeviceGetTotalEccErrors,
            labels=(kind, scope),
            args=(error_type, counter_type),
        )
        for kind, error_type in _ECC_TYPES.items()
        for scope, counter_type in _ECC_SCOPES.items()
    ),
    Reading(
        (
            ("gpu_remapped_rows", ("correctable",)),
            ("gpu_remapped_rows", ("uncorrectable",)),
            ("gpu_row_remap_pending", ()),
            ("gpu_row_remap_failed", ()),
        ),
        Tier.SLOW,
        (pynvml.nvmlDeviceGetRemappedRows,),
        values=lambda rows: rows,
    ),
    _one("gpu_pcie_replays_total", Tier.SLOW, pynvml.nvmlDeviceGetPcieReplayCounter),
    _one("gpu_pcie_link_generation", Tier.SLOW, pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
    _one("gpu_pcie_link_width", Tier.SLOW, pynvml.nvmlDeviceGetCurrPcieLinkWidth),
    _one("gpu_pcie_link_generation_max", Tier.STATIC, pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
    _one("gpu_pcie_link_width_max", Tier.STATIC, pynvml.nvmlDeviceGetMaxPcieLinkWidth),
    *(
        _one(
            "gpu_fan_speed_ratio",
            Tier.SLOW,
            pynvml.nvmlDeviceGetFanSpeed_v2,
            labels=(str(fan),),
            args=(fan,),
            unit=_from_percent,
        )
        for fan in range(_MAX_FANS)
    ),
    *(
        _one("gpu_nvlink_up", Tier.RARE, pynvml.nvmlDeviceGetNvLinkState, labels=(str(link),), args=(link,))
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS)
    ),
    _one("gpu_ecc_enabled", Tier.RARE, pynvml.nvmlDeviceGetEccMode, values=lambda modes: modes[:1]),
    _one("gpu_persistence_enabled", Tier.RARE, pynvml.nvmlDeviceGetPersistenceMode),
)

FIELDS = (
    Field("gpu_temperature_celsius", pynvml.NVML_FI_DEV_MEMORY_TEMP, ("memory",)),
    Field("gpu_retired_pages", pynvml.NVML_FI_DEV_RETIRED_SBE, ("single_bit_ecc",)),
    Field("gpu_retired_pages", pynvml.NVML_FI_DEV_RETIRED_DBE, ("double_bit_ecc",)),
    Field("gpu_retired_pages_pending", pynvml.NVML_FI_DEV_RETIRED_PENDING),
    Field("gpu_recovery_action", pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION),
    Field("gpu_nvlink_errors_total", pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, ("crc_flit",)),
    Field("gpu_nvlink_errors_total", pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, ("crc_data",)),
    Field("gpu_nvlink_errors_total", pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, ("replay",)),
    Field("gpu_nvlink_errors_total", pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, ("recovery",)),
    Field(
        "gpu_nvlink_transmitted_bytes_total",
        pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        scope=ALL_LINKS,
        unit=_from_kibi,
    ),
    Field(
        "gpu_nvlink_received_bytes_total",
        pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        scope=ALL_LINKS,
        unit=_from_kibi,
    ),
)
