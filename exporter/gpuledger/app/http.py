"""A small HTTP/1.1 server for a scraper's needs: GET only, everything bounded, nothing that waits on a device.

asyncio carries the connections and h11 the protocol: docs/decisions/0003-http.md says why not a framework.
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import chain

import h11

from gpuledger.app.web.channel import CHUNK_BYTES, Channel

log = logging.getLogger(__name__)

MAX_HEADER_BYTES = 16 * 1024
BACKLOG = 4096
"""Connections that the kernel holds until they are accepted; beyond these a newcomer waits a second."""
ACCEPTED_AT_ONCE = 16
"""How many are accepted before others get their turn."""
MAX_CONNECTIONS = 128
"""Beyond this, who has most of them loses the one that has been idle longest: sleepers lock no newcomer out."""
IDLE_SECONDS = 150.0
"""How long a connection may wait for its next request; Prometheus keeps them open between scrapes."""
HEADER_SECONDS = 10.0
"""How long a request's head may take to come in, from its first byte; and before that a TLS handshake."""
SEND_SECONDS = 30.0
"""How long a reader may take over an answer."""
QUIET_SECONDS = 60.0
"""After so long without a shortage of descriptors, the next is news."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a handler may look at: method, path without its query, and headers by lower-case name."""

    method: str
    path: str
    headers: Mapping[str, str]
    peer: str = field(default="", compare=False)
    """Address that it comes from."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; the body is sent whole."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Response]


class Guard:
    """Who may connect, and who gets an answer: this one lets everybody in, unencrypted."""

    async def open(self, connection: socket.socket, peer: str, first: bytes) -> Channel:
        """The channel of a new connection that began with `first`. Raises OSError where there is to be none."""
        return Channel(connection, peer, first)

    def trusts(self, channel: Channel) -> bool:  # noqa: ARG002 - for guards that look at it
        """Whether a request on a channel that was opened before may be looked at."""
        return True

    async def refusal(self, request: Request) -> Response | None:  # noqa: ARG002 - as above
        """What is answered instead of the page; None where the page may be had."""
        return None

    def headers(self) -> Mapping[str, str]:
        """What every answer carries, unless it has a header of that name itself."""
        return {}


Task = asyncio.Task[None]


class Server:
    """Serves a handler's answers to those whom `guard` lets in; the handler runs on the loop: be quick."""

    def __init__(self, handler: Handler, guard: Guard | None = None) -> None:
        self._handler = handler
        self._guard = guard or Guard()
        self._listening: list[socket.socket] = []
        self._open: dict[Task, str] = {}
        """What serves each connection, the oldest first, and the address that it comes from."""
        self._idle: dict[Task, None] = {}
        """Those without a whole request, the longest idle first."""
        self._short_at = -math.inf
        """When a newcomer last found no descriptor, by the loop's clock."""

    async def start(self, host: str, port: int) -> list[str]:
        """Listen; returns the addresses listened on. Raises OSError."""
        loop = asyncio.get_running_loop()
        bound = await loop.create_server(
            asyncio.Protocol, host or None, port, reuse_address=True, start_serving=False
        )
        self._listening = [each.dup() for each in bound.sockets]  # the rest of asyncio's server is not wanted
        bound.close()
        for listening in self._listening:
            listening.listen(BACKLOG)
            self._resume(listening)
        return [_address(listening) for listening in self._listening]

    async def stop(self, grace: float = 2.0) -> None:
        """Take no more connections, close the idle ones and give answers under way `grace` seconds."""
        while self._listening:
            listening = self._listening.pop()
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        for task in self._idle:
            task.cancel()
        await self._parted(timeout=grace)
        for task in self._open:
            task.cancel()
        await self._parted()

    async def _parted(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncio.wait leaves the tasks alone
        if self._open:
            await asyncio.wait(self._open, timeout=timeout)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(min(ACCEPTED_AT_ONCE, max(1, _most_connections() - len(self._open)))):
            try:
                connection, address = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._out_of_descriptors(listening, error)
                return
            connection.settimeout(0)
            self._welcome(connection, address[0])

    def _out_of_descriptors(self, listening: socket.socket, error: OSError) -> None:
        """Make room as where connections are too many; only time brings back what others hold."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._short_at > QUIET_SECONDS:
            log.warning("cannot accept connections: %s", error)
        self._short_at = loop.time()
        loop.remove_reader(listening)
        loop.call_later(0.01 if self._open else 1.0, self._resume, listening)
        if self._open:
            self._evict()

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _welcome(self, connection: socket.socket, peer: str) -> None:
        if len(self._open) >= _most_connections():
            self._evict()
        task = asyncio.get_running_loop().create_task(self._serve(connection, peer))
        self._open[task] = peer
        self._idle[task] = None
        task.add_done_callback(self._forget)
        task.add_done_callback(lambda _: connection.close())

    def _forget(self, task: Task) -> None:
        self._open.pop(task, None)
        self._idle.pop(task, None)

    def _evict(self) -> None:
        """Cut a connection of the address that has most: the one idle longest, or else the oldest."""
        ((address, _),) = Counter(self._open.values()).most_common(1)
        victim = next(task for task in chain(self._idle, self._open) if self._open[task] == address)
        victim.cancel()
        self._forget(victim)

    async def _serve(self, connection: socket.socket, peer: str) -> None:
        try:
            async with asyncio.timeout(IDLE_SECONDS):  # nothing is spent on who says nothing
                first = await asyncio.get_running_loop().sock_recv(connection, CHUNK_BYTES)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(HEADER_SECONDS):
                channel = await self._guard.open(connection, peer, first)
            protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
            while await self._exchange(protocol, channel) and self._listening:
                protocol.start_next_cycle()
                await asyncio.sleep(0)  # others come in between the requests of a pipeline
            async with asyncio.timeout(SEND_SECONDS):
                await channel.part()
        except (OSError, h11.ProtocolError) as error:
            log.debug("the connection of %s ended early: %r", peer, error)

    async def _exchange(self, protocol: h11.Connection, channel: Channel) -> bool:
        """One request and its answer; False when the connection is to end."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        self._idle[task] = None
        try:
            request = await _receive(protocol, channel)
        except h11.RemoteProtocolError as error:
            await self._send(protocol, channel, Response(error.error_status_hint, f"{error}\n".encode()))
            return False
        finally:
            self._idle.pop(task, None)
        if request is None or not self._guard.trusts(channel):
            return False
        answer = await self._answer(request)
        await self._send(protocol, channel, answer, bodiless=request.method == "HEAD")
        return protocol.our_state is h11.DONE and protocol.their_state is h11.DONE

    async def _answer(self, request: Request) -> Response:
        try:
            refusal = await self._guard.refusal(request)
            if refusal is not None:
                return refusal
            if request.method not in ("GET", "HEAD"):
                return Response(405, b"only GET and HEAD\n", headers={"Allow": "GET, HEAD"})
            return self._handler(request)
        except Exception:
            log.exception("no answer for %s", request.path)
            return Response(500, b"internal error; the log says more\n")

    async def _send(
        self, protocol: h11.Connection, channel: Channel, response: Response, *, bodiless: bool = False
    ) -> None:
        headers = {
            "Content-Type": response.content_type,
            "Content-Length": str(len(response.body)),
            "X-Content-Type-Options": "nosniff",
            **self._guard.headers(),
            **response.headers,
        }
        if protocol.their_state is not h11.DONE:
            headers["Connection"] = "close"
        head = h11.Response(
            status_code=response.status,
            reason=HTTPStatus(response.status).phrase.encode(),
            headers=list(headers.items()),
        )
        body = b"" if bodiless else response.body
        # Apart, because joined they would be a copy of a large page.
        parts = [
            protocol.send(head),
            protocol.send(h11.Data(data=body)),
            protocol.send(h11.EndOfMessage()),
        ]
        async with asyncio.timeout(SEND_SECONDS):
            for part in filter(None, parts):
                await channel.send(part)


async def _receive(protocol: h11.Connection, channel: Channel) -> Request | None:
    """The next request, or None at the end of the connection; a body, which no GET needs, is not read."""
    if not protocol.trailing_data[0]:
        async with asyncio.timeout(IDLE_SECONDS):
            protocol.receive_data(await channel.receive())
    async with asyncio.timeout(HEADER_SECONDS):
        while (event := protocol.next_event()) is h11.NEED_DATA:
            protocol.receive_data(await channel.receive())
    if not isinstance(event, h11.Request):
        return None
    try:
        protocol.next_event()  # a request without a body ends here, and the connection may be kept
    except h11.RemoteProtocolError as error:
        log.debug("the body of a request of %s is malformed: %r", channel.peer, error)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
    path = event.target.decode("latin-1").partition("?")[0]
    return Request(event.method.decode("latin-1"), path, headers, channel.peer)


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _most_connections() -> int:
    """No more than leave half of the descriptors to the rest: gRPC ends a process that has none for it."""
    return min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
