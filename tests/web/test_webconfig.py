"""What a web configuration may say: all that exporter-toolkit knows, and nothing that would pass unnoticed."""

from __future__ import annotations

import traceback

import pytest

from gpuledger.app.config import ConfigError
from gpuledger.app.web.webconfig import CIPHERS, CIPHERS_13, HttpServer, TlsServer, WebConfig, parse_web_config

HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
PAIR = "cert_file: c, key_file: k"
MTLS = f"{PAIR}, client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca"

WHOLE = f"""
tls_server_config:
  cert_file: tls.crt
  key_file: tls.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  client_allowed_sans: [prometheus.monitoring.svc, 10.0.0.1]
  min_version: TLS12
  max_version: TLS13
  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: false
  curve_preferences: [X25519]
http_server_config:
  http2: false
  headers:
    Strict-Transport-Security: max-age=3600
    X-Frame-Options: deny
    X-XSS-Protection:
basic_auth_users:
  alice: {HASH}
rate_limit:
  interval: 1s
  burst: 20
"""


def test_everything_that_exporter_toolkit_knows_is_read() -> None:
    config = parse_web_config(WHOLE.encode())

    assert config.tls_server_config == TlsServer(
        cert_file="tls.crt",
        key_file="tls.key",
        client_auth_type="RequireAndVerifyClientCert",
        client_ca_file="ca.crt",
        client_allowed_sans=("prometheus.monitoring.svc", "10.0.0.1"),
        cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        prefer_server_cipher_suites=False,
        curve_preferences=("X25519",),
    )
    headers = {"Strict-Transport-Security": "max-age=3600", "X-Frame-Options": "deny"}
    assert config.http_server_config == HttpServer(http2=False, headers=headers)
    assert {"alice": HASH} == config.basic_auth_users
    assert (1.0, 20) == (config.rate_limit.seconds, config.rate_limit.burst)


@pytest.mark.parametrize(
    "text",
    ["", "# nothing yet", "tls_server_config:\nbasic_auth_users: {}\n", "http_server_config: {headers: }"],
    ids=["empty", "comment", "blank-parts", "blank-headers"],
)
def test_what_is_left_out_or_blank_is_off(text: str) -> None:
    assert WebConfig() == parse_web_config(text.encode())


def test_an_interval_of_0_switches_the_rate_limit_off() -> None:
    assert 0.0 == parse_web_config(b"rate_limit: {interval: 0s}").rate_limit.seconds
    assert 0.0 == parse_web_config(b'rate_limit: {interval: "0"}').rate_limit.seconds


def test_every_suite_that_go_names_is_known() -> None:
    suites = ", ".join((*CIPHERS, *CIPHERS_13))

    server = parse_web_config(
        f"tls_server_config: {{{PAIR}, cipher_suites: [{suites}]}}".encode()
    ).tls_server_config
    assert server is not None
    assert (*CIPHERS, *CIPHERS_13) == server.cipher_suites


def tls(*, of: str = PAIR, **more: str) -> str:
    return f"tls_server_config: {{{of}" + "".join(f", {key}: {value}" for key, value in more.items()) + "}"


