"""A small HTTP/1.1 server for a scraper's needs: GET only, everything bounded, nothing that waits on a device.

asyncio carries the connections and h11 the protocol: docs/decisions/0003-http.md says why not a framework.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
        self._idle: dict[asyncio.StreamWriter, None] = {}
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
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
        if self._open:
            await asyncio.wait(self._open.values(), timeout=grace)
        for writer in list(self._open):
            writer.transport.abort()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        self._open[writer] = task
        if len(self._open) > MAX_CONNECTIONS and self._idle:
            next(iter(self._idle)).transport.abort()
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        try:
            while await self._exchange(connection, reader, writer):
                connection.start_next_cycle()
        except (TimeoutError, ConnectionError, h11.ProtocolError):
            log.debug("connection ended early", exc_info=True)
        finally:
            self._open.pop(writer, None)
            self._idle.pop(writer, None)
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await writer.wait_closed()

    async def _exchange(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """One request and its answer; False when the connection is to end."""
        try:
            request = await self._receive(connection, reader, writer)
        except h11.RemoteProtocolError as error:
            if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                refusal = Response(error.error_status_hint, f"{error}\n".encode())
                await _send(connection, writer, refusal, method="GET")
            return False
        if request is None:
            return False
        response = self._answer(request)
        await _send(connection, writer, response, method=request.method)
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    async def _receive(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Request | None:
        """The next request, or None at the end of the connection; a body, which no GET needs, is not read."""
        self._idle[writer] = None
        now = asyncio.get_running_loop().time
        deadline, started = now() + IDLE_SECONDS, False
        try:
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    async with asyncio.timeout_at(deadline):
                        data = await reader.read(MAX_HEADER_BYTES)
                    connection.receive_data(data)
                    if not started:
                        deadline, started = now() + HEADER_SECONDS, True
                elif isinstance(event, h11.Request):
                    break
                else:
                    return None
        finally:
            self._idle.pop(writer, None)
        with contextlib.suppress(h11.RemoteProtocolError):
            connection.next_event()  # a request without a body ends here, and the connection may be kept
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        path = event.target.decode("latin-1").partition("?")[0]
        return Request(event.method.decode("latin-1"), path, headers)

    def _answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"only GET and HEAD\n", headers={"Allow": "GET, HEAD"})
        try:
            return self._handler(request)
        except Exception:
            log.exception("no answer for %s", request.path)
            return Response(500, b"internal error; the log says more\n")


async def _send(
    connection: h11.Connection, writer: asyncio.StreamWriter, response: Response, *, method: str
) -> None:
    headers = [
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body))),
        ("X-Content-Type-Options", "nosniff"),
        *response.headers.items(),
    ]
    if connection.their_state is not h11.DONE:
        headers.append(("Connection", "close"))
    writer.write(connection.send(h11.Response(status_code=response.status, headers=headers)) or b"")
    if method != "HEAD":
        writer.write(connection.send(h11.Data(data=response.body)) or b"")
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    async with asyncio.timeout(SEND_SECONDS):
        await writer.drain()


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
