"""A real Alertmanager on loopback, and an inbox in the place of everybody whom it would tell."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

import yaml

from tools.daemon import Daemon, until
from tools.fetch import binary, tool

if TYPE_CHECKING:
    from pathlib import Path

TOOL = "alertmanager-0"

WITH_ITS_TEMPLATES = 'mount -t overlay overlay -o "lowerdir=$0/usr/share:/usr/share" /usr/share && exec "$@"'
"""Debian's Alertmanager reads templates below /usr/share: in a mount namespace of its own they are there."""


class Inbox:
    """Receives what Alertmanager sends, by receiver: alerts by its webhooks, texts by its chat messages."""

    def __init__(self) -> None:
        self.alerts: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.messages: defaultdict[str, list[str]] = defaultdict(list)

    def __enter__(self) -> Self:
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                inbox._take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.end_headers()
                self.wfile.write(b"ok")  # as the chat answers; anything else is an error to Alertmanager

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def receiver(self, name: str) -> dict[str, Any]:
        """The receiver `name` of a configuration with this inbox in its place: as webhook and as chat."""
        base = f"http://127.0.0.1:{self._server.server_port}"
        chat = {
            "api_url": f"{base}/chat/{name}",
            "title": '{{ template "gpuledger.title" . }}',
            "text": '{{ template "gpuledger.text" . }}',
        }
        hook = {"url": f"{base}/hook/{name}"}
        return {"name": name, "webhook_configs": [hook], "slack_configs": [chat]}

    def wait_for(self, receiver: str, alertname: str, timeout: float = 60, **labels: str) -> dict[str, Any]:
        """The first firing alert of that name, with these labels, that the receiver gets."""
        wanted = {"alertname": alertname, **labels}

        def found() -> dict[str, Any] | None:
            firing = (a for a in list(self.alerts[receiver]) if a["status"] == "firing")
            return next((a for a in firing if wanted.items() <= a["labels"].items()), None)

        got = until(found, timeout, lambda: f"{receiver} has no {wanted}, but {dict(self.alerts)}")
        assert got is not None
        return got

    def _take(self, path: str, body: dict[str, Any]) -> None:
        _, kind, receiver = path.split("/")
        if kind == "hook":
            self.alerts[receiver] += body["alerts"]
        else:
            self.messages[receiver] += [f"{a['title']}\n{a['text']}" for a in body["attachments"]]


class Alertmanager(Daemon):
    """An Alertmanager with the configuration in a file; use it as a context manager."""

    def __init__(self, folder: Path, config: Path) -> None:
        command = [
            *("unshare", "--mount", "sh", "-c", WITH_ITS_TEMPLATES, str(tool(TOOL))),
            str(binary(TOOL, "prometheus-alertmanager")),
            f"--config.file={config}",
            f"--storage.path={folder / 'alertmanager'}",
            "--web.listen-address=127.0.0.1:0",
            "--cluster.listen-address=",
        ]
        super().__init__(command, folder / "alertmanager.log")

    def alerts(self) -> list[dict[str, Any]]:
        """What it knows of, with `status`: active, or suppressed and by what."""
        with urllib.request.urlopen(f"http://{self.address()}/api/v2/alerts", timeout=10) as reply:
            known: list[dict[str, Any]] = json.load(reply)
        return known


def write_config(example: Path, inbox: Inbox, folder: Path) -> Path:
    """Write the example for a test: routes and inhibition as they are, but told at once and to the inbox."""
    config = yaml.safe_load(example.read_text())
    config["templates"] = [str(example.parent / name) for name in config["templates"]]
    config["receivers"] = [inbox.receiver(receiver["name"]) for receiver in config["receivers"]]
    _hurry(config["route"])
    path = folder / "alertmanager.json"  # JSON is YAML
    path.write_text(json.dumps(config))
    return path


def _hurry(route: dict[str, Any]) -> None:
    route |= {"group_wait": "200ms", "group_interval": "1s"}
    for child in route.get("routes", ()):
        _hurry(child)
