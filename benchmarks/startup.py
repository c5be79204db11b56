"""What each command costs before it does anything: CPU and memory of what it imports.

python -m benchmarks.startup [--runs 5]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from dataclasses import dataclass

from gpuledger.app.cli import COMMANDS

TELL = """
import os, time
with open("/proc/self/statm") as statm:
    print(time.process_time(), int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
"""


@dataclass(frozen=True, slots=True)
class Start:
    """CPU seconds and MiB of a process that has imported a command; the interpreter alone has no name."""

    command: str
    cpu: float
    memory: float


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    for start in measure(parser.parse_args().runs):
        sys.stdout.write(f"{start}\n")
    return 0


def measure(runs: int) -> list[Start]:
    """The median of so many runs of each command, one command after the other."""
    programs = {"": "pass"} | {name: f"import {command.module}" for name, command in COMMANDS.items()}
    costs = [{name: _run(program) for name, program in programs.items()} for _ in range(runs)]
    return [
        Start(
            name, *(statistics.median(values) for values in zip(*(cost[name] for cost in costs), strict=True))
        )
        for name in programs
    ]


def _run(program: str) -> tuple[float, float]:
    process = subprocess.Popen([sys.executable, "-c", f"{program}\n{TELL}"], stdout=subprocess.PIPE)  # noqa: S603 - our own code
    told, _ = process.communicate()
    cpu, resident = map(float, told.split())
    return cpu, resident / 2**20


if __name__ == "__main__":
    sys.exit(main())
