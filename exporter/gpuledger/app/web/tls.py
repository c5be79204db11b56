"""A TLS server's side made of what the web configuration says."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuledger.app.config import ConfigError
from gpuledger.app.web.files import read_file
from gpuledger.app.web.webconfig import CIPHERS, CURVES, TlsServer

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
MAX_NAMES_SHOWN = 200
"""Characters of a certificate's names in a message; it may have thousands."""
_NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL's x509_vfy.h, which Python doesn't name: let an expired one pass."""
_FLIGHTS = 3
"""How often each side has its turn in a handshake; that of TLS 1.2 is the longer."""
_PLACE = re.compile(r"^\[SSL\] | \(_ssl\.c:\d+\)$")
"""What Python puts around OpenSSL's words."""
_ENCRYPTED = b"ENCRYPTED"
"""In the first line of such a key (RFC 7468 section 11), or in the header of an older one (RFC 1421)."""
_CRL = b"-----BEGIN X509 CRL-----"


@dataclass(frozen=True, slots=True)
class Trust:
    """Which clients get through; a connection made under another trust is worth nothing any more."""

    client_auth_type: str
    authorities: bytes
    allowed_sans: frozenset[str]

    def check(self, certificate: Mapping[str, Any] | None) -> None:
        """Raise SSLCertVerificationError unless the certificate, as `getpeercert` has it, is of one who may."""
        names = set(_names(certificate or {}))
        if self.allowed_sans and self.allowed_sans.isdisjoint(names):
            shown = ", ".join(sorted(names))[:MAX_NAMES_SHOWN] or "none"
            raise ssl.SSLCertVerificationError(f"none of client_allowed_sans is among its names ({shown})")


@dataclass(frozen=True, slots=True)
class Tls:
    """How new connections are encrypted, and who may make them."""

    context: ssl.SSLContext
    trust: Trust
    not_after: float | None
    """Unix time at which our certificate expires; None where that can't be found out."""


@dataclass(frozen=True, slots=True)
class Pem:
    """The contents of the files: certificate chain, its key, and the clients' authorities with their CRLs."""

    certificate: bytes
    key: bytes
    authorities: bytes


def read_pem(tls: TlsServer, folder: Path) -> Pem:
    """What the configuration holds itself or names; paths are relative to `folder`. Raises ConfigError."""

    def content(inline: str, file: str, name: str) -> bytes:
        if not file:
            return inline.encode()
        try:
            return read_file(folder / file)
        except ConfigError as error:
            raise ConfigError(f"{name} {folder / file}: {error}") from error

    return Pem(
        content(tls.cert, tls.cert_file, "cert_file"),
        content(tls.key, tls.key_file, "key_file"),
        content(tls.client_ca, tls.client_ca_file, "client_ca_file"),
    )


def make_tls(tls: TlsServer, pem: Pem) -> Tls:
    """TLS as configured; raises ConfigError for what can't be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = _VERSIONS[tls.min_version], _VERSIONS[tls.max_version]
    # No tickets: whoever resumes a session isn't asked for the certificate, which may have expired meanwhile.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0
    if not tls.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        if suites := [CIPHERS[suite] for suite in tls.cipher_suites if suite in CIPHERS]:
            context.set_ciphers(":".join(suites))
        for curve in tls.curve_preferences:
            context.set_ecdh_curve(CURVES[curve])
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"cipher_suites and curve_preferences: this OpenSSL refuses them: {error}") from error
    context.set_alpn_protocols(["http/1.1"])
    _load(context, pem)
    not_after = _not_after(context, pem.certificate)
    if tls.verifies:
        _load_authorities(context, pem.authorities)
        context.verify_mode = _VERIFY[tls.client_auth_type]
    trust = Trust(tls.client_auth_type, pem.authorities, frozenset(tls.client_allowed_sans))
    return Tls(context, trust, not_after)


def _load(context: ssl.SSLContext, pem: Pem) -> None:
    try:
        with _as_file(pem.certificate) as certificate, _as_file(pem.key) as key:
            # Without a password here, OpenSSL would ask for that of an encrypted key on a terminal.
            context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError) as error:
        if _ENCRYPTED in pem.key:
            raise ConfigError("key_file: the key has a passphrase; `openssl pkey` writes it without") from error
        raise ConfigError(f"cert_file and key_file: {_reason(error)}; are they PEM, and a pair?") from error


def _not_after(server: ssl.SSLContext, certificate: bytes) -> float | None:
    """When the certificate expires, as a client in memory is told: ssl shows no certificate but a peer's."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.set_ciphers("ALL")
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        client.load_verify_locations(cadata=certificate.decode("ascii", "ignore"))
        sides = (
            client.wrap_bio(to_client, to_server),
            server.wrap_bio(to_server, to_client, server_side=True),
        )
        for side in sides * _FLIGHTS:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
        shown = sides[0].getpeercert()
    except (ssl.SSLError, ValueError):
        return None
    return ssl.cert_time_to_seconds(str(shown["notAfter"])) if shown else None


def _load_authorities(context: ssl.SSLContext, authorities: bytes) -> None:
    try:
        with _as_file(authorities) as file:
            context.load_verify_locations(file)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"client_ca_file: {_reason(error)}; is it PEM?") from error
    if _CRL in authorities:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def explained(error: ssl.SSLError) -> str:
    """Why no connection came about, in words for whoever has to mend it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"client certificate: {getattr(error, 'verify_message', error.args[-1])}"
    reason = _reason(error)
    if reason == "http request":
        return "it speaks plain HTTP, and this port TLS"
    return f"it does not accept this server: {reason}" if " alert " in reason else f"TLS: {reason}"


@contextmanager
def _as_file(pem: bytes) -> Iterator[str]:
    """A path to it: OpenSSL reads files only, and a key that was read once must not touch a disk."""
    with os.fdopen(os.memfd_create("pem"), "wb", buffering=0) as file:
        file.write(pem)
        yield f"/proc/self/fd/{file.fileno()}"


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return _PLACE.sub("", str(reason)).replace("_", " ").lower()


def _names(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Who a certificate is for: DNS names, addresses, e-mails, URIs, written as Go writes them."""
    for kind, value in certificate.get("subjectAltName", ()):
        if kind == "IP Address":
            yield str(ipaddress.ip_address(value.strip()))
        elif kind in ("DNS", "email", "URI"):
            yield value
