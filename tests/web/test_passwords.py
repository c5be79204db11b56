"""Basic authentication: the right password gets in at once, and guessing gets nobody anywhere."""

from __future__ import annotations

import statistics
import threading
import time
from typing import TYPE_CHECKING

import pytest

from gpuledger.app.http import Response
from gpuledger.app.web import limits
from web.site import Site, basic, get, hashed, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALICE = basic("alice", "s3cret")
DEAR = 11
"""A cost at which a check takes about 0.1 s."""


def configure(path: Path, **users: str) -> Path:
    lines = [f"  {user}: {hash_}" for user, hash_ in users.items()]
    path.write_text("\n".join(["basic_auth_users:", *lines]))
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return configure(tmp_path / "web.yml", alice=hashed("s3cret"), bob=hashed("other"))


@pytest.fixture
def site(config: Path) -> Iterator[Site]:
    with serving(config) as site:
        yield site


def status(site: Site, authorization: str, path: str = "/metrics") -> int:
    return get(site, path, authorization=authorization).status


@pytest.mark.parametrize("path", ["/metrics", "/", "/nothing"])
def test_the_right_password_gets_in_everywhere(site: Site, path: str) -> None:
    assert [200, 200, 200] == [
        status(site, who, path) for who in (ALICE, ALICE.replace("Basic", "bAsIc"), basic("bob", "other"))
    ]


@pytest.mark.parametrize("path", ["/metrics", "/", "/nothing", "/healthz/", "//healthz", "/healthz/../metrics"])
@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param("", id="missing"),
        pytest.param(basic("alice", "other"), id="another's"),
        pytest.param(basic("alice", ""), id="empty"),
        pytest.param(basic("carol", "s3cret"), id="unknown-user"),
        pytest.param(basic("", ""), id="nobody"),
        pytest.param("Basic", id="no-credentials"),
        pytest.param("Basic \xff", id="no-base64"),
        pytest.param("Basic /w==", id="no-text"),
        pytest.param("Bearer " + ALICE.removeprefix("Basic "), id="another-scheme"),
    ],
)
def test_anything_else_is_refused(site: Site, authorization: str, path: str) -> None:
    reply = get(site, path, authorization=authorization)

    assert (401, 'Basic realm="gpuledger"') == (reply.status, reply.headers["WWW-Authenticate"])
    assert 1 == site.refused("credentials")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_the_kubelets_probes_need_no_password(site: Site, path: str) -> None:
    assert 200 == status(site, "", path)


def test_a_method_that_is_refused_is_refused_to_strangers_first(site: Site) -> None:
    assert 401 == get(site, method="DELETE").status
    assert 405 == get(site, authorization=ALICE, method="DELETE").status


def test_a_password_beyond_what_bcrypt_looks_at_is_no_error(tmp_path: Path) -> None:
    long = "x" * 100
    with serving(configure(tmp_path / "web.yml", alice=hashed(long[:72]))) as site:
        assert 200 == status(site, basic("alice", long))


def test_a_user_who_is_removed_or_gets_another_password_is_out_at_once(site: Site, config: Path) -> None:
    assert 200 == status(site, ALICE)
    configure(config, alice=hashed("another"), bob=hashed("other"))
    assert [401, 200] == [status(site, ALICE), status(site, basic("alice", "another"))]
    configure(config, bob=hashed("other"))
    assert 401 == status(site, basic("alice", "another"))


def test_a_right_password_is_checked_once(tmp_path: Path) -> None:
    with serving(configure(tmp_path / "web.yml", alice=hashed("s3cret", DEAR))) as site:
        began = time.process_time()
        assert 200 == status(site, ALICE)
        once = time.process_time() - began
        began = time.process_time()
        assert [200] * 5 == [status(site, ALICE) for _ in range(5)]

        assert time.process_time() - began < once


