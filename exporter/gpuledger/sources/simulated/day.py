"""The simulation's day, which takes minutes, and how busy somebody is in the course of it."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sin

DAY_SECONDS = 480.0
HOUR_SECONDS = DAY_SECONDS / 24
FIRST_HOUR = 8.0
"""The simulation starts in the morning, before most people come."""

Load = Callable[[float, float], float]
"""The wish for a GPU's multiprocessors, from 0 to 1, by age in seconds and a phase of one's own from 0 to 1."""


def hour_of(age: float) -> float:
    """The hour of the day, from 0 to 24, when the simulation is `age` seconds old."""
    return (FIRST_HOUR + age / HOUR_SECONDS) % 24


def times_of(hour: float, since: float, until: float) -> list[float]:
    """The ages, after `since` and up to `until`, at which it is that hour of a day."""
    first = (hour - FIRST_HOUR) % 24 * HOUR_SECONDS
    days = range(int(since // DAY_SECONDS), int(until // DAY_SECONDS) + 1)
    return [age for day in days if since < (age := first + day * DAY_SECONDS) <= until]


def is_between(start: float, end: float, age: float) -> bool:
    """Whether it is between two hours of the day, which may span midnight."""
    return (hour_of(age) - start) % 24 < (end - start) % 24


def idle(_age: float, _phase: float) -> float:
    """Somebody who has left."""
    return 0.0


def busy(level: float) -> Load:
    """Somebody who computes around the clock, a little less while data is loaded."""
    return lambda age, phase: level + 0.06 * sin(age / 7 + 2 * pi * phase)


def by_day(level: float) -> Load:
    """What the public asks for: most in the afternoon, little at night."""

    def load(age: float, phase: float) -> float:
        tide = 0.55 + 0.45 * sin((hour_of(age) - 9) / 24 * 2 * pi)
        return level * tide * (1 + 0.15 * sin(age / 3 + 2 * pi * phase))

    return load


def at_work(level: float, start: float = 9, end: float = 17) -> Load:
    """Somebody at a notebook: a cell runs now and then, in office hours."""

    def load(age: float, phase: float) -> float:
        runs = (age / 9 + phase) % 1 < 0.5  # noqa: PLR2004 - half of the time they think
        return level if runs and is_between(start, end, age) else 0.0

    return load
