"""The newest values of one GPU. What no device can truly read (garbage, sentinels) is dropped and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import TypeAlias

Series: TypeAlias = tuple[str, tuple[str, ...]]
"""A metric of the catalogue without its prefix, and the labels after those of the GPU."""

RATIO = FLAG = (0.0, 1.0)

_BOUNDS_BY_UNIT = {
    "celsius": (-50.0, 200.0),
    "watts": (0.0, 10e3),
    "hertz": (0.0, 20e9),
    "ratio": RATIO,
    "total": (0.0, 2.0**53),  # the last integer that a sample can hold exactly
}

_BOUNDS = {
    "gpu_fan_speed_ratio": (0.0, 2.0),  # nvml.h: may exceed 100 % of the noise tolerance speed
    "gpu_performance_state": (0.0, 15.0),
    "gpu_pcie_link_generation": (1.0, 16.0),
    "gpu_pcie_link_generation_max": (1.0, 16.0),
    "gpu_pcie_link_width": (1.0, 64.0),
    "gpu_pcie_link_width_max": (1.0, 64.0),
    "gpu_recovery_action": (0.0, 255.0),
    "gpu_remapped_rows": (0.0, 1e6),
    "gpu_retired_pages": (0.0, 1e6),
}


@cache
def bounds(name: str) -> tuple[float, float]:
    """The least and the greatest value that a metric can have; one whose name tells no unit is a flag."""
    return _BOUNDS.get(name) or _BOUNDS_BY_UNIT.get(name.rpartition("_")[2], FLAG)


class Values:
    """The newest plausible value of each series; `dropped` counts the others by metric."""

    def __init__(self, dropped: Counter[str]) -> None:
        self.dropped = dropped
        self._values: dict[str, dict[tuple[str, ...], float]] = {}

    def put(self, series: Series, value: float | None) -> None:
        """Take in a value; None, as well as what is implausible, makes the series absent."""
        name, labels = series
        if value is not None and self.is_plausible(name, value):
            self._values.setdefault(name, {})[labels] = float(value)
        else:
            self.forget((series,))

    def forget(self, every: Iterable[Series]) -> None:
        """Make these series absent."""
        for name, labels in every:
            self._values.get(name, {}).pop(labels, None)

    def is_plausible(self, name: str, value: float, limits: tuple[float, float] | None = None) -> bool:
        """Whether this can be: within `limits`, or else what the metric can have. If not, it is counted."""
        least, greatest = limits or bounds(name)
        if least <= value <= greatest:
            return True
        self.dropped[name] += 1
        return False

    def by_metric(self) -> dict[str, dict[tuple[str, ...], float]]:
        """A copy for the reading of this cycle."""
        return {name: dict(series) for name, series in self._values.items() if series}
