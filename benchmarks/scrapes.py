"""How long a scrape of `gpuledger node` takes while others scrape too, beside nvitop-exporter.

    PYTHONPATH=tests python -m benchmarks.scrapes [--scrapers 1 10 100] [--seconds 20]

Each scraper asks once a second over a connection that it keeps, in a second's own part, for 8 GPUs with 64
processes. Times are by the clock, as the scraper sees them, so load on the machine shows in them; CPU beside
them does not. The stuck ones send a request and never read the answer.
"""

from __future__ import annotations

import argparse
import re
import socket
import statistics
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from itertools import pairwise
from urllib.parse import urlsplit

from benchmarks.node import JUDGED, Side, running_node, running_sides

STUCK = 20
MOST_OF_OTHERS = 10
"""With 100, nvitop-exporter takes more than a core and falls behind for good."""
PERIOD_SECONDS = 1.0
TIMEOUT_SECONDS = 30.0
_CYCLE = re.compile(rb"^gpuledger_last_cycle_timestamp_seconds\{.*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds of a scrape by the clock, CPU seconds of one, and the longest time between two cycles.

    `cycle_gap` is None where the page tells no cycles.
    """

    side: str
    scrapers: int
    stuck: int
    median: float
    p99: float
    longest: float
    cpu: float
    cycle_gap: float | None


@dataclass
class _Seen:
    """What the scrapers saw."""

    seconds: list[float] = field(default_factory=list)
    cycles: set[float] = field(default_factory=set)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scrapers", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args()
    for latency in measure(args.scrapers, args.seconds):
        sys.stdout.write(f"{latency}\n")
    return 0


def measure(counts: Sequence[int], seconds: float) -> Iterator[Latency]:
    """The latency under each count of scrapers, the last time with stuck ones beside."""
    with running_node(JUDGED) as world, running_sides(world, JUDGED) as sides:
        for count in counts:
            for name in ("gpuledger", "nvitop-exporter"):
                if name == "gpuledger" or count <= MOST_OF_OTHERS:
                    yield _measure(name, sides[name], count, 0, seconds)
        yield _measure("gpuledger", sides["gpuledger"], max(counts), STUCK, seconds)


def _measure(name: str, side: Side, scrapers: int, stuck: int, seconds: float) -> Latency:
    idle = _load(side, seconds / 2)
    with _stuck(side, stuck):
        seen, before, began = _Seen(), side.cpu_seconds(), time.monotonic()
        threads = [
            threading.Thread(target=_scrape, args=(side, began + number / scrapers, began + seconds, seen))
            for number in range(scrapers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cpu = side.cpu_seconds() - before - idle * (time.monotonic() - began)
    times, cycles = sorted(seen.seconds), sorted(seen.cycles)
    gaps = [later - earlier for earlier, later in pairwise(cycles)]
    return Latency(
        name,
        scrapers,
        stuck,
        statistics.median(times),
        times[min(len(times) - 1, round(0.99 * len(times)))],
        times[-1],
        cpu / len(times),
        max(gaps, default=None),
    )


def _load(side: Side, seconds: float) -> float:
    """What it uses of a core while nobody scrapes it."""
    before = side.cpu_seconds()
    time.sleep(seconds)
    return (side.cpu_seconds() - before) / seconds


def _scrape(side: Side, begin: float, end: float, seen: _Seen) -> None:
    url = urlsplit(side.url)
    connection = HTTPConnection(url.netloc, timeout=TIMEOUT_SECONDS)
    while begin < end:
        time.sleep(max(0.0, begin - time.monotonic()))
        began = time.perf_counter()
        connection.request("GET", url.path, headers={"Accept-Encoding": "gzip"})
        body = connection.getresponse().read()
        seen.seconds.append(time.perf_counter() - began)
        seen.cycles.update(float(told) for told in _CYCLE.findall(zlib.decompress(body, wbits=31)))
        begin += PERIOD_SECONDS
    connection.close()


@contextmanager
def _stuck(side: Side, count: int) -> Iterator[None]:
    """So many scrapers that ask and never read."""
    url = urlsplit(side.url)
    with ExitStack() as stack:
        for _ in range(count):
            asking = stack.enter_context(socket.create_connection((url.hostname, url.port or 80)))
            asking.sendall(f"GET {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode())
        yield


if __name__ == "__main__":
    sys.exit(main())
