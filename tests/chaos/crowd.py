"""Many scrapers at once, as one event loop can play them."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"


@dataclass
class Crowd:
    """What the scrapers met: the seconds that each whole answer took, and how many were not answered."""

    answered: list[float] = field(default_factory=list)
    failed: int = 0

    async def scrape(self, address: str, patience: float = 30) -> None:
        """One scrape over a connection of its own."""
        host, _, port = address.rpartition(":")
        began = time.monotonic()
        with suppress(OSError, asyncio.TimeoutError):
            async with asyncio.timeout(patience):
                reader, writer = await asyncio.open_connection(host, int(port))
                try:
                    writer.write(REQUEST)
                    answer = await reader.read(-1)
                finally:
                    writer.transport.abort()
                if answer.startswith(b"HTTP/1.1 200"):
                    self.answered.append(time.monotonic() - began)
                    return
        self.failed += 1


def scrape_at_once(address: str, number: int) -> Crowd:
    """So many scrapes at the same moment."""
    crowd = Crowd()

    async def run() -> None:
        await asyncio.gather(*(crowd.scrape(address) for _ in range(number)))

    asyncio.run(run())
    return crowd


@contextmanager
def scraping(address: str, number: int) -> Iterator[Crowd]:
    """So many scrapers, each without a pause, as long as the context lasts."""
    crowd, over = Crowd(), threading.Event()

    async def one() -> None:
        while not over.is_set():
            await crowd.scrape(address, 10)
            await asyncio.sleep(0.01)

    async def run() -> None:
        await asyncio.gather(*(one() for _ in range(number)))

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    try:
        yield crowd
    finally:
        over.set()
        thread.join(15)
