"""A Kubernetes API with as many pods as one likes, made as they are asked for: `python pods_api.py PODS RATE`.

Pods are those of a real cluster, each copy with a name, UID, owner and namespace of its own, a fifth of them
with GPUs. A watch on them tells of RATE events a second from the moment that /start is asked for: nine of ten
change a pod's status, the tenth ends a pod or starts another.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import NAMESPACE_URL, uuid5

FIXTURES = Path(__file__).resolve().parents[1] / "tests/fixtures/kube-1.36"
GPU_PODS = ("llm-server", "notebook", "debug-shell", "sneaky")
"""By the beginning of their names: about two findings each, and all but one ask for a GPU."""
OTHER_PODS = ("node-agent", "node-agent", "static-gpu")

PODS_A_NODE = 50
PODS_A_WORKLOAD = 10
NAMESPACES = 200
EVENTS_A_BATCH = 20


@dataclass
class Cluster:
    """Pods and nodes by number."""

    pods: int
    rate: float
    started: threading.Event = field(default_factory=threading.Event)
    sent: int = 0
    """Events so far."""

    def __post_init__(self) -> None:
        items = json.loads((FIXTURES / "api-pods-node1.json").read_text())["items"]
        self._gpu = [_marked(item) for name in GPU_PODS for item in items if _is(item, name)]
        self._other = [_marked(item) for name in OTHER_PODS for item in items if _is(item, name)]
        node = json.loads((FIXTURES / "api-nodes.json").read_text())["items"][0]
        node["metadata"]["uid"] = "@UID@"
        self._node = json.dumps(node).replace("node1", "@NODE@")

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return max(1, self.pods // PODS_A_NODE)

    def pod(self, number: int, restarts: int = 0) -> str:
        """A pod as JSON; of those beyond the first `pods`, each takes the place of one of them."""
        templates = self._other if number % 5 else self._gpu
        text = templates[number // 5 % len(templates)]
        uid = str(uuid5(NAMESPACE_URL, str(number)))
        values = {
            "NAME": f"pod-{uid[:8]}-{uid[-5:]}",
            "UID": uid,
            "OWNER": f"workload-{number % self.pods // PODS_A_WORKLOAD}",
            "NAMESPACE": f"team-{number % self.pods // PODS_A_WORKLOAD % NAMESPACES}",
            "NODE": f"node-{number % self.nodes}",
            "RESTARTS": str(restarts),
        }
        return re.sub("@([A-Z]+)@", lambda mark: values[mark[1]], text)

    def page(self, first: int, limit: int) -> str:
        """A page of the list of pods."""
        end = min(first + limit, self.pods)
        meta = {"resourceVersion": "1000", **({"continue": str(end)} if end < self.pods else {})}
        items = ",".join(map(self.pod, range(first, end)))
        return f'{{"kind":"PodList","apiVersion":"v1","metadata":{json.dumps(meta)},"items":[{items}]}}'

    def node_list(self) -> str:
        """All nodes."""
        names = [f"node-{number}" for number in range(self.nodes)]
        nodes = ",".join(self._node.replace("@NODE@", name).replace("@UID@", name) for name in names)
        return f'{{"kind":"NodeList","apiVersion":"v1","metadata":{{"resourceVersion":"1"}},"items":[{nodes}]}}'

    def events(self, ends_at: float) -> Iterator[str]:
        """Events of a watch on pods, in batches."""
        oldest, newest, count = 0, self.pods, 0
        while not self.started.wait(0.1):
            if time.monotonic() > ends_at:
                return
        began = time.monotonic()
        while time.monotonic() < ends_at:
            batch = []
            for _ in range(EVENTS_A_BATCH):
                count += 1
                if count % 10:
                    pod = oldest + count * 7919 % (newest - oldest)
                    batch.append(f'{{"type":"MODIFIED","object":{self.pod(pod, count)}}}\n')
                elif count % 20:
                    batch.append(f'{{"type":"DELETED","object":{self.pod(oldest)}}}\n')
                    oldest += 1
                else:
                    batch.append(f'{{"type":"ADDED","object":{self.pod(newest)}}}\n')
                    newest += 1
            yield "".join(batch)
            self.sent = count
            time.sleep(max(0.0, began + count / self.rate - time.monotonic()))


def _is(item: dict[str, Any], name: str) -> bool:
    return bool(item["metadata"]["name"].startswith(name))


def _marked(item: dict[str, Any]) -> str:
    """A pod's JSON with marks where copies differ."""
    meta = item["metadata"]
    for owner in meta.get("ownerReferences", ()):
        hashed = meta.get("labels", {}).get("pod-template-hash", "")
        owner["name"] = f"@OWNER@-{hashed}" if hashed else "@OWNER@"
    meta.update(name="@NAME@", uid="@UID@", namespace="@NAMESPACE@")
    item["spec"]["nodeName"] = "@NODE@"
    text = json.dumps(item, separators=(",", ":"))
    return re.sub(r'"restartCount":\d+', '"restartCount":@RESTARTS@', text)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: Cluster

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        if url.path == "/start":
            self.cluster.started.set()
            self._answer("started")
        elif url.path == "/sent":
            self._answer(str(self.cluster.sent))
        elif "watch" in query:
            self._watch(url.path, time.monotonic() + float(query["timeoutSeconds"]))
        elif url.path == "/api/v1/pods":
            self._answer(self.cluster.page(int(query.get("continue", "0")), int(query["limit"])))
        elif url.path == "/api/v1/nodes":
            self._answer(self.cluster.node_list())
        elif url.path.startswith("/api/v1/"):
            self._answer('{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}')
        else:
            self._answer('{"kind":"Status","code":404}', 404)

    def _watch(self, path: str, ends_at: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        if path == "/api/v1/pods":
            for batch in self.cluster.events(ends_at):
                self.wfile.write(batch.encode())
        else:
            time.sleep(max(0.0, ends_at - time.monotonic()))
        self.close_connection = True

    def _answer(self, text: str, status: int = 200) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that ends in the middle is nothing to talk about."""


def main() -> None:
    """Serve on a free port of loopback, which is printed, until the end of standard input."""
    _Handler.cluster = Cluster(int(sys.argv[1]), float(sys.argv[2]))
    server = _Server(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
