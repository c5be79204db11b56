"""What a --web.config.file may say, as Prometheus' exporter-toolkit defines it.

Source: docs/web-configuration.md of prometheus/exporter-toolkit. No message quotes what may be secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gpuledger.app.config import ConfigError, duration, nearest

VERSIONS = ("TLS12", "TLS13")
OBSOLETE_VERSIONS = ("TLS10", "TLS11")

CIPHERS = {
    f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{openssl}"
    for key in ("ECDSA", "RSA")
    for go, openssl in (
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
"""Suites of TLS 1.2 by their names in Go, with OpenSSL's."""
CIPHERS_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""Always offered, whether named or not; so it is in Go."""

CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}
"""By their names in Go, with OpenSSL's."""

VERIFYING = ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
CLIENT_AUTH_TYPES = ("NoClientCert", "RequestClientCert", *VERIFYING)
UNVERIFIED = ("RequireAnyClientCert", "RequireClientCert")

HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""Headers that may be set, with the values that they take where these are few."""

_DEPTH = 3
_BCRYPT = re.compile(r"\$2[abxy]\$(0[4-9]|1[0-5])\$[./A-Za-z0-9]{53}")
"""Up to cost 15: a check of 2 s, and each step more takes twice as long."""


class TlsServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tls_server_config`. Paths are relative to the file that names them."""

    cert: str = ""
    key: str = ""
    client_ca: str = ""
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    client_auth_type: str = "NoClientCert"
    client_allowed_sans: tuple[str, ...] = ()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: tuple[str, ...] = ()

    @property
    def verifies(self) -> bool:
        """Whether a client's certificate is looked at."""
        return self.client_auth_type in VERIFYING


class HttpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`http_server_config`. `http2` changes nothing: HTTP/1.1 is what is spoken."""

    http2: bool = True
    headers: dict[str, str] = {}


class RateLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`rate_limit`: a request each `interval`, and `burst` at once; none where the interval is 0."""

    interval: str = "0s"
    burst: int = 0

    @property
    def seconds(self) -> float:
        """The interval in seconds."""
        return 0.0 if self.interval == "0" else duration(self.interval)


class WebConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that the file says; whatever it leaves out is off."""

    tls_server_config: TlsServer | None = None
    http_server_config: HttpServer = HttpServer()
    basic_auth_users: dict[str, str] = {}
    rate_limit: RateLimit = RateLimit()


def parse_web_config(text: bytes) -> WebConfig:
    """The configuration in a YAML text; raises ConfigError with the place of what can't be used."""
    try:
        config = msgspec.convert(_parse_yaml(text), WebConfig, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(_explained(str(error))) from None
    if config.tls_server_config is not None:
        _check_tls(config.tls_server_config)
    for header, value in config.http_server_config.headers.items():
        _check_header(header, value)
    for user, password in config.basic_auth_users.items():
        if not _BCRYPT.fullmatch(password):
            advice = "write a bcrypt hash of cost 4 to 15, as `htpasswd -nBC 10 ''` does"
            raise ConfigError(f"basic_auth_users: {user}: {advice}")
        if ":" in user:
            raise ConfigError(f"basic_auth_users: {user}: a name with a colon can't be sent (RFC 7617)")
    _check_rate(config.rate_limit)
    return config


def _parse_yaml(text: bytes) -> dict[Any, Any]:
    """The document without its blank parts; keys that occur twice are errors, as in exporter-toolkit."""
    import yaml  # noqa: PLC0415 - most runs read no file

    loader: Any = None
    try:
        loader = yaml.CSafeLoader(text)
        node = loader.get_single_node()
        _refuse_twins(node)
        document = loader.construct_document(node) if node is not None else {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        # Where, but not what: the error's own text may quote a password.
        raise ConfigError("not YAML" + (f", line {mark.line + 1}" if mark else "")) from None
    finally:
        if loader is not None:
            loader.dispose()
    if not isinstance(document, dict):
        raise ConfigError("write a mapping, with keys such as tls_server_config")
    return dict(_without_blanks(document))


def _refuse_twins(node: Any, depth: int = 0) -> None:
    if getattr(node, "id", "") != "mapping" or depth > _DEPTH:
        return
    seen = set()
    for key, value in node.value:
        if key.id != "scalar":
            raise ConfigError(f"line {key.start_mark.line + 1}: a key is a word")
        if key.value in seen:
            raise ConfigError(f"line {key.start_mark.line + 1}: the key is there twice")
        seen.add(key.value)
        _refuse_twins(value, depth + 1)


def _without_blanks(document: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """What is there in a mapping: a known key without a value is as good as none."""
    for key, value in document.items():
        kept = dict(_without_blanks(value)) if isinstance(value, dict) else value
        if kept not in (None, "", {}) or key not in (*_KEYS, *HEADERS):
            yield key, kept


_KEYS = sorted(
    {key for part in (WebConfig, TlsServer, HttpServer, RateLimit) for key in part.__struct_fields__}
)


def _explained(message: str) -> str:
    """A message of msgspec as one about keys."""
    unknown = re.search(r"unknown field `(.+?)`", message)
    place = "".join(re.findall(r" - at `\$\.?(.*?)`", message))
    if unknown is None:
        return f"{place or 'the file'}: {message.partition(' - at ')[0]}"
    return f"unknown key {'.'.join(filter(None, (place, unknown[1])))}{nearest(unknown[1], _KEYS)}"


def _check_tls(tls: TlsServer) -> None:
    for name in ("cert", "key", "client_ca"):
        inline, file = getattr(tls, name), getattr(tls, f"{name}_file")
        if inline and file:
            raise ConfigError(f"tls_server_config: {name} and {name}_file: write one of them")
        if not (inline or file) and name != "client_ca":
            raise ConfigError(f"tls_server_config: {name}_file is missing")
    _check_clients(tls)
    _check_algorithms(tls)


def _check_algorithms(tls: TlsServer) -> None:
    for name, version in (("min_version", tls.min_version), ("max_version", tls.max_version)):
        if version in OBSOLETE_VERSIONS:
            raise ConfigError(f"{name}: {version} is too old for OpenSSL (RFC 8996); write TLS12 or TLS13")
        _check_known(name, version, VERSIONS)
    if tls.min_version > tls.max_version:
        raise ConfigError("min_version is above max_version")
    for suite in tls.cipher_suites:
        _check_known("cipher_suites", suite, (*CIPHERS, *CIPHERS_13))
    if tls.cipher_suites and tls.min_version == "TLS12" and not set(tls.cipher_suites) & set(CIPHERS):
        raise ConfigError("cipher_suites: none of them is for TLS 1.2; add one, or set min_version: TLS13")
    for curve in tls.curve_preferences:
        _check_known("curve_preferences", curve, tuple(CURVES))
    if len(tls.curve_preferences) > 1:
        raise ConfigError("curve_preferences: Python's ssl takes one curve; name one, or none for all")


def _check_clients(tls: TlsServer) -> None:
    if tls.client_auth_type in UNVERIFIED:
        raise ConfigError(
            f"client_auth_type: {tls.client_auth_type} lets any certificate in, which Python's ssl can't;"
            " write RequireAndVerifyClientCert"
        )
    _check_known("client_auth_type", tls.client_auth_type, CLIENT_AUTH_TYPES)
    has_authority = bool(tls.client_ca or tls.client_ca_file)
    if has_authority and not tls.verifies:
        raise ConfigError(
            f"client_ca_file is of no use with client_auth_type: {tls.client_auth_type};"
            " write RequireAndVerifyClientCert"
        )
    if tls.verifies and not has_authority:
        raise ConfigError(f"client_auth_type: {tls.client_auth_type} needs client_ca_file")
    if tls.client_allowed_sans and tls.client_auth_type != "RequireAndVerifyClientCert":
        raise ConfigError("client_allowed_sans needs client_auth_type: RequireAndVerifyClientCert")


def _check_header(header: str, value: str) -> None:
    place = f"http_server_config.headers: {header}"
    if header not in HEADERS:
        raise ConfigError(f"{place} can't be set{nearest(header, list(HEADERS))}")
    if HEADERS[header] and value not in HEADERS[header]:
        raise ConfigError(f"{place}: write {' or '.join(HEADERS[header])}")
    if not (value.isascii() and value.isprintable()) or value != value.strip():
        raise ConfigError(f"{place}: write one line of ASCII")


def _check_rate(limit: RateLimit) -> None:
    try:
        interval = limit.seconds
    except ValueError as error:
        raise ConfigError(f"rate_limit.interval: {error}") from error
    if interval and limit.burst < 1:
        raise ConfigError("rate_limit.burst: write 1 or more, or nobody gets an answer")


def _check_known(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"{name}: unknown {value}{nearest(value, known) or '; write ' + ' or '.join(known)}")
