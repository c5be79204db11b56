"""A program under test that runs beside the test: started, its log kept, ended by its own process ID."""

from __future__ import annotations

import ipaddress
import subprocess
import time
from typing import TYPE_CHECKING, Self, TypeVar

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")


def until(probe: Callable[[], T | None], timeout: float, what: Callable[[], str]) -> T:
    """Call `probe` until it returns something true, and return that; fail with `what()` after the timeout."""
    deadline = time.monotonic() + timeout
    while not (value := probe()):
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)
    return value


class Daemon:
    """A running program; as a context manager it is stopped at the end, whatever happened."""

    def __init__(self, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def address(self, timeout: float = 15) -> str:
        """Return the `host:port` where the program listens once it does; fails where that is not loopback."""
        listening = until(self._listening, timeout, lambda: f"nothing listens; log:\n{self.log()}")
        assert all(ipaddress.ip_address(ip).is_loopback for ip, _ in listening), listening
        return "{}:{}".format(*listening[0])

    def _listening(self) -> list[tuple[str, int]]:
        assert self.process.poll() is None, f"ended with {self.process.returncode}; log:\n{self.log()}"
        connections = self._program().net_connections("tcp")
        return [(c.laddr.ip, c.laddr.port) for c in connections if c.status == psutil.CONN_LISTEN]

    def _program(self) -> psutil.Process:
        """The program itself, where the command is another (unshare, …) that starts it."""
        started = psutil.Process(self.process.pid)
        return (started, *started.children(recursive=True))[-1]

    def log(self) -> str:
        """Return what the program has written to stdout and stderr."""
        return self._log.read_text()

    def stop(self, timeout: float = 10) -> int:
        """Send SIGTERM and return the exit code; kills it and fails where that takes over `timeout` seconds."""
        if self.process.poll() is None:
            self._program().terminate()
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still ran {timeout} s after SIGTERM; log:\n{self.log()}") from error