MISTAKES = {
    "unknown-section": ("tls_config: {}", "unknown key tls_config; did you mean tls_server_config?"),
    "unknown-key": (
        "tls_server_config: {cert_fil: c}",
        "unknown key tls_server_config.cert_fil; did you mean cert_file?",
    ),
    "unknown-and-like-nothing": ("zzz: 1", "unknown key zzz"),
    "a key that is none": ("{}:\n", "line 1: a key is a word"),
    "a-key-twice": (
        "basic_auth_users: {}\nrate_limit: {}\nbasic_auth_users: {}",
        "line 3: the key is there twice",
    ),
    "a-user-twice": (
        f"basic_auth_users:\n  alice: {HASH}\n  alice: {HASH}",
        "line 3: the key is there twice",
    ),
    "no-mapping": ("- tls", "write a mapping, with keys such as tls_server_config"),
    "wrong-type": ("tls_server_config: [c]", "tls_server_config: Expected `object | null`, got `array`"),
    "no-boolean": (
        "http_server_config: {http2: perhaps}",
        "http_server_config.http2: Expected `bool`, got `str`",
    ),
    "no-certificate": ("tls_server_config: {key_file: k}", "tls_server_config: cert_file is missing"),
    "no-key": ("tls_server_config: {cert_file: c}", "tls_server_config: key_file is missing"),
    "inline-and-file": (tls(cert="x"), "tls_server_config: cert and cert_file: write one of them"),
    "old-version": (
        tls(min_version="TLS10"),
        "min_version: TLS10 is too old for OpenSSL (RFC 8996); write TLS12 or TLS13",
    ),
    "unknown-version": (
        tls(max_version="TLS1.3"),
        "max_version: unknown TLS1.3; did you mean TLS13?",
    ),
    "versions-crossed": (tls(min_version="TLS13", max_version="TLS12"), "min_version is above max_version"),
    "unknown-suite": (
        tls(cipher_suites="[TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA265]"),
        (
            "cipher_suites: unknown TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA265; "
            "did you mean TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256?"
        ),
    ),
    "no-suite-for-tls-1.2": (
        tls(cipher_suites="[TLS_AES_128_GCM_SHA256]"),
        "cipher_suites: none of them is for TLS 1.2; add one, or set min_version: TLS13",
    ),
    "unknown-curve": (
        tls(curve_preferences="[CurveP25]"),
        "curve_preferences: unknown CurveP25; did you mean CurveP256?",
    ),
    "two-curves": (
        tls(curve_preferences="[X25519, CurveP256]"),
        "curve_preferences: Python's ssl takes one curve; name one, or none for all",
    ),
    "any-certificate": (
        tls(client_auth_type="RequireAnyClientCert"),
        (
            "client_auth_type: RequireAnyClientCert lets any certificate in, which Python's ssl can't; "
            "write RequireAndVerifyClientCert"
        ),
    ),
    "unknown-auth-type": (
        tls(client_auth_type="RequireAndVerify"),
        "client_auth_type: unknown RequireAndVerify; did you mean RequireAndVerifyClientCert?",
    ),
    "authority-without-auth": (
        tls(client_ca_file="ca"),
        "client_ca_file is of no use with client_auth_type: NoClientCert; write RequireAndVerifyClientCert",
    ),
    "auth-without-authority": (
        tls(client_auth_type="VerifyClientCertIfGiven"),
        "client_auth_type: VerifyClientCertIfGiven needs client_ca_file",
    ),
    "sans-without-need": (
        tls(client_auth_type="VerifyClientCertIfGiven", client_ca_file="ca", client_allowed_sans="[a]"),
        "client_allowed_sans needs client_auth_type: RequireAndVerifyClientCert",
    ),
    "another-header": (
        "http_server_config: {headers: {X-Frame-Option: deny}}",
        "http_server_config.headers: X-Frame-Option can't be set; did you mean X-Frame-Options?",
    ),
    "another-value": (
        "http_server_config: {headers: {X-Frame-Options: allow}}",
        "http_server_config.headers: X-Frame-Options: write deny or sameorigin",
    ),
    "two-lines": (
        'http_server_config: {headers: {Content-Security-Policy: "a\\r\\nb"}}',
        "http_server_config.headers: Content-Security-Policy: write one line of ASCII",
    ),
    "blanks-around": (
        'http_server_config: {headers: {Content-Security-Policy: " a"}}',
        "http_server_config.headers: Content-Security-Policy: write one line of ASCII",
    ),
    "a-dear-hash": (
        f"basic_auth_users: {{alice: {HASH.replace('10', '16', 1)}}}",
        "basic_auth_users: alice: write a bcrypt hash of cost 4 to 15, as `htpasswd -nBC 10 ''` does",
    ),
    "no-interval": (
        "rate_limit: {interval: often}",
        "rate_limit.interval: write a duration such as 200ms, 1s, 1m30s or 2h",
    ),
    "no-burst": (
        "rate_limit: {interval: 1s}",
        "rate_limit.burst: write 1 or more, or nobody gets an answer",
    ),
    "colon-in-a-name": (
        f'basic_auth_users: {{"a:b": {HASH}}}',
        "basic_auth_users: a:b: a name with a colon can't be sent (RFC 7617)",
    ),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_that_says_where_and_what_to_do(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_web_config(text.encode())

    assert message == str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "basic_auth_users: {alice: hunter2}",
        "basic_auth_users: {alice: $2y$10$hunter2}",
        "basic_auth_users: {alice: *hunter2}",
        "basic_auth_users: {alice: !hunter2 x}",
        'basic_auth_users: {alice: "hunter2\\q"}',
        "basic_auth_users: {alice: [hunter2]}",
        "basic_auth_users:\n  alice: hunter2: hunter2",
        "basic_auth_users: hunter2",
        "tls_server_config: {cert_file: c, key: [hunter2]}",
        "tls_server_config: {cert_file: c, key_file: k, key: hunter2}",
        "hunter2",
    ],
)
def test_no_message_quotes_a_secret(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_web_config(text.encode())

    assert "hunter2" not in "".join(traceback.format_exception_only(raised.value))
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None or raised.value.__suppress_context__
