"""Searches for inputs that break a parser, led by the code that they reach: `search.py SECONDS [TARGET…]`.

Each target is searched in a process of its own, for that many seconds. What reached new code is kept in
.cache/fuzz/<target> for the next search to build upon; what broke something lies in .cache/fuzz/broken.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["gpuledger"]):
    from fuzz.targets import TARGETS, Target

CACHE = Path(__file__).parents[2] / ".cache/fuzz"
BROKEN = CACHE / "broken"
LONGEST = 20_000
SLOWEST_S = 5
MEMORY_MIB = 1024
AS_ONE = "--in-this-process"


def main() -> int:
    """Search each target; 1 where something broke."""
    if AS_ONE in sys.argv:
        search(*sys.argv[-2:])
    seconds, *targets = sys.argv[1:]
    BROKEN.mkdir(parents=True, exist_ok=True)
    broken = [target for target in targets or TARGETS if not survives(target, seconds)]
    sys.stderr.write(f"broken: {', '.join(broken) or 'none'}\n")
    return bool(broken)


def survives(target: str, seconds: str) -> bool:
    """Whether nothing breaks the target; what libFuzzer says goes to standard error."""
    sys.stderr.write(f"---- {target}\n")
    return not subprocess.run([sys.executable, __file__, AS_ONE, seconds, target], check=False).returncode


def search(seconds: str, name: str) -> None:
    """Search one target, and end the process."""
    target = TARGETS[name]
    corpus = CACHE / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(target.known()):
        (corpus / f"known-{number}").write_bytes(data[:LONGEST])
    limits = (
        f"-max_total_time={seconds}",
        f"-timeout={SLOWEST_S}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-max_len={LONGEST}",
    )
    flags = (f"-artifact_prefix={BROKEN}/{name}-", "-print_final_stats=1", "-verbosity=0")
    atheris.Setup([sys.argv[0], *limits, *flags, str(corpus)], lambda data: run(target, data))
    atheris.Fuzz()


def run(target: Target, data: bytes) -> None:
    """What the target may raise is no fault."""
    with suppress(*target.raises):
        target.run(data)


if __name__ == "__main__":
    sys.exit(main())
