"""Whether a quantity grows: a line fitted through its samples, once the program has warmed up."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import psutil

WARM_UP = 1 / 3
"""The part of the samples that is left out: caches fill and Python's memory finds its size."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is of a running program: memory in bytes, descriptors, threads, series on its page."""

    memory: int
    descriptors: int
    threads: int
    series: int
    objects: int = 0
    """What Python's collector tracks; 0 where the program is another process."""


ALLOWED: Mapping[str, float] = {
    "memory": 3 * 2**20,
    "descriptors": 1,
    "threads": 1,
    "series": 0.1,
    "objects": 0.02,
}
"""What may come together over the whole run: series and objects as a part of their mean."""


def size_of(process: psutil.Process, page: str, objects: int = 0) -> Size:
    """How large it is now."""
    series = sum(bool(line) and not line.startswith("#") for line in page.splitlines())
    return Size(process.memory_info().rss, process.num_fds(), process.num_threads(), series, objects)


def growth(samples: Sequence[float]) -> float:
    """How much more there is at the end than after the warm-up, by least squares."""
    warm = samples[int(len(samples) * WARM_UP) :]
    return statistics.linear_regression(range(len(warm)), warm).slope * (len(warm) - 1)


def grown(sizes: Iterable[Size]) -> dict[str, tuple[float, float]]:
    """What has grown by more than is allowed: by how much, and from which mean."""
    columns = zip(*(asdict(size).items() for size in sizes), strict=True)
    found = {}
    for column in columns:
        name, values = column[0][0], [value for _, value in column]
        mean = statistics.fmean(values)
        most = ALLOWED[name] * (mean if ALLOWED[name] < 1 else 1)
        if growth(values) > most:
            found[name] = (growth(values), mean)
    return found
