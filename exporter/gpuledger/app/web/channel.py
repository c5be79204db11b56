"""The bytes of one connection, as they are or through TLS.

On asyncio's plain socket calls, because its streams take in 256 KiB at once, and its TLS as much again:
docs/decisions/0014-web-security.md.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from gpuledger.app.web.tls import Tls, Trust

T = TypeVar("T")

CHUNK_BYTES = 16 * 1024
"""What is read at once, and the size of a TLS record."""
SEND_BYTES = 16 * CHUNK_BYTES
"""What is encrypted at once; the rest of a large page waits until that is sent."""


class Channel:
    """A connection as it is; no method waits longer than the peer lets it, so that callers set deadlines."""

    trust: Trust | None = None
    """What the peer's certificate was held to."""

    def __init__(self, connection: socket.socket, peer: str, first: bytes) -> None:
        """`first` has been received already."""
        self.peer = peer
        self._first = first
        self._connection = connection
        self._loop = asyncio.get_running_loop()

    async def receive(self) -> bytes:
        """What has come in; empty at the end. Raises OSError."""
        if self._first:
            first, self._first = self._first, b""
            return first
        return await self._loop.sock_recv(self._connection, CHUNK_BYTES)

    async def send(self, data: bytes) -> None:
        """Send it all. Raises OSError."""
        await self._loop.sock_sendall(self._connection, data)

    async def part(self) -> None:
        """Let the peer take in the answer and close: closing on unread input would reset the connection.

        Source: RFC 9112 section 9.6.
        """
        self._connection.shutdown(socket.SHUT_WR)
        while await self._loop.sock_recv(self._connection, CHUNK_BYTES):
            pass


class TlsChannel(Channel):
    """A connection through TLS, of which this is the server's side."""

    def __init__(self, tls: Tls, connection: socket.socket, peer: str, first: bytes) -> None:
        super().__init__(connection, peer, first)
        self.trust = tls.trust
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = tls.context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    async def shake_hands(self) -> None:
        """Agree on keys. Raises ssl.SSLError, also for a certificate that names nobody who is allowed."""
        await self._step(self._session.do_handshake)
        assert self.trust is not None  # noqa: S101 - __init__ sets it
        self.trust.check(self._session.getpeercert())

    async def receive(self) -> bytes:
        """What has come in; empty at the end. Raises OSError."""
        try:
            return await self._step(lambda: self._session.read(CHUNK_BYTES))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    async def send(self, data: bytes) -> None:
        """Send it all. Raises OSError."""
        view = memoryview(data)
        for start in range(0, len(view), SEND_BYTES):
            self._session.write(view[start : start + SEND_BYTES])
            await self._flush()

    async def part(self) -> None:
        """Say that there is no more, in TLS too, and let the peer close."""
        with suppress(ssl.SSLError):
            self._session.unwrap()  # says so, and then complains that the peer has not said it yet
        await self._flush()
        await super().part()

    async def _step(self, step: Callable[[], T]) -> T:
        """Repeat `step` until it has got what it needs from the peer."""
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await super().receive()
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            finally:
                await self._flush()  # the end of a handshake, or the alert that says why there is none

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            await super().send(data)
