"""Tiny real processes that stand for GPU programs: they sleep where they are put, and end when told to."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Self

from fakes.cgroups import Cgroups

LIFETIME_S = 300
"""A process that nobody ends ends by itself."""

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


class Processes:
    """Starts sleeping processes in cgroups; as a context manager it ends them and removes the cgroups."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cgroups = Cgroups()
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for pid in list(self._running):
            self.end(pid)
        self._cgroups.__exit__(*error)

    def start(self, cgroup: str, name: str = "trainer") -> int:
        """Start a process called `name` (its /proc/<pid>/comm) in the cgroup and return its PID."""
        program = self._folder / name
        if not program.exists():
            program.symlink_to("/bin/sleep")  # the kernel takes comm from the name that was executed
        process = subprocess.Popen([program, str(LIFETIME_S)], stdin=subprocess.DEVNULL)
        self._running[process.pid] = process
        while Path(f"/proc/{process.pid}/comm").read_text() != f"{name[:15]}\n":
            time.sleep(0.001)  # exec closes the pipe that Popen waits for a moment before it sets the name
        self._cgroups.put(process.pid, cgroup)
        return process.pid

    def end(self, pid: int) -> None:
        """Kill the process and reap it, so that its PID is free."""
        process = self._running.pop(pid)
        process.kill()
        process.wait()

    def replace(self, pid: int, cgroup: str, name: str = "stranger") -> None:
        """End the process and start another one with the same PID, as a wrapped PID counter does."""
        self.end(pid)
        time.sleep(2 / os.sysconf("SC_CLK_TCK"))  # start times are told in clock ticks
        for _ in range(200):
            LAST_PID.write_text(str(pid - 1))
            if (new := self.start(cgroup, name)) == pid:
                return
            self.end(new)  # some other program of this machine forked in between
        raise AssertionError(f"PID {pid} could not be had again")
