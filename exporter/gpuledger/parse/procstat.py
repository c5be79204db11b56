"""`/proc/<pid>/stat`, as Documentation/filesystems/proc.rst of the kernel lays it out (table 1-4)."""

from __future__ import annotations

import re
from dataclasses import dataclass

# The command stands in parentheses as it is, and may hold blanks, parentheses and newlines: the last `)` ends
# it, as nothing behind it has one. Counted from 1: 14 utime, 15 stime, 22 starttime, 24 rss.
_STAT = re.compile(
    rb"(?P<pid>\d{1,10}) \((?P<comm>.{0,64})\) (?P<state>[A-Za-z]) (?:-?\d{1,20} ){10}"
    rb"(?P<utime>\d{1,20}) (?P<stime>\d{1,20}) (?:-?\d{1,20} ){6}(?P<start>\d{1,20}) \d{1,20} (?P<rss>\d{1,20})"
    rb"(?: [^)]*)?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ProcStat:
    """A process as its stat line tells it: times in clock ticks (`SC_CLK_TCK` a second), memory in pages.

    `start_ticks` counts from boot; `comm` is the main thread's name, which the kernel cuts off at 15 bytes.
    """

    pid: int
    comm: str
    state: str
    start_ticks: int
    cpu_ticks: int
    rss_pages: int


def parse_stat(text: bytes | str) -> ProcStat | None:
    """Read one stat line; None if it is not one."""
    line = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    match = _STAT.fullmatch(line)
    if match is None:
        return None
    return ProcStat(
        pid=int(match["pid"]),
        comm=match["comm"].decode(errors="replace"),
        state=match["state"].decode(),
        start_ticks=int(match["start"]),
        cpu_ticks=int(match["utime"]) + int(match["stime"]),
        rss_pages=int(match["rss"]),
    )
