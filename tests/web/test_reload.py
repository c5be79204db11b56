"""Certificates that change while scrapes go on: none is lost, and what is withdrawn is withdrawn at once."""

from __future__ import annotations

import http.client
import logging
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from fakes.authority import Authority
from gpuledger.app.config import ConfigError
from gpuledger.app.web.security import WebSecurity
from web.site import Site, client_tls, get, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN = "tls_server_config: {cert_file: tls.crt, key_file: tls.key}"
MTLS = (
    "tls_server_config: {cert_file: tls.crt, key_file: tls.key,"
    " client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt}"
)


class Secret:
    """A Secret as the kubelet mounts it: files are links through `..data`, which a change swaps at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._version = 0

    def write(self, **files: bytes | str) -> Path:
        """Swap new contents in; `tls_crt` names the file `tls.crt`. Returns the configuration's path."""
        self._version += 1
        data = self.folder / f"..{self._version}"
        data.mkdir()
        for name, content in files.items():
            file = name.replace("_", ".")
            (data / file).write_bytes(content if isinstance(content, bytes) else content.encode())
            with suppress(FileExistsError):
                (self.folder / file).symlink_to(Path("..data") / file)
        (self.folder / "..new").symlink_to(data.name)
        (self.folder / "..new").rename(self.folder / "..data")
        return self.folder / "web.yml"

    def serve(self, config: str, server: Authority, clients: Authority | None = None) -> Path:
        pair = server.issue("127.0.0.1")
        ca = clients.certificate if clients else b""
        return self.write(web_yml=config, tls_crt=pair.certificate, tls_key=pair.key, ca_crt=ca)


@pytest.fixture(scope="module")
def ours() -> Authority:
    return Authority()


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    (tmp_path / "secret").mkdir()
    return Secret(tmp_path / "secret")


@dataclass
class Scraper:
    """Scrapes without a pause, over one connection or ever new ones.

    As in Go's client, a kept connection that was closed meanwhile is opened again for the same request.
    """

    site: Site
    tls: ssl.SSLContext
    keep: bool
    good: int = 0
    lost: int = 0

    def run(self, stop: threading.Event) -> None:
        connection = self._connect()
        used = False
        while not stop.is_set():
            try:
                connection.request("GET", "/metrics")
                reply = connection.getresponse()
                reply.read()
                self.good += reply.status == 200
                self.lost += reply.status != 200
            except (OSError, http.client.HTTPException):
                self.lost += not used
                connection.close()
                connection, used = self._connect(), False
                continue
            used = self.keep
            if not self.keep:
                connection.close()
                connection = self._connect()
        connection.close()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.site.port, timeout=10, context=self.tls)


def scraped_while(site: Site, tls: ssl.SSLContext, change: Iterator[object]) -> list[Scraper]:
    """Scrapers that have run for all changes, each of which was followed by more scrapes of everybody."""
    stop, scrapers = threading.Event(), [Scraper(site, tls, keep=keep) for keep in (True, False)]
    threads = [threading.Thread(target=scraper.run, args=(stop,)) for scraper in scrapers]
    for thread in threads:
        thread.start()
    for _ in change:
        before = [scraper.good for scraper in scrapers]
        while any(
            scraper.good < good + 2 and not scraper.lost for scraper, good in zip(scrapers, before, strict=True)
        ):
            stop.wait(0.002)
    stop.set()
    for thread in threads:
        thread.join()
    return scrapers


def test_a_certificate_that_is_renewed_under_load_costs_no_scrape(secret: Secret, ours: Authority) -> None:
    with serving(secret.serve(PLAIN, ours)) as site:
        renewals = (secret.serve(PLAIN, ours) for _ in range(20))
        scrapers = scraped_while(site, client_tls(ours.certificate), renewals)

    assert [0, 0] == [scraper.lost for scraper in scrapers]
    assert all(scraper.good >= 40 for scraper in scrapers)


def test_a_new_connection_sees_the_new_certificate(secret: Secret, ours: Authority) -> None:
    next_one = Authority()
    with serving(secret.serve(PLAIN, ours)) as site:
        assert get(site, tls=client_tls(ours.certificate)).status == 200
        secret.serve(PLAIN, next_one)

        assert get(site, tls=client_tls(next_one.certificate)).status == 200
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            get(site, tls=client_tls(ours.certificate))


