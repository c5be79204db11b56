"""Runs the benchmarks and writes docs/performance.md and its pictures: `make bench`, `make bench-full`.

    PYTHONPATH=tests python -m benchmarks.report [--full] [PART…]

Parts that are not named are taken from the last run (.cache/bench/results.json).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import cluster, node, scrapes, startup
from benchmarks.page import render_page

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache/bench"
RESULTS = CACHE / "results.json"
PAGE = ROOT / "docs/performance.md"
IMAGES = ROOT / "docs/images"

GPUS = (1, 8, 16)
PROCESSES = (0, 8, 64)
PODS = (1_000, 10_000, 100_000)
EVENT_RATE = 1000.0


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: seconds of each size, and runs of each command."""

    seconds: float
    runs: int


QUICK = Effort(seconds=20.0, runs=5)
FULL = Effort(seconds=60.0, runs=15)

Part = Callable[[Effort], Any]
"""Measures; what it returns goes to JSON."""


def main() -> int:
    """Measure the parts that are named, or all, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="measure longer")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    args = parser.parse_args()
    if unknown := set(args.parts) - PARTS.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; parts are {', '.join(PARTS)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for name in args.parts or PARTS:
        say(f"{name} …")
        loads = [os.getloadavg()[0]]
        measured = PARTS[name](FULL if args.full else QUICK)
        loads.append(os.getloadavg()[0])
        results[name] = {"measured": measured, "loads": loads, "machine": machine()}
        RESULTS.write_text(json.dumps(results, indent=1))
    subprocess.run([CACHE / "bin/python", ROOT / "benchmarks/curves.py", RESULTS, IMAGES], check=True)  # noqa: S603 - our own code
    PAGE.write_text(render_page(results))
    say(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


def machine() -> str:
    """What all this ran on."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = models[0].partition(": ")[2] if models else platform.machine()
    return f"{os.cpu_count()} cores ({model}), Linux {platform.release()}, Python {platform.python_version()}"


def _node(effort: Effort) -> list[dict[str, Any]]:
    sizes = (node.Size(gpus, processes) for gpus in GPUS for processes in PROCESSES)
    return [
        asdict(size)
        | {"sides": {name: asdict(cost) for name, cost in node.measure(size, effort.seconds).items()}}
        for size in sizes
    ]


def _scrapes(effort: Effort) -> list[dict[str, Any]]:
    return [asdict(latency) for latency in scrapes.measure((1, 10, 100), effort.seconds)]


def _startup(effort: Effort) -> list[dict[str, Any]]:
    return [asdict(start) for start in startup.measure(effort.runs)]


def _cluster(effort: Effort) -> list[dict[str, Any]]:
    return [asdict(cluster.measure(pods, EVENT_RATE, effort.seconds)) for pods in PODS]


def _audit(_: Effort) -> str:
    command = [sys.executable, str(ROOT / "benchmarks/audit.py")]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout  # noqa: S603 - our own code


PARTS: dict[str, Part] = {
    "node": _node,
    "scrapes": _scrapes,
    "startup": _startup,
    "cluster": _cluster,
    "audit": _audit,
}


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
