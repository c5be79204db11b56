"""Who gets an answer: the web configuration and Kubernetes put together into a server's guard."""

from __future__ import annotations

import base64
import binascii
import logging
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpuledger.app.http import Guard, Request, Response
from gpuledger.app.web.channel import Channel, TlsChannel
from gpuledger.app.web.configfile import WebConfigFile
from gpuledger.app.web.limits import GUESS_SECONDS, Bucket, Guesses, TooBusyError
from gpuledger.app.web.passwords import Passwords
from gpuledger.app.web.refusals import Refusals
from gpuledger.app.web.tls import Tls, explained
from gpuledger.app.web.tokens import Reviewer, Tokens, Verdict
from gpuledger.app.web.webconfig import RateLimit, WebConfig
from gpuledger.core.errors import SourceError
from gpuledger.core.snapshot import WebHealth

log = logging.getLogger(__name__)

OPEN_PATHS = ("/healthz", "/readyz")
"""The kubelet has no credentials, and would restart a pod that refuses it."""

HTTPS_ONLY = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 21\r\n\r\nthis port speaks TLS\n"
)
_ANSWERS = {
    "credentials": Response(401, b"who are you? these credentials don't say\n"),
    "forbidden": Response(403, b"not yours to read; RBAC: nonResourceURLs, verb get\n"),
    "rate-limit": Response(429, b"too many requests\n", headers={"Retry-After": f"{GUESS_SECONDS:.0f}"}),
    "unavailable": Response(503, b"who you are can't be checked now\n"),
}


class WebSecurity(Guard):
    """Guards a server by a web configuration file and, with a `reviewer`, by Kubernetes' own tokens.

    Where there are both users and tokens, either lets in. Raises ConfigError where the file can't be used.
    """

    def __init__(self, file: Path | None = None, reviewer: Reviewer | None = None) -> None:
        self._file = WebConfigFile(file) if file is not None else None
        self._tokens = Tokens(reviewer) if reviewer is not None else None
        if self._tokens is not None and self._tls() is None:
            log.warning("--web.kubernetes-auth: without TLS, tokens can be read on the way, and used")
        self._passwords = Passwords()
        self._guesses = Guesses()
        self._rate = RateLimit()
        self._bucket: Bucket | None = None
        self._refusals = Refusals()

    def health(self) -> WebHealth | None:
        """How it is doing; None where nothing is guarded."""
        if self._file is None:
            return WebHealth(self._refusals.counts) if self._tokens is not None else None
        return WebHealth(self._refusals.counts, self._file.healthy, self._file.loaded_at, self._file.not_after)

    def close(self) -> None:
        """Check nothing more."""
        self._passwords.close()
        if self._tokens is not None:
            self._tokens.close()

    async def open(self, connection: socket.socket, peer: str, first: bytes) -> Channel:
        """Encrypt the connection where that is configured. Raises OSError where no agreement is reached."""
        tls = self._tls()
        if tls is None:
            return Channel(connection, peer, first)
        channel = TlsChannel(tls, connection, peer, first)
        try:
            await channel.shake_hands()
        except ssl.SSLEOFError:
            raise  # gone, as the kubelet's TCP probes are
        except ssl.SSLError as error:
            self._refusals.add("handshake", peer, explained(error))
            if getattr(error, "reason", "") == "HTTP_REQUEST":
                await Channel(connection, peer, b"").send(HTTPS_ONLY)
            await channel.part()
            raise
        return channel

    def trusts(self, channel: Channel) -> bool:
        """Whether a connection made before would still come about; a new certificate of ours is no reason."""
        tls = self._tls()
        return channel.trust == (tls.trust if tls is not None else None)

    def headers(self) -> Mapping[str, str]:
        """What every answer is to carry besides its own."""
        return self._config().http_server_config.headers

    async def refusal(self, request: Request) -> Response | None:
        """Why a request gets no answer; None where it does."""
        if request.path in OPEN_PATHS:
            return None
        config = self._config()
        if not self._in_time(config.rate_limit):
            return self._refuse("rate-limit", request, config)
        if not (config.basic_auth_users or self._tokens):
            return None
        reason = await self._doubt(request, config)
        return self._refuse(reason, request, config) if reason else None

    def _tls(self) -> Tls | None:
        return self._file.refresh().tls if self._file is not None else None

    def _config(self) -> WebConfig:
        return self._file.loaded.config if self._file is not None else WebConfig()

    def _in_time(self, limit: RateLimit) -> bool:
        if limit != self._rate:
            self._rate = limit
            self._bucket = Bucket(limit.seconds, limit.burst) if limit.seconds else None
        return self._bucket is None or self._bucket.take(time.monotonic())

    async def _doubt(self, request: Request, config: WebConfig) -> str:
        """Why credentials don't do, as one of REASONS; empty where they do."""
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        try:
            if scheme.lower() == "basic" and config.basic_auth_users:
                return await self._doubt_password(config.basic_auth_users, request, credentials.strip())
            if scheme.lower() == "bearer" and self._tokens:
                return await self._doubt_token(self._tokens, request, credentials.strip())
        except TooBusyError:
            return "unavailable"
        except SourceError:
            self._guesses.give_back(request.peer)
            return "unavailable"
        return "credentials"

    async def _doubt_password(self, users: Mapping[str, str], request: Request, credentials: str) -> str:
        try:
            name, _, password = base64.b64decode(credentials, validate=True).partition(b":")
            user = name.decode()
        except (binascii.Error, ValueError):
            return "credentials"
        if self._passwords.known(users, user, password):
            return ""
        if not self._guesses.take(request.peer, time.monotonic()):
            return "rate-limit"
        if not await self._passwords.right(users, user, password):
            return "credentials"
        self._guesses.give_back(request.peer)
        return ""

    async def _doubt_token(self, tokens: Tokens, request: Request, token: str) -> str:
        verdict = tokens.known(token, request.path)
        if verdict is None:
            if not self._guesses.take(request.peer, time.monotonic()):
                return "rate-limit"
            verdict = await tokens.verdict(token, request.path)
            if verdict is Verdict.ALLOWED:
                self._guesses.give_back(request.peer)
        return {Verdict.ALLOWED: "", Verdict.FORBIDDEN: "forbidden", Verdict.UNKNOWN: "credentials"}[verdict]

    def _refuse(self, reason: str, request: Request, config: WebConfig) -> Response:
        answer = _ANSWERS[reason]
        if reason != "credentials":
            self._refusals.add(reason, request.peer, answer.body.decode().strip())
            return answer
        sent = "authorization" in request.headers
        self._refusals.add(reason, request.peer, "wrong credentials" if sent else "no credentials")
        schemes = [("Basic", config.basic_auth_users), ("Bearer", self._tokens)]
        challenge = ", ".join(f'{scheme} realm="gpuledger"' for scheme, offered in schemes if offered)
        return replace(answer, headers={"WWW-Authenticate": challenge})
