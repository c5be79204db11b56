"""A running `gpuledger node`: what it answers, and that it is honest whatever has happened to its sources."""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from fakes.nvml.build import build_library
from fakes.nvml.environment import environment
from fakes.tenants import NODE
from tools.daemon import Daemon, until
from tools.exposition import Exposition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from email.message import Message
    from pathlib import Path

    from fakes.world import World

INTERVAL = "200ms"


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer and how long it took."""

    status: int
    headers: Message
    body: str
    seconds: float


class Node(Daemon):
    """A `gpuledger node` on a free loopback port that looks at `world`'s fakes; use it as a context manager.

    `flags` come after those that name the fakes, so that they win. `library` is another NVML stand-in than the
    usual one, `prefix` a program that runs the node.
    """

    def __init__(
        self,
        world: World,
        *flags: str,
        library: Path | None = None,
        prefix: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        command = [
            *prefix,
            sys.executable,
            "-m",
            "gpuledger",
            "node",
            "--web.listen-address=127.0.0.1:0",
            f"--node-name={NODE}",
            f"--interval={INTERVAL}",
            f"--path.podresources={world.socket}",
            f"--path.pod-logs={world.pod_logs}",
            f"--path.container-logs={world.container_logs}",
            "--kube=off",
            *flags,
        ]
        variables = {**environment(library or build_library(), world.scenario_file), **(env or {})}
        super().__init__(command, world.folder / "node.log", variables)
        self.url = ""

    def __enter__(self) -> Self:
        try:
            self.url = f"http://{self.address()}"
        except BaseException:
            self.stop()
            raise
        return self

    def get(self, path: str, timeout: float = 5, **headers: str) -> Reply:
        """Ask for a path; an error status is an answer too."""
        request = urllib.request.Request(self.url + path, headers=headers)
        began = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                body, status, received = reply.read(), reply.status, reply.headers
        except urllib.error.HTTPError as error:
            body, status, received = error.read(), error.code, error.headers
        return Reply(status, received, body.decode(), time.monotonic() - began)

    def scrape(self) -> Exposition:
        """What /metrics says now."""
        reply = self.get("/metrics")
        assert reply.status == 200, reply
        return Exposition(reply.body)

    def wait_for(self, what: str, holds: Callable[[Exposition], bool], timeout: float = 15) -> Exposition:
        """Scrape until `holds`, and return that scrape; `what` says in a failure what did not come true."""
        newest = [self.scrape()]

        def probe() -> bool:
            newest[0] = self.scrape()
            return holds(newest[0])

        until(probe, timeout, lambda: f"{what} not within {timeout} s; log:\n{self.log()}\n{newest[0].books}")
        return newest[0]

    def settled(self, cycles: int = 2) -> Exposition:
        """Wait until that many whole cycles began and ended after now, and return what they show."""
        scrape = self.scrape()
        for _ in range(cycles + 1):
            scrape = self.wait_for("a further cycle", partial(_is_later, _cycle(scrape)))
        return scrape


def _cycle(scrape: Exposition) -> float:
    return scrape.value("last_cycle_timestamp_seconds") or 0.0


def _is_later(then: float, scrape: Exposition) -> bool:
    return _cycle(scrape) > then
