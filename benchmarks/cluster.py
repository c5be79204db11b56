"""What `gpuledger cluster` costs on clusters of growing size, as a table of docs/performance.md.

    python benchmarks/cluster.py [--pods 1000 10000 100000] [--rate 1000] [--seconds 20]

A fifth of the pods have GPUs; an API that makes them up runs in a process of its own. CPU is the exporter's, so
that a busy machine changes it little: until all pods are known, for a scrape, and for the events of a second in
percent of a core. The clock's times stand beside. Exits 1 where the largest cluster misses a budget.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

import psutil

HERE = Path(__file__).resolve().parent
PORT = 19441
SCRAPES = 7


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one cluster, in the units of the table's head."""

    pods: int
    series: int
    findings: int
    page: float
    list_cpu: float
    list_wall: float
    scrape_cpu: float
    scrape_wall: float
    events_cpu: float
    memory: float
    memory_after: float


BUDGET = {
    "list_cpu": ("CPU of the first list", 20.0, "s"),
    "scrape_cpu": ("CPU of a scrape", 0.3, "s"),
    "events_cpu": ("1,000 events a second", 30.0, "% of a core"),
    "memory": ("memory", 600.0, "MiB"),
    "memory_after": ("memory after the events", 600.0, "MiB"),
}
"""What each is called, the most that it may be, and the unit."""

HEAD = (
    "| pods | series | findings | page, MB | first list, CPU s | (clock) | scrape, CPU s | (clock)"
    " | 1,000 events/s, % CPU | RSS, MiB | RSS after, MiB |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|\n"
)


def main() -> int:
    """Measure, print, and tell whether the budgets are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rate", type=float, default=1_000.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args()
    say(HEAD)
    cost = None
    for pods in args.pods:
        cost = measure(pods, args.rate, args.seconds)
        cells = [f"{cell:,}" if isinstance(cell, int) else f"{cell:,.2f}" for cell in astuple(cost)]
        say(f"| {' | '.join(cells)} |\n")
    missed = [name for name, (_, most, _) in BUDGET.items() if getattr(cost, name) > most]
    say(f"missed: {', '.join(missed)}\n" if missed else "")
    return bool(missed)


def measure(pods: int, rate: float, seconds: float) -> Cost:
    """The cost of a cluster of so many pods."""
    with serving_pods(pods, rate) as api, exporting(api) as process:
        began = time.monotonic()
        while not is_ready():
            time.sleep(0.05)
        list_wall, list_cpu = time.monotonic() - began, cpu_seconds(process)
        times, bodies = zip(*(timed_scrape() for _ in range(SCRAPES)), strict=True)
        text = bodies[-1]
        scrape_cpu = (cpu_seconds(process) - list_cpu) / SCRAPES
        memory = process.memory_info().rss / 2**20
        fetch(f"{api}/start")
        before = cpu_seconds(process)
        time.sleep(seconds)
        events_cpu = (cpu_seconds(process) - before) / int(fetch(f"{api}/sent"))
        timed_scrape()
        return Cost(
            pods,
            sum(not line.startswith(b"#") for line in text.splitlines()),
            text.count(b"\ngpuledger_audit_finding{"),
            len(text) / 1e6,
            list_cpu,
            list_wall,
            scrape_cpu,
            statistics.median(times),
            100 * 1000 * events_cpu,
            memory,
            process.memory_info().rss / 2**20,
        )


def cpu_seconds(process: psutil.Process) -> float:
    """What the process has used of a core since it began."""
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def serving_pods(pods: int, rate: float) -> Iterator[str]:
    """The URL of an API with so many pods."""
    command = [sys.executable, str(HERE / "pods_api.py"), str(pods), str(rate)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own code
        if server.stdout is None:
            raise RuntimeError("no pipe")
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        server.terminate()


@contextmanager
def exporting(api: str) -> Iterator[psutil.Process]:
    """The exporter on that API."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": api}}],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        kubeconfig.write_text(json.dumps(config))
        flags = [f"--kubeconfig={kubeconfig}", f"--web.listen-address=127.0.0.1:{PORT}", "--log.level=warning"]
        with subprocess.Popen([sys.executable, "-m", "gpuledger", "cluster", *flags]) as exporter:  # noqa: S603 - our own code
            yield psutil.Process(exporter.pid)
            exporter.terminate()


def is_ready() -> bool:
    """Whether all pods are known."""
    try:
        fetch(f"http://127.0.0.1:{PORT}/readyz")
    except OSError:
        return False
    return True


def timed_scrape() -> tuple[float, bytes]:
    """How long a scrape takes in seconds, and what it brings."""
    began = time.perf_counter()
    body = fetch(f"http://127.0.0.1:{PORT}/metrics")
    return time.perf_counter() - began, gzip.decompress(body)


def fetch(url: str) -> bytes:
    """What is at a URL of loopback, compressed where that is offered, as Prometheus asks for it."""
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})  # noqa: S310 - http, on loopback
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
        return bytes(answer.read())


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
