"""TLS over real sockets: what is configured is what is offered, and only the right certificates get in."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography.x509 import load_pem_x509_certificate

from fakes.authority import Authority
from web.site import PAGE, client_tls, get, serving

if TYPE_CHECKING:
    from pathlib import Path

MTLS = "client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt"
TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture(scope="module")
def ours() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def theirs() -> Authority:
    return Authority()


@pytest.fixture
def config(tmp_path: Path, ours: Authority) -> Path:
    """A configuration in whose folder the certificates lie; `configure` writes it."""
    ours.issue("127.0.0.1").write(tmp_path, "tls")
    (tmp_path / "ca.crt").write_bytes(ours.certificate)
    return configure(tmp_path / "web.yml")


def configure(path: Path, *settings: str) -> Path:
    path.write_text(f"tls_server_config: {{{', '.join(('cert_file: tls.crt, key_file: tls.key', *settings))}}}")
    return path


def test_a_page_of_many_records_comes_through_whole(config: Path, ours: Authority) -> None:
    with serving(config) as site:
        reply = get(site, tls=client_tls(ours.certificate))

    assert (200, PAGE) == (reply.status, reply.body)


def test_a_certificate_may_stand_in_the_file_itself(tmp_path: Path, ours: Authority) -> None:
    pair = ours.issue("127.0.0.1")
    parts = {"cert": pair.certificate, "key": pair.key, "client_ca": ours.certificate}
    lines = [f"  {name}: {content.decode()!r}" for name, content in parts.items()]
    text = "\n".join(["tls_server_config:", "  client_auth_type: RequireAndVerifyClientCert", *lines])
    (tmp_path / "web.yml").write_text(text.replace("'", '"'))
    with serving(tmp_path / "web.yml") as site:
        assert get(site, tls=client_tls(ours.certificate, *pair.write(tmp_path, "client"))).status == 200


@pytest.mark.parametrize(
    ("settings", "version"),
    [("max_version: TLS12", TLS12), ("min_version: TLS13", TLS13)],
    ids=["at-most-1.2", "at-least-1.3"],
)
def test_only_the_versions_configured_are_spoken(
    config: Path, ours: Authority, settings: str, version: ssl.TLSVersion
) -> None:
    other = TLS12 if version is TLS13 else TLS13
    with serving(configure(config, settings)) as site:
        spoken = client_tls(ours.certificate, minimum_version=version, maximum_version=version)
        assert get(site, tls=spoken).status == 200
        with pytest.raises(OSError, match="VERSION"):
            get(site, tls=client_tls(ours.certificate, minimum_version=other, maximum_version=other))


def agreed(port: int, tls: ssl.SSLContext) -> ssl.SSLSocket:
    with socket.create_connection(("127.0.0.1", port), 5) as plain:
        return tls.wrap_socket(plain, server_hostname="127.0.0.1")


@pytest.mark.parametrize(
    ("preferred", "suite"),
    [("true", "ECDHE-ECDSA-AES256-GCM-SHA384"), ("false", "ECDHE-ECDSA-AES128-GCM-SHA256")],
    ids=["the-server's-order", "the-client's-order"],
)
def test_suites_are_those_configured(config: Path, ours: Authority, preferred: str, suite: str) -> None:
    suites = "[TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]"
    client = client_tls(ours.certificate, maximum_version=TLS12)
    client.set_ciphers(
        "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"
    )
    configure(config, f"cipher_suites: {suites}", f"prefer_server_cipher_suites: {preferred}")
    with serving(config) as site, agreed(site.port, client) as connection:
        assert suite == (connection.cipher() or ("",))[0]


def test_a_client_without_the_configured_curve_gets_nothing(config: Path, ours: Authority) -> None:
    with serving(configure(config, "curve_preferences: [CurveP384]")) as site:
        client = client_tls(ours.certificate)
        assert get(site, tls=client).status == 200
        client.set_ecdh_curve("prime256v1")
        with pytest.raises(OSError, match="HANDSHAKE"):
            get(site, tls=client)


def test_http_1_1_is_agreed_on(config: Path, ours: Authority) -> None:
    client = client_tls(ours.certificate)
    client.set_alpn_protocols(["h2", "http/1.1"])
    with serving(config) as site, agreed(site.port, client) as connection:
        assert "http/1.1" == connection.selected_alpn_protocol()


def test_who_speaks_no_tls_is_told_so(config: Path) -> None:
    with serving(config) as site:
        reply = get(site)

        assert (400, b"this port speaks TLS\n") == (reply.status, reply.body)
        assert 1 == site.refused("handshake")


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["1.2", "1.3"])
def test_a_client_needs_a_certificate_of_ours_that_holds(
    config: Path, ours: Authority, theirs: Authority, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    shown = {
        "wrong": theirs.issue("prometheus").write(tmp_path, "wrong"),
        "expired": ours.issue("prometheus", expired=True).write(tmp_path, "expired"),
        "missing": (),
    }
    with serving(configure(config, MTLS)) as site:
        right = ours.issue("prometheus").write(tmp_path, "right")
        assert get(site, tls=client_tls(ours.certificate, *right, maximum_version=version)).status == 200
        for certificate in shown.values():
            with pytest.raises(OSError, match=r"CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE"):
                get(site, tls=client_tls(ours.certificate, *certificate, maximum_version=version))
        assert len(shown) == site.refused("handshake")


def test_a_certificate_on_the_authoritys_list_of_revoked_ones_is_refused(
    config: Path, ours: Authority, tmp_path: Path
) -> None:
    good, revoked = ours.issue("prometheus"), ours.issue("prometheus")
    (tmp_path / "ca.crt").write_bytes(ours.certificate + ours.revoke(revoked))
    with serving(configure(config, MTLS)) as site:
        assert get(site, tls=client_tls(ours.certificate, *good.write(tmp_path, "good"))).status == 200
        with pytest.raises(OSError, match="REVOKED"):
            get(site, tls=client_tls(ours.certificate, *revoked.write(tmp_path, "revoked")))


def test_a_certificate_may_be_left_out_where_it_is_verified_if_given(
    config: Path, ours: Authority, theirs: Authority, tmp_path: Path
) -> None:
    with serving(
        configure(config, "client_auth_type: VerifyClientCertIfGiven, client_ca_file: ca.crt")
    ) as site:
        assert get(site, tls=client_tls(ours.certificate)).status == 200
        wrong = theirs.issue("prometheus").write(tmp_path, "wrong")
        with pytest.raises(OSError, match="UNKNOWN_CA"):
            get(site, tls=client_tls(ours.certificate, *wrong))


def test_a_requested_certificate_is_not_looked_at(
    config: Path, ours: Authority, theirs: Authority, tmp_path: Path
) -> None:
    with serving(configure(config, "client_auth_type: RequestClientCert")) as site:
        wrong = theirs.issue("prometheus").write(tmp_path, "wrong")
        assert get(site, tls=client_tls(ours.certificate, *wrong)).status == 200


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("prometheus.monitoring.svc", "prometheus.monitoring.svc"),
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", '"2001:db8::1"'),
        ("prometheus@example.com", "prometheus@example.com"),
    ],
)
def test_a_certificate_has_to_name_somebody_who_is_allowed(
    config: Path, ours: Authority, tmp_path: Path, name: str, allowed: str
) -> None:
    with serving(configure(config, MTLS, f"client_allowed_sans: [nobody, {allowed}]")) as site:
        right = ours.issue(name).write(tmp_path, "right")
        assert get(site, tls=client_tls(ours.certificate, *right)).status == 200
        wrong = ours.issue("somebody.else", "10.0.0.2").write(tmp_path, "wrong")
        with pytest.raises(OSError):
            get(site, tls=client_tls(ours.certificate, *wrong))
        assert 1 == site.refused("handshake")


@pytest.mark.parametrize(
    "settings",
    [
        "min_version: TLS13",
        "max_version: TLS12",
        "curve_preferences: [CurveP521]",
        "max_version: TLS12, cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA]",
        MTLS,
    ],
    ids=["1.3", "1.2", "another-curve", "another-suite", "mtls"],
)
@pytest.mark.parametrize("expired", [False, True], ids=["good", "expired"])
def test_when_our_certificate_expires_is_known(
    config: Path, ours: Authority, tmp_path: Path, settings: str, *, expired: bool
) -> None:
    pair = ours.issue("127.0.0.1", expired=expired)
    pair.write(tmp_path, "tls")
    with serving(configure(config, settings)) as site:
        health = site.guard.health()

    assert health is not None
    assert (
        load_pem_x509_certificate(pair.certificate).not_valid_after_utc.timestamp()
        == health.certificate_not_after
    )


@pytest.mark.parametrize("expired", [False, True], ids=["good", "expired"])
def test_an_expired_certificate_of_ours_is_taken_and_told(
    config: Path, ours: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, expired: bool
) -> None:
    with serving(config) as site:
        ours.issue("127.0.0.1", expired=expired).write(tmp_path, "tls")
        client = client_tls(ours.certificate)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        assert 200 == get(site, tls=client).status

    told = [f"--web.config.file {config}: the certificate has expired; clients refuse it"] if expired else []
    assert told == [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_what_else_a_certificates_file_holds_hides_no_date(
    config: Path, ours: Authority, tmp_path: Path
) -> None:
    pair = ours.issue("127.0.0.1")
    pair.write(tmp_path, "tls")
    (tmp_path / "tls.crt").write_bytes("Müller's\n".encode() + pair.key + pair.certificate + ours.certificate)
    with serving(config) as site:
        health = site.guard.health()

    assert health is not None
    assert health.certificate_not_after is not None


def test_without_a_certificate_there_is_none_that_expires(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text("{}")
    with serving(tmp_path / "web.yml") as site:
        health = site.guard.health()

    assert health is not None
    assert health.certificate_not_after is None
