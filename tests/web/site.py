"""A guarded server on loopback, and clients that come with or without credentials."""

from __future__ import annotations

import asyncio
import base64
import ssl
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import bcrypt

from gpuledger.app.http import Request, Response, Server
from gpuledger.app.web.security import WebSecurity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message
    from pathlib import Path

    from gpuledger.app.http import Handler
    from gpuledger.app.web.tokens import Reviewer

PAGE = b"gpuledger_build_info 1\n" * 1000


@dataclass(frozen=True)
class Site:
    """A server that runs: its guard, and where it is."""

    guard: WebSecurity
    port: int

    def refused(self, reason: str) -> int:
        health = self.guard.health()
        assert health is not None
        return health.refused[reason]


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Message
    body: bytes


def page(_request: Request) -> Response:
    return Response(200, PAGE)


@contextmanager
def serving(
    config: Path | None = None, reviewer: Reviewer | None = None, handler: Handler = page
) -> Iterator[Site]:
    """Fails where the event loop met an exception that nobody caught."""
    loop, faults = asyncio.new_event_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _loop, context: faults.append(context))
    guard = WebSecurity(config, reviewer)
    server = Server(handler, guard)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        (address,) = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result(5)
        yield Site(guard, int(address.rpartition(":")[2]))
        asyncio.run_coroutine_threadsafe(server.stop(0.1), loop).result(5)
    finally:
        guard.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()
    assert not faults, faults


def get(
    site: Site,
    path: str = "/metrics",
    *,
    tls: ssl.SSLContext | None = None,
    authorization: str = "",
    method: str = "GET",
) -> Reply:
    """Ask over a new connection; an error status is an answer too. Raises OSError where there is none."""
    url = f"{'https' if tls else 'http'}://127.0.0.1:{site.port}{path}"
    headers = {"Authorization": authorization} if authorization else {}
    request = urllib.request.Request(url, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10, context=tls) as reply:
            return Reply(reply.status, reply.headers, reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.headers, error.read())


def basic(user: str, password: str) -> str:
    """What a client sends that has a name and a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def hashed(password: str, cost: int = 4) -> str:
    """A bcrypt hash, by default as quick as there is."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


def client_tls(authority: bytes, *certificate: Path, **versions: ssl.TLSVersion) -> ssl.SSLContext:
    """A client that trusts `authority`, and shows a certificate where it has one."""
    context = ssl.create_default_context(cadata=authority.decode())
    if certificate:
        chain, key = certificate
        context.load_cert_chain(chain, key)
    for name, version in versions.items():
        setattr(context, name, version)
    return context
