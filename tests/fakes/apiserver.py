"""A Kubernetes API server's list, watch, get and reviews on loopback, with the faults that real ones have.

Its manners were compared with a real 1.36: items of a list lack `kind`, objects of a watch have it, bookmarks
have null containers, refusals are `Status` objects, every event is a line. A limit means nothing with
resourceVersion 0, and no version goes with `continue`.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

import yaml

from fakes.apistore import ApiStore, ExpiredError, Object, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?"
)
_REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 410: "Expired"}
_GZIP_ABOVE = 128 * 2**10
_FOREVER = 3600.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that came in, at a steady time; `headers` has lower-case names."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    at: float = field(default_factory=time.monotonic)
    document: Object = field(default_factory=dict)

    @property
    def watch(self) -> bool:
        return "watch" in self.query


def any_request(_: Asked) -> bool:
    return True


def a_list(asked: Asked) -> bool:
    return not asked.watch and not _PATH.fullmatch(asked.path)["name"]  # type: ignore[index]


def a_watch(asked: Asked) -> bool:
    return asked.watch


@dataclass(slots=True)
class Fault:
    """What goes wrong with the next `times` requests that `where` chooses.

    First the server thinks for `delay` seconds. With `status` it refuses; with `body` it says that instead.
    After `after` bytes `then` happens: the connection is cut, falls silent for ever, or drips byte by byte.
    """

    where: Callable[[Asked], bool] = any_request
    times: int = 1
    delay: float = 0.0
    status: int = 200
    retry_after: str = ""
    body: bytes | None = None
    after: int = 0
    then: Literal["", "cut", "silence", "drip"] = ""


NO_FAULT = Fault()


@dataclass
class ApiServer:
    """Serves while it is entered; `tls` (certificate, key) makes it HTTPS, of `tokens` it wants one."""

    tls: tuple[Path, Path] | None = None
    tokens: set[str] = field(default_factory=set)
    bookmark_seconds: float = 60.0
    keep_alive: bool = True
    requests: list[Asked] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    store: ApiStore = field(default_factory=ApiStore)
    users: dict[str, str] = field(default_factory=dict)
    """Names by the tokens that a TokenReview finds good."""
    allowed: set[tuple[str, str]] = field(default_factory=set)
    """Names with a path, no resource, that they may get."""
    closing: threading.Event = field(default_factory=threading.Event)
    _connections: set[socket.socket] = field(default_factory=set)
    _http: _HttpServer | None = None
    _port: int = 0

    def __enter__(self) -> Self:
        self.accept()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.refuse()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self._port}"

    def add(self, obj: Object) -> Object:
        """Create an object; returns it as stored."""
        return self.store.write(obj)

    def update(self, obj: Object) -> Object:
        """Replace an object of the same kind, namespace and name."""
        return self.store.write(obj)

    def delete(self, obj: Object) -> None:
        self.store.delete(obj)

    def compact(self) -> None:
        """Forget history, as etcd does after five minutes."""
        self.store.compact()

    def rotate_token(self, token: str) -> None:
        """From now on only `token` is good."""
        self.tokens = {token}

    def accept(self) -> None:
        """Listen, again on the same port."""
        self._http = _HttpServer(("127.0.0.1", self._port), self)
        self._port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def refuse(self) -> None:
        """Stop listening, and cut what is open."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None
        self.cut()

    def cut(self) -> None:
        """Cut every open connection."""
        for connection in [*self._connections]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def kubeconfig(self, path: Path, **user: str) -> Path:
        """Write a kubeconfig whose user has the given entries (`token`, `tokenFile`)."""
        cluster = {"server": self.url, **({"certificate-authority": str(self.tls[0])} if self.tls else {})}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": cluster}],
            "users": [{"name": "fake", "user": user}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "current-context": "fake",
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def lists(self) -> list[Asked]:
        """The lists that were asked for, page by page."""
        return [asked for asked in self.requests if a_list(asked)]

    def watches(self) -> list[Asked]:
        """The watches that were asked for."""
        return [asked for asked in self.requests if a_watch(asked)]

    def fault_for(self, asked: Asked) -> Fault:
        for fault in self.faults:
            if fault.times > 0 and fault.where(asked):
                fault.times -= 1
                return fault
        return NO_FAULT

    def opened(self, connection: socket.socket) -> None:
        self._connections.add(connection)

    def closed(self, connection: socket.socket) -> None:
        self._connections.discard(connection)


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], api: ApiServer) -> None:
        super().__init__(address, _Handler)
        self.api = api
        if api.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*api.tls)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up in the middle is the point of many a test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HttpServer

    def setup(self) -> None:
        super().setup()
        self.server.api.opened(self.request)

    def finish(self) -> None:
        self.server.api.closed(self.request)
        super().finish()

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        self._serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def do_GET(self) -> None:
        self._serve({})

    def _serve(self, document: Object) -> None:
        api, url = self.server.api, urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(url.path, dict(parse_qsl(url.query, keep_blank_values=True)), headers, document=document)
        api.requests.append(asked)
        self._fault = api.fault_for(asked)
        self._sent = 0
        self.close_connection = not api.keep_alive
        api.closing.wait(self._fault.delay)
        if self._fault.status != 200:
            self._refuse(self._fault.status)
        elif self._fault.body is not None:
            self._answer(self._fault.body)
        elif api.tokens and headers.get("authorization", "")[len("Bearer ") :] not in api.tokens:
            self._refuse(401)
        else:
            self._route(asked)

    def _route(self, asked: Asked) -> None:
        if asked.document:
            return self._review(asked.document)
        match = _PATH.fullmatch(asked.path)
        if match is None:
            return self._refuse(404)
        resource = f"{match['group']}/{match['plural']}" if match["group"] else match["plural"]
        scope = Scope(resource, match["namespace"] or "", asked.query.get("fieldSelector", ""))
        if match["name"]:
            return self._get(self.server.api.store.get(resource, scope.namespace, match["name"]))
        return self._watch(scope, asked.query) if asked.watch else self._list(scope, asked)

    def _review(self, review: Object) -> None:
        """Answer as a real 1.20 did; `user` alone says whose a token is, of groups all have the usual ones."""
        spec = review["spec"]
        if review["kind"] == "TokenReview":
            status = self._whose(spec["token"])
        else:
            asked = spec["nonResourceAttributes"]
            allowed = asked["verb"] == "get" and (spec["user"], asked["path"]) in self.server.api.allowed
            status = {"allowed": allowed}
        self._answer(
            json.dumps({**review, "metadata": {"creationTimestamp": None}, "status": status}).encode(), 201
        )

    def _whose(self, token: str) -> Object:
        user = self.server.api.users.get(token)
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        groups = ["system:serviceaccounts", "system:authenticated"]
        identity = {"username": user, "uid": f"uid-of-{user}", "groups": groups}
        return {"authenticated": True, "user": identity, "audiences": ["https://kubernetes.default.svc"]}

    def _get(self, obj: Object | None) -> None:
        if obj is None:
            self._refuse(404)
        else:
            self._answer(json.dumps(obj).encode())

    def _list(self, scope: Scope, asked: Asked) -> None:
        token, version = asked.query.get("continue", ""), asked.query.get("resourceVersion", "")
        if token and version not in ("", "0"):
            return self._refuse(400)
        limit = 0 if version == "0" else int(asked.query.get("limit", "0"))
        try:
            page = self.server.api.store.page(scope, limit, token)
        except ExpiredError:
            return self._refuse(410)
        return self._answer(
            json.dumps(page).encode(), compress="gzip" in asked.headers.get("accept-encoding", "")
        )

    def _watch(self, scope: Scope, query: dict[str, str]) -> None:
        self._begin(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in self._events(scope, query):
            self._send(json.dumps(event).encode() + b"\n", chunked=True)
        self.wfile.write(b"0\r\n\r\n")

    def _events(self, scope: Scope, query: dict[str, str]) -> Iterator[Object]:
        store, closing = self.server.api.store, self.server.api.closing
        ends_at = time.monotonic() + float(query.get("timeoutSeconds", _FOREVER))
        version = int(query.get("resourceVersion") or 0)
        if version == 0:
            version = store.version
            yield from ({"type": "ADDED", "object": obj} for obj in store.objects(scope))
        bookmark_at = time.monotonic() + self.server.api.bookmark_seconds
        while (now := time.monotonic()) < ends_at and not closing.is_set() and self._is_connected():
            try:
                changes = store.since(version)
            except ExpiredError:
                yield {
                    "type": "ERROR",
                    "object": _status(410, f"too old resource version: {version} ({store.compacted})"),
                }
                return
            events = [change.event(scope) for change in changes]
            yield from filter(None, events)
            version = max([version, *(change.version for change in changes)])
            if now >= bookmark_at:
                yield _bookmark(version)
                bookmark_at = now + self.server.api.bookmark_seconds
            with store.changed:
                store.changed.wait_for(lambda: store.version > version, 0.05)  # noqa: B023 - called at once

    def _is_connected(self) -> bool:
        try:
            # The plain socket's recv, because TLS does not peek.
            return socket.socket.recv(self.connection, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _refuse(self, status: int) -> None:
        self._answer(json.dumps(_status(status, _REASONS.get(status, "InternalError"))).encode(), status)

    def _answer(self, body: bytes, status: int = 200, *, compress: bool = False) -> None:
        self._begin(status)
        if self._fault.retry_after:
            self.send_header("Retry-After", self._fault.retry_after)
        if compress and len(body) > _GZIP_ABOVE:
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self._send(body)

    def _begin(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if self.close_connection:
            self.send_header("Connection", "close")

    def _send(self, data: bytes, *, chunked: bool = False) -> None:
        """Write a part of the body, unless the fault's moment has come."""
        if chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        allowed = len(data) if not self._fault.then else max(0, self._fault.after - self._sent)
        self._sent += len(data)
        self.wfile.write(data[:allowed])
        if allowed >= len(data):
            return
        if self._fault.then == "drip":
            for byte in data[allowed:]:
                self.wfile.write(bytes([byte]))
                self.server.api.closing.wait(0.01)
            return
        if self._fault.then == "silence":
            self.server.api.closing.wait(_FOREVER)
        self.close_connection = True
        raise ConnectionAbortedError


def _status(code: int, message: str) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(code, "InternalError"),
        "code": code,
    }


def _bookmark(version: int) -> Object:
    metadata = {"resourceVersion": str(version)}
    return {
        "type": "BOOKMARK",
        "object": {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": metadata,
            "spec": {"containers": None},
            "status": {},
        },
    }
