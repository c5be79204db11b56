"""A real Prometheus with the right certificate, password or token scrapes; with another, or none, it can't."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fakes.authority import Authority
from fakes.nvml import presets
from fakes.world import World
from tools.node import Node
from tools.prometheus import Prometheus
from web.site import hashed

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

PROMETHEUS = "system:serviceaccount:monitoring:prometheus"
STRANGER = "system:serviceaccount:default:default"
WEB_CONFIG = """
tls_server_config:
  cert_file: server.crt
  key_file: server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  client_allowed_sans: [prometheus.monitoring.svc]
basic_auth_users:
  prometheus: {password}
"""
REFUSED = {
    "no-certificate": "certificate required",
    "expired-certificate": "expired certificate",
    "another-authority": "unknown certificate authority",
    "another-name": "EOF",
    "no-password": "401 Unauthorized",
    "wrong-password": "401 Unauthorized",
    "no-tls": "400 Bad Request",
    "no-token": "401 Unauthorized",
    "unknown-token": "401 Unauthorized",
    "stranger": "403 Forbidden",
}
"""What Prometheus says of each of these jobs."""


@dataclass(frozen=True)
class Scraped:
    """Two guarded nodes, and the Prometheus that tries to scrape them."""

    prometheus: Prometheus
    by_certificate: Node
    by_token: Node


def https(folder: Path, client: str, **more: Any) -> dict[str, Any]:
    tls = {"ca_file": str(folder / "ca.crt")}
    if client:
        tls |= {"cert_file": str(folder / f"{client}.crt"), "key_file": str(folder / f"{client}.key")}
    password = {"username": "prometheus", "password": "s3cret"}
    return {"scheme": "https", "tls_config": tls, "basic_auth": password, **more}


def jobs(folder: Path) -> dict[str, dict[str, Any]]:
    """The scrape configuration of each job; those about tokens have a token, or should have."""
    password = {"username": "prometheus", "password": "other"}
    return {
        "mtls-and-password": https(folder, "right"),
        "no-certificate": https(folder, ""),
        "expired-certificate": https(folder, "expired"),
        "another-authority": https(folder, "foreign"),
        "another-name": https(folder, "other"),
        "no-password": https(folder, "right", basic_auth=None),
        "wrong-password": https(folder, "right", basic_auth=password),
        "no-tls": {},
        "token": {"authorization": {"credentials": "good-token"}},
        "no-token": {},
        "unknown-token": {"authorization": {"credentials": "made-up"}},
        "stranger": {"authorization": {"credentials": "strange-token"}},
    }


def write_certificates(folder: Path) -> None:
    ours, theirs = Authority(), Authority()
    (folder / "ca.crt").write_bytes(ours.certificate)
    ours.issue("127.0.0.1").write(folder, "server")
    ours.issue("prometheus.monitoring.svc").write(folder, "right")
    ours.issue("prometheus.monitoring.svc", expired=True).write(folder, "expired")
    ours.issue("grafana.monitoring.svc").write(folder, "other")
    theirs.issue("prometheus.monitoring.svc").write(folder, "foreign")


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """Scrapes so seldom that wrong credentials stay below the rate limit."""
    folder = tmp_path_factory.mktemp("web")
    write_certificates(folder)
    (folder / "web.yml").write_text(WEB_CONFIG.format(password=hashed("s3cret")))
    with ExitStack() as stack:
        world = stack.enter_context(World(tmp_path_factory.mktemp("world"), presets.node(1)))
        other = stack.enter_context(World(tmp_path_factory.mktemp("other"), presets.node(1)))
        api, flags = other.serve_api()
        api.users |= {"good-token": PROMETHEUS, "strange-token": STRANGER}
        api.allowed.add((PROMETHEUS, "/metrics"))
        by_certificate = stack.enter_context(Node(world, f"--web.config.file={folder / 'web.yml'}"))
        by_token = stack.enter_context(Node(other, *flags, "--web.kubernetes-auth=true"))
        scrape = jobs(folder)
        targets = {
            job: (by_token if "token" in job or job == "stranger" else by_certificate).url.removeprefix(
                "http://"
            )
            for job in scrape
        }
        prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"), targets, interval="2s", scrape=scrape)
        yield Scraped(stack.enter_context(prometheus), by_certificate, by_token)


def test_only_the_right_credentials_scrape(scraped: Scraped) -> None:
    up = {job: float(job in ("mtls-and-password", "token")) for job in jobs(Path())}
    scraped.prometheus.wait_for("count(up)", lambda samples: bool(samples) and samples[0].value == len(up))

    assert up == {sample.labels["job"]: sample.value for sample in scraped.prometheus.query("up")}
    errors = {target.job: target.error for target in scraped.prometheus.targets()}
    assert {} == {job: errors[job] for job, words in REFUSED.items() if words not in errors[job]}


def test_who_was_turned_away_is_counted(scraped: Scraped) -> None:
    refused = scraped.prometheus.wait_for(
        "sum by (job, reason) (gpuledger_web_refused_total) > 0", lambda samples: len(samples) == 4
    )

    assert {
        ("mtls-and-password", "handshake"),
        ("mtls-and-password", "credentials"),
        ("token", "credentials"),
        ("token", "forbidden"),
    } == {(sample.labels["job"], sample.labels["reason"]) for sample in refused}
    assert 1 == scraped.prometheus.query_value("gpuledger_web_config_last_reload_successful")


def test_no_secret_is_in_the_log_the_arguments_or_the_environment(scraped: Scraped) -> None:
    for node in (scraped.by_certificate, scraped.by_token):
        process = Path("/proc") / str(node.process.pid)
        told = "\n".join((node.log(), (process / "cmdline").read_text(), (process / "environ").read_text()))
        for secret in ("s3cret", "$2b$", "good-token", "strange-token", "made-up", "PRIVATE KEY"):
            assert secret not in told
