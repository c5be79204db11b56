"""The harness' Prometheus tells the truth about what it scrapes."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tools.prometheus import VERSIONS, Prometheus, Sample, Target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e


@contextmanager
def serving(exposition: str) -> Iterator[str]:
    """Serve the text at every path of a loopback address, which is yielded as host:port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(exposition.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_from_what_was_scraped(tmp_path: Path, version: str) -> None:
    exposition = '# TYPE lamp gauge\nlamp{room="a"} 1\nlamp{room="b"} 0.5\n'
    rules = tmp_path / "rules.yaml"
    rules.write_text("groups: [{name: g, rules: [{alert: LampDim, expr: lamp < 1}]}]")

    with (
        serving(exposition) as address,
        Prometheus(
            tmp_path, {"lamps": address}, version=version, interval="200ms", rules=[rules]
        ) as prometheus,
    ):
        samples = prometheus.wait_for("lamp", lambda found: len(found) == 2)
        [firing] = prometheus.wait_for('ALERTS{alertstate="firing"}')

        labels = {"__name__": "lamp", "job": "lamps", "instance": address}
        assert [Sample({**labels, "room": "a"}, 1), Sample({**labels, "room": "b"}, 0.5)] == samples
        assert prometheus.query_value("sum(lamp)") == 1.5
        assert prometheus.query_value("scalar(sum(lamp))") == 1.5
        assert prometheus.query_value("no_such_series") is None
        assert [Target("lamps", "up", "")] == prometheus.targets()
        assert {
            **labels,
            "room": "b",
            "__name__": "ALERTS",
            "alertname": "LampDim",
            "alertstate": "firing",
        } == firing.labels
        assert not prometheus.complaints()


@pytest.mark.parametrize("version", VERSIONS)
def test_shows_a_bad_exposition(tmp_path: Path, version: str) -> None:
    with (
        serving("lamp{room= 1\n") as address,
        Prometheus(tmp_path, {"lamps": address}, version=version, interval="200ms") as prometheus,
    ):
        prometheus.wait_for("up == 0")

        [target] = prometheus.targets()
        assert (target.job, target.health) == ("lamps", "down")
        assert "expected label value" in target.error


def test_says_what_is_wrong_with_a_query(tmp_path: Path) -> None:
    with Prometheus(tmp_path, {}) as prometheus, pytest.raises(AssertionError, match="parse error"):
        prometheus.query("sum(")
