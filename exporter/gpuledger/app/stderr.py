"""Standard error that may be closed, full, or read by nobody."""

from __future__ import annotations

import os
import sys


def write_stderr(text: str) -> None:
    """Write to standard error as far as that can be done: the exit code says what scripts need to know."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard_stderr()


def discard_stderr() -> None:
    """From now on, what is written to standard error is lost."""
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - Python flushes it at exit
