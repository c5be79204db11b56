"""How a process is made to meet the NVML stand-in, and what it called there."""

from __future__ import annotations

import os
import struct
from pathlib import Path

_COUNTER = struct.Struct("120sQ")
"""A record of the library's counters: a call's name and how often it was made (session.c)."""


def environment(library: Path, scenario: Path, calls: Path | None = None) -> dict[str, str]:
    """This process's environment, changed so that `libnvidia-ml.so.1` is `library` and says `scenario`.

    With `calls`, the library counts its calls into that file.
    """
    counted = {} if calls is None else {"NVML_STANDIN_CALLS": str(calls)}
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(library.parent),
        "NVML_STANDIN_SCENARIO": str(scenario),
        **counted,
    }


def read_calls(path: Path) -> dict[str, int]:
    """How often each NVML function was called so far, by all processes that count into `path`."""
    counts = {name.rstrip(b"\0").decode(): count for name, count in _COUNTER.iter_unpack(path.read_bytes())}
    return {name: count for name, count in counts.items() if count}