def test_a_name_that_nobody_has_takes_as_long_as_a_wrong_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GUESSES", 100)

    def cost(user: str) -> float:
        began = time.process_time()  # of all threads, and whatever else the machine does
        assert 401 == status(guarded, basic(user, "wrong"))
        return time.process_time() - began

    with serving(configure(tmp_path / "web.yml", alice=hashed("s3cret", DEAR))) as guarded:
        known = statistics.median(cost("alice") for _ in range(3))
        unknown = statistics.median(cost("nobody") for _ in range(3))

    assert known == pytest.approx(unknown, rel=0.5)


def test_checks_hold_up_nobody_who_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GUESSES", 1000)
    monkeypatch.setattr(limits, "MAX_WAITING", 1000)
    with serving(configure(tmp_path / "web.yml", alice=hashed("s3cret", DEAR))) as site:
        assert 200 == status(site, ALICE)
        guessers = [threading.Thread(target=status, args=(site, basic("alice", str(n)))) for n in range(8)]
        for guesser in guessers:
            guesser.start()
        began = time.monotonic()
        assert [200] * 5 == [status(site, ALICE) for _ in range(5)]
        asked = time.monotonic() - began
        assert any(guesser.is_alive() for guesser in guessers)
        for guesser in guessers:
            guesser.join()

    assert asked < 1


def test_guessing_is_slowed_down_and_stops_nobody_who_is_known(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 200 == status(site, ALICE)
    answers = [status(site, basic("alice", str(number))) for number in range(limits.GUESSES + 5)]

    assert [401] * limits.GUESSES + [429] * 5 == answers
    assert [200, 429] == [status(site, ALICE), status(site, basic("bob", "other"))]
    assert "10" == get(site, authorization=basic("alice", "x")).headers["Retry-After"]
    tomorrow = time.monotonic() + 86400
    monkeypatch.setattr(time, "monotonic", lambda: tomorrow)
    assert 200 == status(site, basic("bob", "other"))


def test_more_checks_than_can_be_made_in_time_are_turned_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_WAITING", 2)
    answers: list[int] = []
    with serving(configure(tmp_path / "web.yml", alice=hashed("s3cret", DEAR + 1))) as site:
        ask = [
            threading.Thread(target=lambda: answers.append(status(site, basic("alice", "no"))))
            for _ in range(8)
        ]
        for guesser in ask:
            guesser.start()
        for guesser in ask:
            guesser.join()

    assert {401, 503} == set(answers)


def test_requests_are_limited_as_configured_but_for_probes(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text("rate_limit: {interval: 1h, burst: 3}")
    with serving(tmp_path / "web.yml") as site:
        assert [200, 200, 200, 429, 429] == [status(site, "") for _ in range(5)]
        assert [200] * 5 == [status(site, "", "/healthz") for _ in range(5)]
        assert 2 == site.refused("rate-limit")


def test_headers_are_set_on_every_answer(tmp_path: Path) -> None:
    headers = {
        "X-Frame-Options": "deny",
        "Strict-Transport-Security": "max-age=60",
        "X-Content-Type-Options": "nosniff",
    }
    (tmp_path / "web.yml").write_text(f"http_server_config: {{headers: {headers}}}")
    with serving(tmp_path / "web.yml") as site:
        reply = get(site)

    assert {name: [value] for name, value in headers.items()} == {
        name: reply.headers.get_all(name) for name in headers
    }


def test_a_page_that_says_what_it_admits_keeps_to_that(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text("http_server_config: {headers: {Content-Security-Policy: default-src *}}")
    own = {"Content-Security-Policy": "default-src 'none'"}
    with serving(tmp_path / "web.yml", handler=lambda _: Response(200, b"", headers=own)) as site:
        assert ["default-src 'none'"] == get(site).headers.get_all("Content-Security-Policy")


def test_addresses_that_guess_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ADDRESSES", 3)
    guesses = limits.Guesses()
    for number in range(100):
        assert guesses.take(f"10.0.0.{number}", 0.0)

    assert ["10.0.0.97", "10.0.0.98", "10.0.0.99"] == list(guesses._buckets)
