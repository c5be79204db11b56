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

log = logging.getLogger(__name__)

MAX_HEADER_BYTES = 16 * 1024
MAX_CONNECTIONS = 128
"""Beyond this the connection that has been idle longest is closed: sleepers never lock a newcomer out."""
IDLE_SECONDS = 150.0
"""How long a connection may wait for its next request; Prometheus keeps them open between scrapes."""
HEADER_SECONDS = 10.0
"""How long a request's head may take to come in, from its first byte."""
SEND_SECONDS = 30.0
"""How long a reader may take over an answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a handler may look at: method, path without its query, and headers by lower-case name."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; the body is sent whole."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Response]


class Server:
    """Serves a handler's answers; the handler runs on the event loop and must be quick."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._open: dict[StreamWriter, asyncio.Task[None]] = {}
        """All connections, the oldest first."""
        self._idle: dict[StreamWriter, None] = {}
        """Those without a whole request, the longest idle first."""
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> list[str]:
        """Listen; returns the addresses listened on. Raises OSError."""
        self._server = await asyncio.start_server(
            self._connection, host or None, port, limit=MAX_HEADER_BYTES, reuse_address=True
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

    async def _connection(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        if len(self._open) >= MAX_CONNECTIONS:
            self._evict()
        self._open[writer] = task
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        try:
            while await self._exchange(connection, reader, writer) and self._serving():
                connection.start_next_cycle()
                await asyncio.sleep(0)  # others come in between the requests of a pipeline
            await _part(reader, writer)
        except (OSError, h11.ProtocolError):
            log.debug("connection ended early", exc_info=True)
        finally:
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

    async def _exchange(self, connection: h11.Connection, reader: StreamReader, writer: StreamWriter) -> bool:
        """One request and its answer; False when the connection is to end."""
        self._idle[writer] = None
        try:
            request = await _receive(connection, reader)
        except h11.RemoteProtocolError as error:
            await _send(connection, writer, Response(error.error_status_hint, f"{error}\n".encode()))
            return False
        finally:
            self._idle.pop(writer, None)
        if request is None:
            return False
        await _send(connection, writer, self._answer(request), bodiless=request.method == "HEAD")
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    def _answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"only GET and HEAD\n", headers={"Allow": "GET, HEAD"})
        try:
            return self._handler(request)
        except Exception:
            log.exception("no answer for %s", request.path)
            return Response(500, b"internal error; the log says more\n")


async def _receive(connection: h11.Connection, reader: StreamReader) -> Request | None:
    """The next request, or None at the end of the connection; a body, which no GET needs, is not read."""
    if not connection.trailing_data[0]:
        async with asyncio.timeout(IDLE_SECONDS):
            connection.receive_data(await reader.read(MAX_HEADER_BYTES))
    async with asyncio.timeout(HEADER_SECONDS):
        while (event := connection.next_event()) is h11.NEED_DATA:
            connection.receive_data(await reader.read(MAX_HEADER_BYTES))
    if not isinstance(event, h11.Request):
        return None
    try:
        connection.next_event()  # a request without a body ends here, and the connection may be kept
    except h11.RemoteProtocolError:
        log.debug("a request's body is malformed", exc_info=True)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
    path = event.target.decode("latin-1").partition("?")[0]
    return Request(event.method.decode("latin-1"), path, headers)


async def _send(
    connection: h11.Connection, writer: StreamWriter, response: Response, *, bodiless: bool = False
) -> None:
    headers = [
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body))),
        ("X-Content-Type-Options", "nosniff"),
        *response.headers.items(),
    ]
    if connection.their_state is not h11.DONE:
        headers.append(("Connection", "close"))
    head = h11.Response(
        status_code=response.status, reason=HTTPStatus(response.status).phrase.encode(), headers=headers
    )
    writer.write(connection.send(head) or b"")
    if not bodiless:
        writer.write(connection.send(h11.Data(data=response.body)) or b"")
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    async with asyncio.timeout(SEND_SECONDS):
        await writer.drain()


async def _part(reader: StreamReader, writer: StreamWriter) -> None:
    """Let the peer take in the answer and close: closing on unread input would reset the connection.

    Source: RFC 9112 section 9.6.
    """
    writer.write_eof()
    async with asyncio.timeout(SEND_SECONDS):
        while await reader.read(MAX_HEADER_BYTES):
            pass


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
