"""Kubernetes' own tokens: the API says whose they are and what those may read; without it nobody gets in."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from fakes.apiserver import ApiServer, Fault
from fakes.authority import Authority
from gpuledger.app.web import limits, tokens
from gpuledger.app.web.security import WebSecurity
from gpuledger.sources import reviews
from gpuledger.sources.kubeapi import connect
from gpuledger.sources.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS, ReviewSource
from web.site import Site, basic, get, hashed, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROMETHEUS = "system:serviceaccount:monitoring:prometheus"
STRANGER = "system:serviceaccount:default:default"


@pytest.fixture
def api() -> Iterator[ApiServer]:
    users = {"good": PROMETHEUS, "strange": STRANGER}
    with ApiServer(tokens={"our-own"}, users=users, allowed={(PROMETHEUS, "/metrics")}) as api:
        yield api


@pytest.fixture
def reviewer(api: ApiServer, tmp_path: Path) -> ReviewSource:
    kubeconfig = api.kubeconfig(tmp_path / "kubeconfig", token="our-own")  # noqa: S106 - of the fake
    return ReviewSource(connect("kubeconfig", str(kubeconfig)))


@pytest.fixture
def site(reviewer: ReviewSource) -> Iterator[Site]:
    with serving(reviewer=reviewer) as site:
        yield site


def status(site: Site, token: str, path: str = "/metrics") -> int:
    return get(site, path, authorization=f"Bearer {token}").status


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let that much time pass for everybody."""
    now, elapsed = time.monotonic, seconds
    monkeypatch.setattr(time, "monotonic", lambda: now() + elapsed)


@pytest.mark.parametrize(
    ("token", "path", "expected"),
    [
        pytest.param("good", "/metrics", 200, id="right"),
        pytest.param("good", "/", 403, id="right-but-another-path"),
        pytest.param("strange", "/metrics", 403, id="of-somebody-else"),
        pytest.param("made-up", "/metrics", 401, id="unknown"),
        pytest.param("", "/metrics", 401, id="empty"),
    ],
)
def test_a_token_opens_what_its_owner_may_get(site: Site, token: str, path: str, expected: int) -> None:
    assert expected == status(site, token, path)


def test_without_a_token_the_api_is_not_even_asked(site: Site, api: ApiServer) -> None:
    reply = get(site)

    assert (401, 'Bearer realm="gpuledger"') == (reply.status, reply.headers["WWW-Authenticate"])
    assert 401 == get(site, authorization=basic("good", "good")).status
    assert [] == api.requests


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_the_kubelets_probes_need_no_token(site: Site, path: str) -> None:
    assert 200 == get(site, path).status


def test_the_api_is_asked_as_its_reference_says(site: Site, api: ApiServer) -> None:
    status(site, "good")
    whose, may = api.requests

    assert [TOKEN_REVIEWS, ACCESS_REVIEWS] == [whose.path, may.path]
    assert {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "good"},
    } == whose.document
    assert {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": PROMETHEUS,
            "uid": f"uid-of-{PROMETHEUS}",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "extra": {},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    } == may.document


