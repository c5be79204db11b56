"""A source read at a cadence: its newest answer, and what is said while it fails, hangs or comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from gpuledger.app import polling
from gpuledger.app.polling import Poll
from gpuledger.core.errors import SourceError

FOREVER = 60.0


class Source:
    """Answers with the number of the attempt, unless `act` raises or waits."""

    def __init__(self) -> None:
        self.attempts: list[float] = []
        self.act: Callable[[], object] = lambda: None

    def read(self) -> int:
        self.attempts.append(time.monotonic())
        number = len(self.attempts)
        self.act()
        return number

    def fail(self, message: str = "gone; bring it back", *, restart: bool = False) -> None:
        def act() -> None:
            raise SourceError(message, restart=restart)

        self.act = act

    def recover(self) -> None:
        self.act = lambda: None


@pytest.fixture
def source() -> Source:
    return Source()


@contextmanager
def running(poll: Poll[int]) -> Iterator[threading.Event]:
    """Run `poll` in a thread; the thread must end when it is told to."""
    stop = threading.Event()
    thread = threading.Thread(target=poll.run, args=(stop,))
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(2)
    assert not thread.is_alive()


def attempted(poll: Poll[int], holds: Callable[[], object]) -> None:
    """Wait for attempts to end until `holds`."""
    deadline = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < deadline, poll.health()
        poll.wait(0.05)


def gaps(source: Source) -> list[float]:
    return [after - before for before, after in pairwise(source.attempts)]


def test_before_the_first_answer_nothing_is_known(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=1, deadline=1)

    assert (None, None) == (poll.current(), poll.last(FOREVER))
    health = poll.health()
    assert ("nvml", False, None, None, 0, "") == (
        *(health.name, health.up, health.last_success),
        *(health.duration_seconds, health.failures, health.error),
    )


def test_the_newest_answer_is_shown(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=0.01, deadline=1)
    with running(poll):
        attempted(poll, lambda: (poll.current() or 0) >= 3)

        health = poll.health()
    assert (True, 0, "") == (health.up, health.failures, health.error)
    assert health.last_success == pytest.approx(time.time(), abs=2)
    assert health.duration_seconds == pytest.approx(0, abs=0.5)


def test_the_cadence_counts_from_beginning_to_beginning(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=0.2, deadline=1)
    source.act = lambda: time.sleep(0.15)
    with running(poll):
        attempted(poll, lambda: len(source.attempts) >= 4)

    assert sum(gaps(source)[:3]) / 3 == pytest.approx(0.2, abs=0.1)


def test_a_source_slower_than_its_cadence_is_read_on_at_once(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=0.01, deadline=1)
    source.act = lambda: time.sleep(0.05)
    with running(poll):
        attempted(poll, lambda: len(source.attempts) >= 4)

    assert min(gaps(source)) == pytest.approx(0.05, abs=0.01)


def test_a_failed_source_has_no_current_value_but_a_last_one(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=0.01, deadline=1)
    with running(poll):
        attempted(poll, poll.current)
        source.fail("no driver; install one")
        attempted(poll, lambda: poll.current() is None)

        assert poll.last(FOREVER) is not None
        assert poll.last(0.0) is None
        health = poll.health()
    assert (False, "no driver; install one") == (health.up, health.error)
    assert health.failures > 0
    assert health.last_success is not None


def test_after_each_failure_in_a_row_the_next_attempt_waits_longer(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "MAX_BACKOFF_SECONDS", 0.1)
    poll = Poll("nvml", source.read, interval=0.02, deadline=1)
    source.fail()
    with running(poll):
        attempted(poll, lambda: len(source.attempts) >= 6)

    least = (0.04, 0.08, 0.1, 0.1, 0.1)
    assert all(gap >= pause for gap, pause in zip(gaps(source), least, strict=False))
    assert min(gaps(source)[2:]) < 0.16


def test_a_source_that_is_back_is_read_at_its_cadence_again(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=0.02, deadline=1)
    source.fail()
    with running(poll):
        attempted(poll, lambda: len(source.attempts) >= 4)
        source.recover()
        attempted(poll, lambda: len(source.attempts) >= 8)

        assert poll.current() is not None
        assert (True, "") == (poll.health().up, poll.health().error)
    assert gaps(source)[3] > 0.2 > max(gaps(source)[4:7])


def test_a_cadence_longer_than_the_longest_backoff_stands(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=FOREVER, deadline=1)
    source.fail()
    with running(poll):
        attempted(poll, lambda: poll.health().failures)
        time.sleep(0.1)

    assert len(source.attempts) == 1


def test_an_attempt_that_hangs_shows_after_its_deadline(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=0.02, deadline=0.1)
    release = threading.Event()
    with running(poll):
        attempted(poll, poll.current)
        source.act = release.wait
        attempted(poll, lambda: poll.health().error)

        assert poll.health().error == "no answer for more than 0.1 s"
        assert poll.stalled_for() > 0.1
        attempted(poll, lambda: poll.current() is None)
        assert not poll.health().up
        assert poll.last(FOREVER) is not None
        release.set()
        attempted(poll, poll.current)
        assert poll.health().error == ""


def test_a_late_answer_counts(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=FOREVER, deadline=0.05)
    source.act = lambda: time.sleep(0.15)
    with running(poll):
        attempted(poll, poll.current)

        assert (True, 0) == (poll.health().up, poll.health().failures)
        assert poll.stalled_for() == 0.0


def test_a_fault_that_only_a_restart_cures_is_told_while_it_lasts(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=0.01, deadline=1)
    with running(poll):
        attempted(poll, poll.current)
        assert not poll.needs_restart
        source.fail("unknown error", restart=True)
        attempted(poll, lambda: poll.needs_restart)
        source.fail("lost")
        attempted(poll, lambda: not poll.needs_restart)
        source.fail("unknown error", restart=True)
        attempted(poll, lambda: poll.needs_restart)
        source.recover()
        attempted(poll, lambda: not poll.needs_restart)


def test_an_exception_that_nobody_expected_is_a_failure_too(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    poll = Poll("nvml", source.read, interval=0.01, deadline=1)

    def act() -> None:
        raise ZeroDivisionError("by nought")

    source.act = act
    with running(poll):
        attempted(poll, lambda: poll.health().failures >= 3)
        assert poll.health().error == "ZeroDivisionError: by nought"
        source.recover()
        attempted(poll, poll.current)

    assert ["nvml: unexpected failure"] == [record.getMessage() for record in caplog.records]
    assert "in act" in caplog.text


def test_stopping_does_not_wait_for_the_next_attempt(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=FOREVER, deadline=1)
    with running(poll) as stop:
        attempted(poll, poll.current)
        began = time.monotonic()
        stop.set()

    assert time.monotonic() - began < 1
    assert len(source.attempts) == 1


def test_a_source_that_hangs_while_it_is_told_to_stop_is_not_read_again(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=0.01, deadline=1)
    release = threading.Event()
    source.act = release.wait
    with running(poll) as stop:
        attempted(poll, poll.stalled_for)
        stop.set()
        release.set()

    assert len(source.attempts) == 1


def test_waiting_ends_with_the_next_attempt_or_at_once_if_one_has_ended_since(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=FOREVER, deadline=1)
    began = time.monotonic()
    with running(poll):
        poll.wait(FOREVER)
        first = poll.current()
        poll.wait(0.05)

    assert first == 1
    assert 0.05 <= time.monotonic() - began < 5


def test_who_waits_is_told_of_the_end(source: Source) -> None:
    poll = Poll("nvml", source.read, interval=FOREVER, deadline=1)
    with running(poll) as stop:
        poll.wait(FOREVER)
        waiting = threading.Thread(target=poll.wait, args=(FOREVER,))
        waiting.start()
        stop.set()

        waiting.join(2)
        assert not waiting.is_alive()
