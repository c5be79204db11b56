"""One GPU's readings integrated over time: how much was used between two cycles.

NVML's sample buffers are taken in sample by sample, so that what is accumulated does not depend on how often
anybody looks. Time is passed in on two clocks: `steady` never steps, `wall` (which NVML stamps its samples
with) may, and then no time is booked that did not pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuledger.core.model import NOTHING, GpuReading

SLACK_SECONDS = 1.0
"""The longest period between two samples of NVML's buffers (nvml.h: 1/6 to 1 second, by product)."""

HOLD_SECONDS = 2.0
"""How long a process's last sample stands as its current utilisation: two of the longest periods."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant on both clocks, in seconds."""

    steady: float
    wall: float


@dataclass(frozen=True, slots=True)
class Metered:
    """What was used since the reading before; None where the device does not tell."""

    busy_seconds: float | None = None
    throttled_seconds: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    energy_joules: float | None = None
    sm_seconds: Mapping[int, float] | None = None
    """By PID; a process without a sample used nothing."""
    sm_ratio: Mapping[int, float] | None = None
    """Current SM use by PID; a process without one is idle."""


class GpuMeter:
    """Remembers of one GPU what integration needs: when it was read, and up to where its buffers are booked."""

    def __init__(self) -> None:
        self._read_at: Moment | None = None
        self._busy_until: float | None = None
        self._energy: float | None = None
        self._samples: dict[int, tuple[float, float]] = {}

    def read(self, reading: GpuReading, now: Moment) -> Metered:
        """What was used since the last call. A first reading, or one after a gap, only sets the marks."""
        if not reading.up:
            self._read_at = self._busy_until = self._energy = None
            self._samples.clear()
            return Metered()
        elapsed = 0.0 if self._read_at is None else now.steady - self._read_at.steady
        sm_seconds, sm_ratio = self._processes(reading, elapsed, now)
        metered = Metered(
            self._busy(reading, elapsed),
            {
                reason: active * elapsed
                for (reason,), active in reading.values.get("gpu_throttled", NOTHING).items()
            },
            self._energy_growth(reading),
            sm_seconds,
            sm_ratio,
        )
        self._read_at = now
        return metered

    def _busy(self, reading: GpuReading, elapsed: float) -> float | None:
        if reading.busy_samples is None:
            momentary = reading.values.get("gpu_utilization_ratio", NOTHING).get(())
            return None if momentary is None else float(momentary * elapsed)
        busy = 0.0
        for time, ratio in reading.busy_samples:
            busy += ratio * self._covered(self._busy_until, time, elapsed)
            self._busy_until = time
        return busy

    def _processes(
        self, reading: GpuReading, elapsed: float, now: Moment
    ) -> tuple[dict[int, float] | None, dict[int, float] | None]:
        """SM seconds since the last reading, and current SM ratios, by PID."""
        if reading.process_samples is None:
            self._samples.clear()
            return None, None
        for pid in [pid for pid, (time, _) in self._samples.items() if abs(now.wall - time) > HOLD_SECONDS]:
            del self._samples[pid]
        last_reading = self._read_at.wall if self._read_at is not None else None
        seconds: dict[int, float] = {}
        for sample in reading.process_samples:
            before = self._samples.get(sample.pid)
            since = before[0] if before is not None else last_reading
            spent = sample.sm_ratio * self._covered(since, sample.time, elapsed)
            seconds[sample.pid] = seconds.get(sample.pid, 0.0) + spent
            self._samples[sample.pid] = (sample.time, sample.sm_ratio)
        return seconds, {pid: ratio for pid, (_, ratio) in self._samples.items()}

    def _covered(self, since: float | None, until: float, elapsed: float) -> float:
        """Seconds that a sample at `until` stands for: since the one before, within this cycle and a period."""
        if since is None or self._read_at is None:
            return 0.0
        return min(max(until - since, 0.0), elapsed + SLACK_SECONDS)

    def _energy_growth(self, reading: GpuReading) -> float | None:
        """Growth of the device's energy counter; a counter that went back was reset by a driver reload."""
        counter = reading.values.get("gpu_energy_joules_total", NOTHING).get(())
        before, self._energy = self._energy, counter
        return counter - before if counter is not None and before is not None and counter >= before else None
