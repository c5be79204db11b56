"""Who is turned away is found in the log, with the cause, in one line; nobody can fill a disk with it."""

from __future__ import annotations

import ssl
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from fakes.authority import Authority
from fakes.podwatch import eventually
from gpuledger.app.web import refusals
from gpuledger.app.web.refusals import LINES, QUIET_SECONDS, Refusals
from web.site import basic, client_tls, get, hashed, serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG = """tls_server_config:
  cert_file: tls.crt
  key_file: tls.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  client_allowed_sans: [prometheus]
"""


@pytest.fixture(scope="module")
def ours() -> Authority:
    return Authority()


@pytest.fixture
def config(tmp_path: Path, ours: Authority) -> Path:
    ours.issue("127.0.0.1").write(tmp_path, "tls")
    (tmp_path / "ca.crt").write_bytes(ours.certificate)
    (tmp_path / "web.yml").write_text(CONFIG)
    return tmp_path / "web.yml"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert all(record.exc_info is None for record in caplog.records), "a traceback"
    return [record.getMessage() for record in caplog.records if record.levelname != "DEBUG"]


CLIENTS: dict[str, tuple[Callable[[Authority, Path], ssl.SSLContext | None], str]] = {
    "of-another-name": (
        lambda ours, folder: client_tls(ours.certificate, *ours.issue("evil.example").write(folder, "client")),
        "client certificate: none of client_allowed_sans is among its names (evil.example)",
    ),
    "expired": (
        lambda ours, folder: client_tls(
            ours.certificate, *ours.issue("prometheus", expired=True).write(folder, "client")
        ),
        "client certificate: certificate has expired",
    ),
    "of-another-authority": (
        lambda ours, folder: client_tls(
            ours.certificate, *Authority().issue("prometheus").write(folder, "client")
        ),
        "client certificate: unable to get local issuer certificate",
    ),
    "no-certificate": (
        lambda ours, _: client_tls(ours.certificate),
        "TLS: peer did not return a certificate",
    ),
    "no-tls": (lambda *_: None, "it speaks plain HTTP, and this port TLS"),
    "trusts-another-authority": (
        lambda *_: client_tls(Authority().certificate),
        "it does not accept this server: tlsv1 alert unknown ca",
    ),
}


@pytest.mark.parametrize(("client", "cause"), CLIENTS.values(), ids=CLIENTS)
def test_a_connection_that_is_turned_away_is_one_line_with_its_cause(
    config: Path,
    ours: Authority,
    tmp_path: Path,
    client: Callable[[Authority, Path], ssl.SSLContext | None],
    cause: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    with serving(config) as site:
        tls = client(ours, tmp_path)
        for _ in range(3):
            with suppress(OSError):
                get(site, tls=tls)

        eventually(3, lambda: site.refused("handshake"))  # the client may know before it is counted
    assert [f"127.0.0.1 was turned away: {cause}"] == lines(caplog)


def test_a_request_that_is_turned_away_is_one_line_without_what_was_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{alice: {hashed('s3cret')}}}")
    with serving(tmp_path / "web.yml") as site:
        assert [401] * 3 == [get(site, authorization=basic("alice", "hunter2")).status for _ in range(3)]
        assert [401] * 3 == [get(site).status for _ in range(3)]

    assert [
        "127.0.0.1 was turned away: wrong credentials",
        "127.0.0.1 was turned away: no credentials",
    ] == lines(caplog)
    assert "hunter2" not in caplog.text


def test_the_same_fault_is_told_again_after_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    told = Refusals()
    for now[0] in (0.0, QUIET_SECONDS - 1, QUIET_SECONDS, QUIET_SECONDS + 1):
        told.add("handshake", "10.0.0.7", "expired")

    assert (2, 4) == (len(lines(caplog)), told.counts["handshake"])


def test_many_addresses_fill_neither_log_nor_memory(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(refusals, "MAX_ADDRESSES", 3)
    told = Refusals()
    for number in range(1000):
        told.add("credentials", f"10.0.{number // 256}.{number % 256}", "no credentials")
    assert (LINES, 1000) == (len(lines(caplog)), told.counts["credentials"])
    assert 3 == len(told._told_at)

    now[0] = refusals.LINE_SECONDS
    told.add("credentials", "10.9.9.9", "no credentials")
    assert LINES + 1 == len(lines(caplog))


def test_names_in_a_certificate_reach_the_log_as_one_printable_line(caplog: pytest.LogCaptureFixture) -> None:
    Refusals().add("handshake", "10.0.0.7", "names (a\x1b[2J\nb)")

    assert ["10.0.0.7 was turned away: names (a\\x1b[2J\\nb)"] == lines(caplog)
