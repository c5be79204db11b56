"""The kernel tells which processes run on; none that has ended is taken for alive."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from gpuledger.sources.pidwatch import ProcessWatch


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_process_is_alive_until_it_ends() -> None:
    watch = ProcessWatch()
    with subprocess.Popen(["sleep", "60"]) as sleeper, subprocess.Popen(["sleep", "60"]) as other:
        for process in (sleeper, other):
            watch.add(process.pid)
        before = watch.alive()
        sleeper.kill()
        os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)

        assert ({sleeper.pid, other.pid}, {other.pid}) == (before, watch.alive())
        other.kill()


def test_a_process_that_has_ended_before_is_never_alive() -> None:
    watch = ProcessWatch()
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
        watch.add(ended.pid)

    assert set() == watch.alive()


def test_nothing_is_held_of_what_is_forgotten() -> None:
    watch, before = ProcessWatch(), descriptors()
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        for _ in range(2):
            watch.add(sleeper.pid)
        held = descriptors()
        watch.forget_all_but(())
        sleeper.kill()

    assert (before + 1, before, set()) == (held, descriptors(), watch.alive())
