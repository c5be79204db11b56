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


TICK_SECONDS = 0.1
"""Samples closer together than this are of one tick: shorter than the shortest period."""


@dataclass(frozen=True, slots=True)
class Metered:
    """What was used since the reading before; None where the device does not tell."""

    busy_seconds: float | None = None
    throttled_seconds: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    energy_joules: float | None = None
    sm_seconds: Mapping[int, float] | None = None
    """By PID; a process without a sample used nothing."""
    sm_ratio: Mapping[int, float | None] | None = None
    """Current SM use by PID; a process without one is idle, one with None unknown."""


@dataclass(slots=True)
class _Marks:
    """Up to where a GPU's use has been booked."""

    read_at: Moment | None = None
    busy_at: Moment | None = None
    """When busy time was last told: not at every reading, where the buffer fails now and then."""
    busy_until: float | None = None
    sampled_at: Moment | None = None
    """When the processes' samples were last told."""
    samples: dict[int, tuple[float, float | None]] = field(default_factory=dict)
    """By PID: time and ratio of its last sample."""
    sampled: frozenset[int] = frozenset()
    """The PIDs with a sample of the newest tick: their next samples follow on those."""
    energy: float | None = None


class GpuMeter:
    """Remembers of one GPU what integration needs: when it was read, and up to where its buffers are booked."""

    def __init__(self) -> None:
        self._marks = _Marks()

    def read(self, reading: GpuReading, now: Moment) -> Metered:
        """What was used since the last call. A first reading, or one after a gap, only sets the marks.

        A GPU's time is that at which it was read itself: reading the others may have taken long.
        """
        if not reading.up:
            self._marks = _Marks()
            return Metered()
        at = now if reading.read_at is None else Moment(reading.listed_at, reading.read_at)
        elapsed = _elapsed(self._marks.read_at, at)
        throttled = reading.values.get("gpu_throttled", NOTHING)
        sm_seconds, sm_ratio = self._processes(reading, at)
        metered = Metered(
            self._busy(reading, at),
            {reason: active * elapsed for (reason,), active in throttled.items()},
            self._energy_growth(reading),
            sm_seconds,
            sm_ratio,
        )
        self._marks.read_at = at
        return metered

    def _busy(self, reading: GpuReading, at: Moment) -> float | None:
        """Busy time from the buffer; while that is silent, from the momentary utilisation, and never twice."""
        marks = self._marks
        elapsed, busy = _elapsed(marks.busy_at, at), 0.0
        if reading.busy_samples is None:
            momentary = reading.values.get("gpu_utilization_ratio", NOTHING).get(())
            if momentary is None:
                return None
            marks.busy_at, marks.busy_until = at, at.wall
            return float(momentary * elapsed)
        if marks.busy_until is not None and marks.busy_until > at.wall + SLACK_SECONDS:
            marks.busy_until = None  # the clock was set back
        for time, ratio in reading.busy_samples:
            if marks.busy_at is not None:
                busy += ratio * _covered(marks.busy_until, time, elapsed)
            marks.busy_until = max(time, marks.busy_until or time)
        marks.busy_at = at
        return min(busy, elapsed + SLACK_SECONDS)

    def _processes(
        self, reading: GpuReading, at: Moment
    ) -> tuple[dict[int, float] | None, dict[int, float | None] | None]:
        """SM seconds since the samples were last told, and current SM ratios, by PID."""
        if reading.process_samples is None:
            return None, None
        marks = self._marks
        elapsed = _elapsed(marks.sampled_at, at)
        seconds: dict[int, float] = {}
        for sample in reading.process_samples:
            if marks.sampled_at is not None:
                before = marks.samples.get(sample.pid)
                follows = before is not None and (sample.pid in marks.sampled or sample.pid in seconds)
                since = before[0] if before is not None and follows else marks.sampled_at.wall
                spent = (sample.sm_ratio or 0.0) * _covered(since, sample.time, elapsed)
            else:
                spent = 0.0
            seconds[sample.pid] = min(seconds.get(sample.pid, 0.0) + spent, elapsed + SLACK_SECONDS)
            marks.samples[sample.pid] = (sample.time, sample.sm_ratio)
        if seconds:
            newest = max(marks.samples[pid][0] for pid in seconds)
            latest = (pid for pid, (time, _) in marks.samples.items() if abs(newest - time) < TICK_SECONDS)
            marks.sampled = frozenset(latest)
        for pid, (time, _) in list(marks.samples.items()):
            if pid not in seconds and abs(at.wall - time) > HOLD_SECONDS:
                del marks.samples[pid]
        marks.sampled_at = at
        return seconds, {pid: ratio for pid, (_, ratio) in marks.samples.items()}

    def _energy_growth(self, reading: GpuReading) -> float | None:
        """Growth of the device's energy counter; a counter that went back was reset by a driver reload."""
        counter = reading.values.get("gpu_energy_joules_total", NOTHING).get(())
        before, self._marks.energy = self._marks.energy, counter
        return counter - before if counter is not None and before is not None and counter >= before else None


def _elapsed(since: Moment | None, at: Moment) -> float:
    return 0.0 if since is None else at.steady - since.steady


def _covered(since: float | None, until: float, elapsed: float) -> float:
    """Seconds that a sample at `until` stands for: since the one before, within this cycle and a period."""
    return 0.0 if since is None else min(max(until - since, 0.0), elapsed + SLACK_SECONDS)
