"""Speed and memory of `gpuledger audit` on a large dump, beside the rules of the script that it replaces.

    python benchmarks/audit.py [--pods 100000] [--gpu-share 0.2]

The dump is made of the captured pods of a real cluster, each copy with a name and UID of its own, as kubectl
prints them. Each side runs in a process of its own. Exits 1 where a budget is missed: 5 times the speed of the
old rules, and a peak memory on the whole dump of at most 1.1 times that on a tenth of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CAPTURE = ROOT / "tests/fixtures/kube-1.36/kubectl-get-pods-A.json"

SPEED_BUDGET = 5.0
MEMORY_BUDGET = 1.1

OLD = (
    "import sys; from audit.old_rules import old_output; sys.stdout.write(old_output(open(sys.argv[1]).read()))"
)
NEW = "import sys; from gpuledger.app.cli import main; sys.exit(main(['audit', *sys.argv[1:]]))"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took: seconds of CPU and of the clock, and its peak resident memory in MiB."""

    cpu: float
    wall: float
    memory: float


def main() -> int:
    """Measure, print, and tell whether the budgets are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--gpu-share", type=float, default=0.2)
    parser.add_argument("--runs", type=int, default=2, help="the best of so many counts")
    parser.add_argument("--budget", type=float, default=SPEED_BUDGET, help="times the old rules' speed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole, tenth = Path(folder, "whole.json"), Path(folder, "tenth.json")
        write_dump(whole, args.pods, args.gpu_share)
        write_dump(tenth, args.pods // 10, args.gpu_share)
        say(f"{args.pods:,} pods, {args.gpu_share:.0%} with GPUs, {whole.stat().st_size / 1e6:,.0f} MB")
        sides: dict[str, tuple[str, Path] | tuple[str, Path, str]] = {
            "old rules": (OLD, whole),
            "audit --classic": (NEW, whole, "--classic"),
            "audit": (NEW, whole),
            "audit, a tenth": (NEW, tenth),
        }
        runs = [{label: measure(side[0], *side[1:]) for label, side in sides.items()} for _ in range(args.runs)]
    best = {label: min((run[label] for run in runs), key=lambda cost: cost.cpu) for label in sides}
    for label, cost in best.items():
        say(f"{label:<16} {cost.cpu:7.2f} s CPU {cost.wall:7.2f} s {cost.memory:8.0f} MiB")
    old, classic, new, small = best.values()
    speed = old.cpu / max(new.cpu, classic.cpu)
    growth = new.memory / small.memory
    say(f"speed: {speed:.1f} times the old rules (budget {args.budget})")
    say(f"memory: {growth:.2f} times that on a tenth (budget {MEMORY_BUDGET})")
    return 0 if speed >= args.budget and growth <= MEMORY_BUDGET else 1


def measure(code: str, *arguments: str | Path) -> Cost:
    """What a Python process that runs `code` costs."""
    # Bytecode is kept, as in what pip installs; the best of the runs then counts no compiler.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "PYTHONDONTWRITEBYTECODE": ""}
    started = time.perf_counter()
    process = subprocess.Popen(  # noqa: S603 - our own code
        [sys.executable, "-c", code, *arguments], env=environment, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - started, usage.ru_maxrss / 1024)


def write_dump(path: Path, pods: int, gpu_share: float) -> None:
    """A dump of so many pods, always the same."""
    items = json.loads(CAPTURE.read_text())["items"]
    with_gpu, without = list[str](), list[str]()
    for item in items:
        text = json.dumps(item, indent=4).replace("\n", "\n        ")
        marked = text.replace(item["metadata"]["uid"], "@UID@").replace(item["metadata"]["name"], "@NAME@")
        (with_gpu if "nvidia.com/" in text or "NVIDIA_" in text else without).append(marked)
    chance = random.Random(1)  # noqa: S311 - repeatable on purpose
    with path.open("w") as dump:
        dump.write('{\n    "apiVersion": "v1",\n    "items": [')
        for number in range(pods):
            template = chance.choice(with_gpu if chance.random() < gpu_share else without)
            name, uid = f"pod-{number}", f"00000000-0000-4000-8000-{number:012}"
            separator = "," if number else ""
            dump.write(f"{separator}\n        {template.replace('@UID@', uid).replace('@NAME@', name)}")
        dump.write(
            '\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n'
        )


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
