"""Which processes run on, asked of the kernel for all of them at once: pidfd_open(2), Linux 5.3."""

from __future__ import annotations

import os
import select
from collections.abc import Collection


class ProcessWatch:
    """Watches processes until they end: as long as one is alive, its PID can't be another's."""

    def __init__(self) -> None:
        self._descriptors: dict[int, int] = {}
        self._poll = select.poll()

    def add(self, pid: int) -> None:
        """Watch the process that has this PID now; one that can't be watched never counts as alive."""
        self._forget(pid)
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:  # it has ended, the kernel is older, or a seccomp profile forbids it
            return
        self._descriptors[pid] = descriptor
        self._poll.register(descriptor, select.POLLIN)

    def alive(self) -> set[int]:
        """The PIDs of those that have not ended."""
        ended = {descriptor for descriptor, _ in self._poll.poll(0)}
        return {pid for pid, descriptor in self._descriptors.items() if descriptor not in ended}

    def forget_all_but(self, pids: Collection[int]) -> None:
        """Watch only these on."""
        for pid in self._descriptors.keys() - pids:
            self._forget(pid)

    def _forget(self, pid: int) -> None:
        descriptor = self._descriptors.pop(pid, None)
        if descriptor is not None:
            self._poll.unregister(descriptor)
            os.close(descriptor)