def test_a_verdict_is_kept_for_a_while(site: Site, api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [200, 200, 403, 403] == [status(site, token) for token in ("good", "good", "strange", "strange")]
    assert 4 == len(api.requests)
    later(monkeypatch, tokens.Verdict.FORBIDDEN.value + 1)
    assert [200, 403] == [status(site, token) for token in ("good", "strange")]
    assert 6 == len(api.requests)


def test_a_token_that_is_revoked_is_out_within_a_minute(
    site: Site, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 200 == status(site, "good")
    del api.users["good"]
    later(monkeypatch, 61)

    assert 401 == status(site, "good")


def test_a_right_that_is_taken_away_is_gone_within_a_minute(
    site: Site, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 200 == status(site, "good")
    api.allowed.clear()
    later(monkeypatch, 61)

    assert 403 == status(site, "good")


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(status=403, times=99), id="may-not-ask"),
        pytest.param(Fault(status=500, times=99), id="fails"),
        pytest.param(Fault(status=401, times=99), id="our-token-is-refused"),
        pytest.param(Fault(body=b"<html>proxy</html>", times=99), id="talks-nonsense"),
        pytest.param(Fault(body=b"{}", times=99), id="says-nothing"),
        pytest.param(Fault(after=10, then="cut", times=99), id="is-cut-off"),
    ],
)
def test_nobody_gets_in_when_the_api_can_not_tell(
    site: Site, api: ApiServer, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    api.faults.append(fault)
    assert [503, 503] == [status(site, "good") for _ in range(2)]
    assert 2 == site.refused("unavailable")
    api.faults.clear()
    assert 200 == status(site, "good")

    levels = [record.levelname for record in caplog.records if "--web.kubernetes-auth" in record.getMessage()]
    assert ["WARNING", "INFO"] == levels
    assert "good" not in caplog.text


def test_an_outage_of_the_api_counts_as_nobodys_guess(site: Site, api: ApiServer) -> None:
    api.refuse()
    assert {503} == {status(site, "good") for _ in range(2 * limits.GUESSES)}
    api.accept()

    assert 200 == status(site, "good")


def test_an_api_that_is_away_lets_nobody_in_and_costs_nobody_else(site: Site, api: ApiServer) -> None:
    api.refuse()

    assert 503 == status(site, "good")
    assert 200 == get(site, "/healthz").status


def test_an_api_that_hangs_holds_up_no_probe(
    site: Site, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviews, "_SECONDS", 1.0)
    api.faults.append(Fault(then="silence", times=99))
    answers: list[int] = []
    waiting = threading.Thread(target=lambda: answers.append(status(site, "good")))
    waiting.start()
    began = time.monotonic()
    while time.monotonic() < began + 0.5:
        assert 200 == get(site, "/healthz").status
    waiting.join(10)

    assert [503] == answers


def test_made_up_tokens_are_not_all_passed_on_to_the_api(site: Site, api: ApiServer) -> None:
    assert 200 == status(site, "good")
    answers = [status(site, f"made-up-{number}") for number in range(limits.GUESSES + 5)]

    assert [401] * limits.GUESSES + [429] * 5 == answers
    assert 2 + limits.GUESSES == len(api.requests)
    assert 200 == status(site, "good")


def test_made_up_tokens_push_nobody_out_of_what_is_kept(reviewer: ReviewSource) -> None:
    kept = tokens.Tokens(reviewer)
    kept._keep(kept._digest("good", "/metrics"), tokens.Verdict.ALLOWED)
    for number in range(2 * tokens.MAX_VERDICTS):
        kept._keep(kept._digest(str(number), "/metrics"), tokens.Verdict.UNKNOWN)

    assert tokens.Verdict.ALLOWED == kept.known("good", "/metrics")
    kept.close()


def test_what_is_kept_is_bounded_and_holds_no_token(reviewer: ReviewSource) -> None:
    kept = tokens.Tokens(reviewer)
    for number in range(2 * tokens.MAX_VERDICTS):
        kept._keep(kept._digest(f"secret-{number}", "/metrics"), tokens.Verdict.FORBIDDEN)

    assert tokens.MAX_VERDICTS == len(kept._verdicts)
    assert "secret" not in repr(vars(kept))
    kept.close()


def test_with_users_and_tokens_either_lets_in(reviewer: ReviewSource, tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{alice: {hashed('s3cret')}}}")
    with serving(tmp_path / "web.yml", reviewer) as site:
        assert [200, 200] == [
            get(site, authorization=who).status for who in ("Bearer good", basic("alice", "s3cret"))
        ]
        reply = get(site, authorization=basic("alice", "good"))

    assert 401 == reply.status
    assert 'Basic realm="gpuledger", Bearer realm="gpuledger"' == reply.headers["WWW-Authenticate"]


def test_tokens_without_tls_are_warned_of(
    reviewer: ReviewSource, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority()
    authority.issue("127.0.0.1").write(tmp_path, "tls")
    (tmp_path / "plain.yml").write_text("{}")
    (tmp_path / "tls.yml").write_text("tls_server_config: {cert_file: tls.crt, key_file: tls.key}")
    for file, warnings in ((None, 1), (tmp_path / "plain.yml", 1), (tmp_path / "tls.yml", 0)):
        caplog.clear()
        WebSecurity(file, reviewer).close()

        assert warnings * ["--web.kubernetes-auth: without TLS, tokens can be read on the way, and used"] == [
            record.getMessage() for record in caplog.records if record.levelname == "WARNING"
        ]
