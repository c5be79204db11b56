"""Questions to a Kubernetes API server over HTTP, each with an end, and all to be ended from outside."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast
from weakref import WeakSet

from gpuledger.core.errors import SourceError
from gpuledger.parse.kubelist import parse_status_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from urllib3 import HTTPResponse, PoolManager
    from urllib3.connection import HTTPConnection

KEEPALIVE = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""Socket options that find a peer which has vanished within a minute, where client-go takes three."""

_CONNECT_SECONDS = 3.0
_SILENCE_SECONDS = 10.0
_CHUNK_BYTES = 64 * 2**10
_MAX_BODY_BYTES = 256 * 2**20
# etcd takes objects of up to 1.5 MiB, unless somebody raised that.
_MAX_LINE_BYTES = 16 * 2**20

_SUCCESS = (200, 201)
_ADVICE = {
    0: "can the API server be reached from here?",
    401: "check the service account's token or the kubeconfig's user",
    403: "bind the role that the deployment comes with to this service account",
}


class ApiError(SourceError):
    """The API server gave no answer, or one that is no success.

    `status` is HTTP's, 0 without an answer; `retry_after` is how long the server wants peace, in seconds.
    """

    def __init__(self, message: str, *, status: int = 0, retry_after: float = 0.0) -> None:
        super().__init__("; ".join(filter(None, (message, _ADVICE.get(status)))))
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server: its URL, the way there, and headers that say who asks (or SourceError)."""

    url: str
    pools: PoolManager
    headers: Callable[[], Mapping[str, str]]


class Connection:
    """Asks one API server; `load` reads where it is and who asks, again whenever the credentials are refused.

    One thread asks; another may hang up.
    """

    def __init__(self, load: Callable[[], Endpoint]) -> None:
        self._load = load
        self._sockets = _Sockets()
        self._endpoint = self._find()

    def renew(self) -> None:
        """Read the configuration and the credentials again; raises SourceError."""
        old, self._endpoint = self._endpoint, self._find()
        old.pools.clear()

    def get(self, path: str, query: Mapping[str, str], *, seconds: float, quiet: bool = False) -> Answer:
        """Ask for `path`; the answer may take `seconds`. Raises ApiError for what is no success.

        Silence is given up on sooner, unless the answer is one that is `quiet` by nature once it has begun.
        """
        answer = self._ask("GET", path, seconds, fields=query)
        if quiet:
            self._sockets.allow_silence(seconds)
        return answer

    def post(self, path: str, document: bytes, *, seconds: float) -> Answer:
        """Ask by sending a JSON document to `path`; otherwise as `get`."""
        return self._ask("POST", path, seconds, body=document)

    def hang_up(self) -> None:
        """End what is being asked, from another thread, and ask nothing more."""
        # The pools stay: one made anew would know nothing of the sockets, and so let the next question through.
        self._sockets.cut()

    def _find(self) -> Endpoint:
        endpoint = self._load()
        try:
            pool = endpoint.pools.connection_from_url(endpoint.url)
        except _http_error() as error:
            raise SourceError(f"the API server's URL is {endpoint.url!r}: {one_line(error)}") from error
        pool.ConnectionCls = _registering(cast("type[HTTPConnection]", pool.ConnectionCls), self._sockets.add)
        return endpoint

    def _ask(self, method: str, path: str, seconds: float, **content: Any) -> Answer:
        question = f"{method} {path}"
        try:
            response = self._request(method, path, min(seconds, _SILENCE_SECONDS), content)
        except _http_error() as error:
            raise ApiError(f"{question}: {one_line(error)}") from error
        except ValueError as error:
            # The cause's own text quotes the token.
            raise ApiError(f"{question}: the credentials fit in no HTTP header", status=401) from error
        answer = Answer(question, response, seconds)
        if response.status not in _SUCCESS:
            with answer:
                raise answer.refusal()
        return answer

    def _request(self, method: str, path: str, silence: float, content: Mapping[str, Any]) -> HTTPResponse:
        from urllib3 import Timeout  # noqa: PLC0415 - as in _http_error

        headers = {"Accept": "application/json", "Accept-Encoding": "gzip", **self._endpoint.headers()}
        if "body" in content:
            headers["Content-Type"] = "application/json"
        response = self._endpoint.pools.request(
            method,
            self._endpoint.url + path,
            headers=headers,
            timeout=Timeout(connect=_CONNECT_SECONDS, read=silence),
            preload_content=False,
            redirect=False,
            retries=False,  # urllib3 would sleep through a Retry-After, deaf to the end of this process
            **content,
        )
        return cast("HTTPResponse", response)


class Answer:
    """An answer on its way, for a `with` and to be read once; reading raises ApiError where it breaks off."""

    def __init__(self, question: str, response: HTTPResponse, seconds: float) -> None:
        self._question = question
        self._response = response
        self._ends_at = time.monotonic() + seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()

    def body(self) -> bytes:
        """All of it."""
        chunks, size = [], 0
        for chunk in self._chunks():
            chunks.append(chunk)
            size += len(chunk)
            if size > _MAX_BODY_BYTES:
                raise ApiError(f"{self._question}: the answer is larger than {_MAX_BODY_BYTES} bytes")
        return b"".join(chunks)

    def lines(self) -> Iterator[bytes]:
        """Every complete line, as soon as it is there; what breaks off within a line is dropped."""
        rest = b""
        for chunk in self._chunks():
            *complete, rest = (rest + chunk).split(b"\n")
            yield from filter(None, complete)
            if len(rest) > _MAX_LINE_BYTES:
                raise ApiError(f"{self._question}: a line is longer than {_MAX_LINE_BYTES} bytes")

    def refusal(self) -> ApiError:
        """What an answer that is no success says."""
        status, reason = self._response.status, self._response.reason
        message = parse_status_message(self.body()) or reason
        seconds = self._response.headers.get("Retry-After", "")
        retry_after = float(seconds) if seconds.isdecimal() else 0.0
        return ApiError(f"{self._question}: {status}: {message}", status=status, retry_after=retry_after)

    def _chunks(self) -> Iterator[bytes]:
        # read1, because read waits for the whole chunk while the server lets it drip
        try:
            while chunk := self._response.read1(_CHUNK_BYTES):
                yield chunk
                if time.monotonic() > self._ends_at:
                    raise ApiError(f"{self._question}: the answer takes too long")
        except _http_error() as error:
            raise ApiError(f"{self._question}: {one_line(error)}") from error


class _Sockets:
    """The sockets that are open, to be set or cut while another thread waits for an answer on one of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: WeakSet[socket.socket] = WeakSet()
        self._cut = False

    def add(self, new: socket.socket) -> None:
        with self._lock:
            self._open.add(new)
        if self._cut:
            new.close()
            raise OSError("hung up")

    def allow_silence(self, seconds: float) -> None:
        for each in self._all():
            with suppress(OSError):
                each.settimeout(seconds)

    def cut(self) -> None:
        self._cut = True
        for each in self._all():
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _all(self) -> list[socket.socket]:
        with self._lock:
            return list(self._open)


def _registering(
    connection_class: type[HTTPConnection], register: Callable[[socket.socket], None]
) -> type[HTTPConnection]:
    """`connection_class`, which hands over each socket: urllib3 lets go of those that end with their answer."""

    class ApiConnection(connection_class):  # type: ignore[misc,valid-type] # a base class that urllib3 has chosen
        def connect(self) -> None:
            super().connect()
            register(self.sock)

    return ApiConnection


def _http_error() -> type[Exception]:
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - 14 MiB that `--kube=off` does without

    return HTTPError


def one_line(error: Exception) -> str:
    """An error's text without line breaks, or its type where it has none."""
    return " ".join(str(error).split()) or type(error).__name__
