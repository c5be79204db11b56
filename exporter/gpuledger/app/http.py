"""A small HTTP/1.1 server for a scraper's needs: GET only, everything bounded, nothing that waits on a device.

asyncio carries the connections and h11 the protocol: docs/decisions/0003-http.md says why not a framework.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import h11

from gpuledger.app.web.channel import Channel

log = logging.getLogger(__name__)

MAX_HEADER_BYTES = 16 * 1024
BACKLOG = 1024
"""Connections that the kernel holds until they are accepted; with few, a newcomer in a crowd waits a second."""
MAX_CONNECTIONS = 128
"""Beyond this the connection that has been idle longest is closed: sleepers never lock a newcomer out."""
IDLE_SECONDS = 150.0
"""How long a connection may wait for its next request; Prometheus keeps them open between scrapes."""
HEADER_SECONDS = 10.0
"""How long a request's head may take to come in, from its first byte; and before that a TLS handshake."""
SEND_SECONDS = 30.0
"""How long a reader may take over an answer."""


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

    async def open(self, reader: StreamReader, writer: StreamWriter) -> Channel:
        """The channel of a new connection. Raises OSError where there is to be none."""
        return Channel(reader, writer)

    def trusts(self, channel: Channel) -> bool:  # noqa: ARG002 - for guards that look at it
        """Whether a request on a channel that was opened before may be looked at."""
        return True

    async def refusal(self, request: Request) -> Response | None:  # noqa: ARG002 - as above
        """What is answered instead of the page; None where the page may be had."""
        return None

    def headers(self) -> Mapping[str, str]:
        """What every answer carries, unless it has a header of that name itself."""
        return {}


class Server:
    """Serves a handler's answers to those whom `guard` lets in; the handler runs on the loop: be quick."""

    def __init__(self, handler: Handler, guard: Guard | None = None) -> None:
        self._handler = handler
        self._guard = guard or Guard()
        self._open: dict[StreamWriter, asyncio.Task[None]] = {}
        """All connections, the oldest first."""
        self._idle: dict[StreamWriter, None] = {}
        """Those without a whole request, the longest idle first."""
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> list[str]:
        """Listen; returns the addresses listened on. Raises OSError."""
        self._server = await asyncio.start_server(
            self._connected,
            host or None,
            port,
            limit=MAX_HEADER_BYTES,
            reuse_address=True,
            backlog=BACKLOG,
        )
        return [_address(listening) for listening in self._server.sockets]

    async def stop(self, grace: float = 2.0) -> None:
        """Take no more connections, close the idle ones and give answers under way `grace` seconds."""
        if self._server is None:
            return
        self._server.close()
        for writer in list(self._idle):
            writer.close()
        await self._parted(timeout=grace)
        for writer in self._open:
            writer.transport.abort()
        await self._parted()

    async def _parted(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncio.wait leaves the tasks alone
        if self._open:
            await asyncio.wait(self._open.values(), timeout=timeout)

    def _connected(self, reader: StreamReader, writer: StreamWriter) -> None:
        if len(self._open) >= MAX_CONNECTIONS:
            self._evict()
        self._open[writer] = asyncio.get_running_loop().create_task(self._connection(reader, writer))
        self._idle[writer] = None

    async def _connection(self, reader: StreamReader, writer: StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        try:
            async with asyncio.timeout(HEADER_SECONDS):
                channel = await self._guard.open(reader, writer)
            while await self._exchange(connection, channel, writer) and self._serving():
                connection.start_next_cycle()
                await asyncio.sleep(0)  # others come in between the requests of a pipeline
            async with asyncio.timeout(SEND_SECONDS):
                await channel.part()
        except (OSError, h11.ProtocolError):
            log.debug("connection ended early", exc_info=True)
        finally:
            self._idle.pop(writer, None)
            self._open.pop(writer, None)
            writer.transport.abort()

    def _serving(self) -> bool:
        return self._server is not None and self._server.is_serving()

    def _evict(self) -> None:
        """Cut the connection that has been idle longest; where none is idle, the oldest."""
        victim = next(iter(self._idle or self._open))
        self._idle.pop(victim, None)
        del self._open[victim]
        victim.transport.abort()

    async def _exchange(self, connection: h11.Connection, channel: Channel, writer: StreamWriter) -> bool:
        """One request and its answer; False when the connection is to end."""
        self._idle[writer] = None
        try:
            request = await _receive(connection, channel, _peer(writer))
        except h11.RemoteProtocolError as error:
            await self._send(connection, channel, Response(error.error_status_hint, f"{error}\n".encode()))
            return False
        finally:
            self._idle.pop(writer, None)
        if request is None or not self._guard.trusts(channel):
            return False
        answer = await self._answer(request)
        await self._send(connection, channel, answer, bodiless=request.method == "HEAD")
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

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
        self, connection: h11.Connection, channel: Channel, response: Response, *, bodiless: bool = False
    ) -> None:
        headers = {
            "Content-Type": response.content_type,
            "Content-Length": str(len(response.body)),
            "X-Content-Type-Options": "nosniff",
            **self._guard.headers(),
            **response.headers,
        }
        if connection.their_state is not h11.DONE:
            headers["Connection"] = "close"
        head = h11.Response(
            status_code=response.status,
            reason=HTTPStatus(response.status).phrase.encode(),
            headers=list(headers.items()),
        )
        body = b"" if bodiless else response.body
        # Each through h11, which joins the head to no copy of a large body.
        parts = [
            connection.send(head),
            connection.send(h11.Data(data=body)),
            connection.send(h11.EndOfMessage()),
        ]
        async with asyncio.timeout(SEND_SECONDS):
            for part in filter(None, parts):
                await channel.send(part)


async def _receive(connection: h11.Connection, channel: Channel, peer: str) -> Request | None:
    """The next request, or None at the end of the connection; a body, which no GET needs, is not read."""
    if not connection.trailing_data[0]:
        async with asyncio.timeout(IDLE_SECONDS):
            connection.receive_data(await channel.receive())
    async with asyncio.timeout(HEADER_SECONDS):
        while (event := connection.next_event()) is h11.NEED_DATA:
            connection.receive_data(await channel.receive())
    if not isinstance(event, h11.Request):
        return None
    try:
        connection.next_event()  # a request without a body ends here, and the connection may be kept
    except h11.RemoteProtocolError:
        log.debug("a request's body is malformed", exc_info=True)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
    path = event.target.decode("latin-1").partition("?")[0]
    return Request(event.method.decode("latin-1"), path, headers, peer)


def _peer(writer: StreamWriter) -> str:
    """The peer's address; empty where it has gone already."""
    return str((writer.get_extra_info("peername") or ("",))[0])


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
