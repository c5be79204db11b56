"""The HTTP server as a target: whatever comes in, it answers in HTTP or closes, and serves the next as ever."""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import threading

from gpuledger.app.http import Request, Response, Server

GOOD = b"GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
KNOWN = (
    GOOD,
    b"HEAD /?a=b%00 HTTP/1.0\r\n\r\n",
    b"GET http://x/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc" + GOOD,
)
PATIENCE_S = 20.0


def ask(data: bytes) -> None:
    """Send the bytes and what a scraper sends after them; fails where the server makes a fault of it."""
    served = _serving()
    answer = _exchange(served.port, data)
    assert not answer or answer.startswith(b"HTTP/1.1 "), answer
    assert _exchange(served.port, GOOD).endswith(b"\r\n\r\n/next")
    assert not served.faults, served.faults


def _exchange(port: int, data: bytes) -> bytes:
    """All that comes back for these bytes, of which no more follow."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while part := client.recv(65_536):
                answer += part
        except ConnectionError:
            pass  # it had heard enough
    return answer


class _Serving(logging.Handler):
    """A server in a thread of its own, and what it said went wrong with it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.faults: list[str] = []
        for name in ("gpuledger", "asyncio"):
            logging.getLogger(name).addHandler(self)
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        self._server = Server(_answer)
        [address] = asyncio.run_coroutine_threadsafe(self._server.start("127.0.0.1", 0), loop).result(
            PATIENCE_S
        )
        self.port = int(address.rpartition(":")[2])

    def emit(self, record: logging.LogRecord) -> None:
        self.faults.append(record.getMessage())


def _answer(request: Request) -> Response:
    assert request.method in ("GET", "HEAD")
    return Response(200, request.path.encode("latin-1"))


_serving = functools.cache(_Serving)
