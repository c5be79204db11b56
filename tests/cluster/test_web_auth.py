"""A real API server says whose a token is and what its owner may read, as long as the exporter may ask it."""

from __future__ import annotations

import json
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import pytest

from cluster.node import kubectl
from gpuledger.core.errors import SourceError
from gpuledger.sources.kubeapi import connect
from gpuledger.sources.reviews import ReviewSource
from tools.daemon import until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster


@pytest.fixture
def accounts(namespace: str) -> Iterator[str]:
    """The namespace of the accounts of web-auth.yaml."""
    manifest = Template((Path(__file__).parent / "web-auth.yaml").read_text()).substitute(namespace=namespace)
    kubectl("apply", "-f", "-", stdin=manifest)
    yield namespace
    kubectl("delete", "--ignore-not-found", "-f", "-", stdin=manifest)


def new_token(account: str, namespace: str) -> str:
    return kubectl("create", "token", account, "-n", namespace).strip()


@pytest.fixture
def reviews(accounts: str, tmp_path: Path) -> ReviewSource:
    """Asks the API with the rights of web-exporter alone."""
    config = json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    config["users"][0]["user"] = {"token": new_token("web-exporter", accounts)}
    (tmp_path / "config").write_text(json.dumps(config))
    return ReviewSource(connect("kubeconfig", str(tmp_path / "config")))


def verdict(reviews: ReviewSource, token: str, path: str = "/metrics") -> str:
    """What comes of a token."""
    try:
        user = reviews.user_of(token)
        return "unknown" if user is None else "allowed" if reviews.may_get(user, path) else "forbidden"
    except SourceError:
        return "unavailable"


def wait_for(expected: str, reviews: ReviewSource, token: str) -> None:
    """Rights come and go a moment after they are written."""
    until(lambda: verdict(reviews, token) == expected, 30, lambda: f"not {expected}")


def test_a_token_opens_what_rbac_lets_its_owner_get(reviews: ReviewSource, accounts: str) -> None:
    scraper, stranger = (new_token(f"web-{name}", accounts) for name in ("prometheus", "stranger"))
    wait_for("allowed", reviews, scraper)

    assert "forbidden" == verdict(reviews, scraper, "/")
    assert "forbidden" == verdict(reviews, stranger)
    assert "unknown" == verdict(reviews, scraper + "x")


def test_the_token_of_an_account_that_is_deleted_is_good_for_nothing(
    reviews: ReviewSource, accounts: str
) -> None:
    token = new_token("web-prometheus", accounts)
    wait_for("allowed", reviews, token)
    kubectl("delete", "serviceaccount", "web-prometheus", "-n", accounts)
    kubectl("create", "serviceaccount", "web-prometheus", "-n", accounts)

    wait_for("unknown", reviews, token)


@pytest.mark.parametrize("right", ["tokenreviews", "subjectaccessreviews"])
def test_without_the_right_to_ask_nobody_gets_in(reviews: ReviewSource, accounts: str, right: str) -> None:
    token = new_token("web-prometheus", accounts)
    wait_for("allowed", reviews, token)
    kubectl("delete", "clusterrolebinding", f"{accounts}-{right}")

    wait_for("unavailable", reviews, token)
