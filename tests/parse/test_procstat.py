"""A stat line is read whatever a process calls itself, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.parse.procstat import ProcStat, parse_stat

# From Kubernetes 1.36 on Linux 6.18.
LINE = (
    b"9213 (sleep) S 8858 9213 9213 0 -1 4194560 851 0 0 0 2 0 0 0 20 0 1 0 448656 2322432 348 "
    b"18446744073709551615 4198400 5785993 140727445831808 0 0 0 0 4 0 1 0 0 17 0 0 0 0 0 0 6141704 6178576 "
    b"342933504 140727445835397 140727445835410 140727445835410 140727445835753 0\n"
)


def test_reads_a_captured_line() -> None:
    expected = ProcStat(pid=9213, comm="sleep", state="S", start_ticks=448656, cpu_ticks=2, rss_pages=348)
    assert expected == parse_stat(LINE)
    assert expected == parse_stat(LINE.decode())


def test_reads_what_this_kernel_writes() -> None:
    stat = parse_stat(Path("/proc/self/stat").read_bytes())
    assert stat is not None
    assert (os.getpid(), Path("/proc/self/comm").read_text().rstrip("\n")) == (stat.pid, stat.comm)


@pytest.mark.parametrize(
    ("name", "comm"),
    [
        pytest.param(b"tmux: server", "tmux: server", id="blank"),
        pytest.param(b"a) R 1 (b", "a) R 1 (b", id="parentheses"),
        pytest.param(b") S 1 1 1", ") S 1 1 1", id="like the line's rest"),
        pytest.param(b"a\nb", "a\nb", id="newline"),
        pytest.param(b"", "", id="empty"),
        pytest.param(b"\xff\xc3", "��", id="no text"),
        pytest.param(b"kworker/u64:3-events_unbound", "kworker/u64:3-events_unbound", id="a kernel thread's"),
    ],
)
def test_reads_the_name_as_it_is(name: bytes, comm: str) -> None:
    stat = parse_stat(LINE.replace(b"sleep", name))
    assert stat is not None
    assert (comm, 448656) == (stat.comm, stat.start_ticks)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(LINE[:60], id="cut off"),
        pytest.param(LINE.replace(b"448656", b"soon"), id="a word for a number"),
        pytest.param(LINE.replace(b"448656", b"-1"), id="a start before boot"),
        pytest.param(LINE.replace(b"448656", b"9" * 5000), id="no such number"),
        pytest.param(LINE.replace(b"9213 (", b"(9213 "), id="no PID"),
        pytest.param(LINE.replace(b"sleep", b"s" * 5000), id="no such name"),
        pytest.param("٣" + LINE.decode(), id="other digits"),
    ],
)
def test_garbage_is_no_process(text: bytes | str) -> None:
    assert parse_stat(text) is None


@given(text=st.one_of(st.binary(), st.text(st.characters())))
def test_answers_anything(text: bytes | str) -> None:
    assert parse_stat(text) is None


@given(
    name=st.binary(max_size=15), start=st.integers(0, 2**64 - 1), times=st.tuples(*[st.integers(0, 2**63)] * 2)
)
def test_reads_every_line_that_the_kernel_can_write(name: bytes, start: int, times: tuple[int, int]) -> None:
    line = (
        LINE.replace(b"448656", b"%d" % start)
        .replace(b" 2 0 0 0 20 ", b" %d %d 0 0 20 " % times)
        .replace(b"sleep", name)
    )
    stat = parse_stat(line)
    assert stat is not None
    assert (start, sum(times), name.decode(errors="replace")) == (stat.start_ticks, stat.cpu_ticks, stat.comm)