def test_clients_of_an_authority_that_is_replaced_are_out_even_on_connections_they_have(
    secret: Secret, ours: Authority, tmp_path: Path
) -> None:
    old, new = Authority(), Authority()
    certificate = old.issue("prometheus").write(tmp_path, "client")
    with serving(secret.serve(MTLS, ours, old)) as site:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", site.port, timeout=10, context=client_tls(ours.certificate, *certificate)
        )
        for _ in range(2):
            connection.request("GET", "/metrics")
            assert connection.getresponse().read()
        secret.serve(MTLS, ours, new)

        connection.request("GET", "/metrics")
        with pytest.raises(http.client.RemoteDisconnected):
            connection.getresponse()
        with pytest.raises(OSError, match="UNKNOWN_CA"):
            get(site, tls=client_tls(ours.certificate, *certificate))
        fresh = new.issue("prometheus").write(tmp_path, "fresh")
        assert get(site, tls=client_tls(ours.certificate, *fresh)).status == 200
        connection.close()


def test_tls_may_be_switched_on_and_off(secret: Secret, ours: Authority) -> None:
    with serving(secret.write(web_yml="{}")) as site:
        assert get(site).status == 200
        secret.serve(PLAIN, ours)
        assert get(site, tls=client_tls(ours.certificate)).status == 200
        assert get(site).status == 400
        secret.write(web_yml="{}")
        assert get(site).status == 200


BROKEN: dict[str, dict[str, bytes | str]] = {
    "empty": {"web_yml": "\n"},
    "no-yaml": {"web_yml": "tls_server_config: {"},
    "unknown-key": {"web_yml": "tls_server_config: {cert_fil: x}"},
    "no-certificate": {"web_yml": PLAIN, "tls_crt": "", "tls_key": ""},
    "half-written": {"web_yml": PLAIN, "tls_crt": "-----BEGIN CERTIFICATE-----\nMIIB", "tls_key": "x"},
    "missing-file": {"web_yml": PLAIN.replace("tls.key", "other.key")},
    "no-authority": {"web_yml": MTLS, "ca_crt": "no certificate"},
    "gone": {},
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_what_can_not_be_used_changes_nothing_and_is_said_once(
    secret: Secret, ours: Authority, broken: dict[str, bytes | str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pair = ours.issue("127.0.0.1")
    whole: dict[str, bytes | str] = {"web_yml": PLAIN, "tls_crt": pair.certificate, "tls_key": pair.key}
    client = client_tls(ours.certificate)
    with serving(secret.write(**whole)) as site:
        assert get(site, tls=client).status == 200
        secret.write(**(whole | broken if broken else {}))
        assert [200] * 3 == [get(site, tls=client).status for _ in range(3)]
        health = site.guard.health()
        assert health is not None
        assert not health.config_healthy
        secret.write(**whole)
        assert get(site, tls=client).status == 200
        health = site.guard.health()
        assert health is not None
        assert health.config_healthy

    said = [record for record in caplog.records if "--web.config.file" in record.getMessage()]
    assert ["ERROR", "INFO"] == [record.levelname for record in said]
    assert "PRIVATE" not in caplog.text


def test_a_key_of_another_certificate_changes_nothing(secret: Secret, ours: Authority) -> None:
    with serving(secret.serve(PLAIN, ours)) as site:
        one, other = ours.issue("127.0.0.1"), ours.issue("127.0.0.1")
        secret.write(web_yml=PLAIN, tls_crt=one.certificate, tls_key=other.key)

        assert get(site, tls=client_tls(ours.certificate)).status == 200


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_at_the_start_there_is_nothing_to_fall_back_on(
    secret: Secret, ours: Authority, broken: dict[str, bytes | str]
) -> None:
    pair = ours.issue("127.0.0.1")
    whole: dict[str, bytes | str] = {"web_yml": PLAIN, "tls_crt": pair.certificate, "tls_key": pair.key}
    path = secret.write(**(whole | broken if broken else {}))
    with pytest.raises(ConfigError, match=r"^--web\.config\.file .+: [^\n]+$"):
        WebSecurity(path if broken else secret.folder / "web.yml")


@pytest.mark.parametrize(
    "form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL], ids=["pkcs8", "older"]
)
def test_an_encrypted_key_is_an_error_and_no_question_on_a_terminal(
    secret: Secret, ours: Authority, form: PrivateFormat
) -> None:
    pair = ours.issue("127.0.0.1")
    key = load_pem_private_key(pair.key, None)
    encrypted = key.private_bytes(Encoding.PEM, form, BestAvailableEncryption(b"s3cret"))
    path = secret.write(web_yml=PLAIN, tls_crt=pair.certificate, tls_key=encrypted)

    with pytest.raises(
        ConfigError, match="key_file: the key has a passphrase; `openssl pkey` writes it without"
    ):
        WebSecurity(path)


def test_what_is_no_key_is_told_in_words(secret: Secret, ours: Authority) -> None:
    path = secret.write(web_yml=PLAIN, tls_crt=ours.issue("127.0.0.1").certificate, tls_key="nonsense")

    with pytest.raises(ConfigError, match=r"cert_file and key_file: pem lib; are they PEM, and a pair\?$"):
        WebSecurity(path)
