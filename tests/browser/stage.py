"""A page on the real server that can be exchanged and taken away while somebody looks at it."""

from __future__ import annotations

import asyncio
import threading
from typing import Self

from gpuledger.app.http import Request, Response, Server
from gpuledger.app.pages import markup
from gpuledger.app.pages.markup import Html


class Stage:
    """Serves `page` on loopback, and keeps its port when it is stopped and started again."""

    def __init__(self, page: Html) -> None:
        self.page = page
        self._port = 0
        self._server = Server(self._answer)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/"

    def start(self) -> None:
        starting = self._server.start("127.0.0.1", self._port)
        (address,) = asyncio.run_coroutine_threadsafe(starting, self._loop).result(5)
        self._port = int(address.rpartition(":")[2])

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(grace=0.0), self._loop).result(5)

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _answer(self, request: Request) -> Response:
        return markup.answer(self.page) if request.path == "/" else Response(404, b"")
