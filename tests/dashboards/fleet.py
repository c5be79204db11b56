"""A fleet of 2,000 GPUs for Prometheus to scrape: what one exporter shows, again and again under new names."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

NAMESPACES, WORKLOADS = 50, 10
"""In how many namespaces the fleet's pods live, and how many workloads of each name there are."""

_SERIES = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_NAMED = re.compile(r'\b(node|gpu_uuid|mig_uuid|pod|namespace|workload|uid|claim|quota|pool)="([^"]+)"')
_SPREAD = {"namespace": NAMESPACES, "workload": WORKLOADS * NAMESPACES}


def multiply(role: str, exposition: str, copies: int, metrics: Collection[str]) -> Iterator[str]:
    """The series of these metrics, of as many exporters of a role as `copies` says; comments are left out."""
    for name, labels, value in _SERIES.findall(exposition):
        if name in metrics:
            named = _NAMED.sub(_place, labels.replace("%", "%%"))
            template = f'{name}{{{named}{"," if named else ""}instance="{role}-%(each)d"}} {value}'
            for number in range(copies):
                yield template % {"each": number, **{name: number % many for name, many in _SPREAD.items()}}


def _place(found: re.Match[str]) -> str:
    counted = found[1] if found[1] in _SPREAD else "each"
    return f'{found[1]}="{found[2]}-%({counted})d"'


@contextmanager
def serving(page: bytes) -> Iterator[str]:
    """Serve the page to whoever asks; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield "{}:{}".format(*server.server_address)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
