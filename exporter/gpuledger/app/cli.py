"""The command line: one program, its commands, and the exit codes that scripts rely on."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command named on the command line; the return value is the exit code."""
    sys.stderr.write("not built yet\n")
    return 2
