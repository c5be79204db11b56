"""How the API is found, who asks there (over TLS, as in a pod), and how asking ends."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from fakes.apiserver import ApiServer, Fault, a_list
from fakes.certificates import make_certificate
from fakes.podwatch import NODE, eventually, following, synced
from gpuledger.core.errors import SourceError
from gpuledger.sources.kubeapi import PodSource, connect
from gpuledger.sources.listwatch import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpuledger.sources.kubehttp import Connection


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a kubeconfig, and no other sign of a cluster."""
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def secure(certificate: tuple[Path, Path]) -> Iterator[ApiServer]:
    with ApiServer(tls=certificate, tokens={"one"}) as api:
        yield api


@pytest.fixture
def account(secure: ApiServer, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the kubelet mounts into a pod."""
    assert secure.tls is not None
    host, _, port = secure.url.rpartition("/")[2].partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    folder = home / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("one")
    (folder / "ca.crt").write_text(secure.tls[0].read_text())
    return folder


def one_get(connection: Connection) -> None:
    with connection.get("/api/v1/pods", {}, seconds=5.0) as answer:
        answer.body()


# ---- where the API is ----


def test_a_process_that_never_connects_does_not_pay_for_the_client() -> None:
    program = (
        "import sys, gpuledger.sources.kubeapi;"
        "print([m for m in ('kubernetes', 'urllib3', 'yaml', 'ssl') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert "[]" == run.stdout.strip()


def test_auto_prefers_the_service_account_to_a_kubeconfig(
    secure: ApiServer, account: Path, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(account.parent / "other")))
    one_get(connect("auto", service_account=account))
    assert (1, 0) == (len(secure.requests), len(server.requests))


@pytest.mark.usefixtures("account")
def test_auto_takes_a_kubeconfig_that_is_named_even_in_a_pod(server: ApiServer, account: Path) -> None:
    path = server.kubeconfig(account.parent / "named")
    one_get(connect("auto", str(path), service_account=account))
    one_get(connect("auto", str(path), "fake", service_account=account))
    assert 2 == len(server.requests)


@pytest.mark.parametrize("where", ["variable", "second-of-two", "home"])
def test_auto_finds_a_kubeconfig_outside_a_pod(
    server: ApiServer, home: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    (home / ".kube").mkdir()
    path = server.kubeconfig(home / ".kube" / ("config" if where == "home" else "other"))
    if where != "home":
        monkeypatch.setenv("KUBECONFIG", str(path) if where == "variable" else f"/nowhere:{path}")
    one_get(connect("auto", service_account=home / "none"))
    assert 1 == len(server.requests)


def test_a_context_chooses_among_clusters(server: ApiServer, home: Path) -> None:
    path = server.kubeconfig(home / "kubeconfig")
    path.write_text(path.read_text().replace("current-context: fake", "current-context: other"))
    one_get(connect("kubeconfig", str(path), "fake"))
    assert 1 == len(server.requests)


KUBECONFIG = """
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1', certificate-authority: /nowhere/ca.crt}}]
users: [{name: a, user: {token: secret-token}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
"""


@pytest.mark.parametrize(
    ("text", "context", "message"),
    [
        pytest.param("", "", "file is empty; compare `kubectl config view`", id="empty"),
        pytest.param("{a: [", "", "while parsing a flow", id="no-yaml"),
        pytest.param("just text", "", "can't be used", id="no-mapping"),
        pytest.param("clusters: {}", "", "can't be used", id="no-kubeconfig"),
        pytest.param("a: 1", "", "Expected key current-context", id="no-context"),
        pytest.param(KUBECONFIG, "b", "Expected object with name b in", id="unknown-context"),
        pytest.param(KUBECONFIG, "", "File does not exist: /nowhere/ca.crt", id="no-certificate-authority"),
        pytest.param(
            KUBECONFIG.replace("https://127.0.0.1:1", "https://"),
            "",
            "/nowhere/ca.crt",
            id="no-host-and-no-authority",
        ),
        pytest.param(
            KUBECONFIG.replace("https://127.0.0.1:1", "http://:x"),
            "",
            "the API server's URL is 'http://:x'",
            id="no-url",
        ),
    ],
)
def test_a_kubeconfig_that_is_no_good_is_told_in_one_line(
    home: Path, text: str, context: str, message: str
) -> None:
    path = home / "kubeconfig"
    path.write_text(text)
    with pytest.raises(SourceError) as raised:
        connect("kubeconfig", str(path), context)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "secret-token" not in str(raised.value)


def test_without_the_client_as_in_the_image_the_error_says_where_it_is(
    server: ApiServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)  # as if it were not installed
    with pytest.raises(SourceError, match="the image has no Kubernetes client; pip install gpuledger"):
        one_get(connect("kubeconfig", str(server.kubeconfig(home / "kubeconfig"))))


@pytest.mark.parametrize("mode", ["auto", "kubeconfig"])
def test_without_a_kubeconfig_the_error_says_how_to_name_one(home: Path, mode: str) -> None:
    message = f"no kubeconfig at {home}/.kube/config; name one with --kubeconfig"
    with pytest.raises(SourceError, match=f"^{message}$"):
        connect(mode, service_account=home / "none")


@pytest.mark.parametrize("missing", ["KUBERNETES_SERVICE_PORT", "token", "ca.crt"])
def test_an_incomplete_service_account_is_told_with_what_is_missing(
    account: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    if missing.isupper():
        monkeypatch.delenv(missing)
        named = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT"
    else:
        (account / missing).unlink()
        named = str(account / missing)
    with pytest.raises(SourceError) as raised:
        connect("in-cluster", service_account=account)
    advice = "let the pod mount its token"
    assert f"no service account: there is no {named}; {advice}" == str(raised.value)


# ---- who asks ----


def test_a_rotated_token_is_read_again_at_once(secure: ApiServer, account: Path) -> None:
    with following(connect("in-cluster", service_account=account), Pace(watch=1, backoff=30.0)) as source:
        eventually(1, lambda: len(secure.watches()))
        (account / "token").write_text("two\n")
        secure.rotate_token("two")
        eventually(3, lambda: len(secure.watches()))
        synced(source)
    credentials = [asked.headers["authorization"] for asked in secure.watches()]
    assert ["Bearer one", "Bearer two"] == list(dict.fromkeys(credentials))


def test_a_rotated_token_is_used_before_the_old_one_is_refused(secure: ApiServer, account: Path) -> None:
    secure.tokens.add("two")
    connection = connect("in-cluster", service_account=account)
    one_get(connection)
    (account / "token").write_text("two")
    one_get(connection)
    assert ["Bearer one", "Bearer two"] == [asked.headers["authorization"] for asked in secure.requests]


def test_a_token_file_that_vanishes_is_told(account: Path) -> None:
    connection = connect("in-cluster", service_account=account)
    (account / "token").unlink()
    with pytest.raises(
        SourceError, match=r"^no credentials: .*No such file.*; check the service account's token"
    ):
        one_get(connection)


def test_a_kubeconfigs_token_file_is_read_again_when_it_is_refused(server: ApiServer, home: Path) -> None:
    token = home / "token"
    token.write_text("one\n")
    server.rotate_token("one")
    connection = connect("kubeconfig", str(server.kubeconfig(home / "kubeconfig", tokenFile=str(token))))
    one_get(connection)
    token.write_text("two\n")
    server.rotate_token("two")
    with following(connection, Pace(backoff=30.0)) as source:
        synced(source)
        assert 1 == source.health().failures


def test_a_token_that_stays_refused_is_told_and_tried_ever_more_seldom(
    secure: ApiServer, account: Path
) -> None:
    with following(
        connect("in-cluster", service_account=account), Pace(backoff=0.1, backoff_max=0.4)
    ) as source:
        synced(source)
        secure.rotate_token("two")
        secure.cut()
        advice = "check the service account's token or the kubeconfig's user"
        eventually(f"GET /api/v1/pods: 401: Unauthorized; {advice}", lambda: source.health().error)
        before = len(secure.requests)
        time.sleep(1.0)
        assert len(secure.requests) - before <= 6
        (account / "token").write_text("two")
        synced(source)


@pytest.mark.parametrize("text", ["", "two\nlines", "\N{SNOWMAN}"])
def test_a_token_file_that_holds_none_is_told_without_quoting_it(
    secure: ApiServer, account: Path, text: str
) -> None:
    with following(connect("in-cluster", service_account=account)) as source:
        synced(source)
        (account / "token").write_text(text)
        secure.rotate_token("two")
        secure.cut()
        eventually("down", lambda: "up" if source.health().up else "down")
        time.sleep(0.2)
        assert "two\nlines" not in source.health().error
        (account / "token").write_text("two")
        synced(source)


def test_a_server_that_another_authority_vouches_for_is_not_believed(
    secure: ApiServer, account: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other, _ = make_certificate(tmp_path_factory.mktemp("other"))
    (account / "ca.crt").write_text(other.read_text())
    with following(connect("in-cluster", service_account=account)) as source:
        eventually("down", lambda: "down" if "CERTIFICATE_VERIFY_FAILED" in source.health().error else "")
    assert [] == secure.requests


def test_the_kernel_looks_after_a_peer_that_vanishes(connection: Connection) -> None:
    one_get(connection)
    (kept,) = connection._sockets._all()
    assert [1, 30, 10, 3] == [
        kept.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
        kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
        kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
        kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
    ]


# ---- the end ----


@pytest.mark.parametrize(
    "prepare",
    [
        pytest.param(lambda _: None, id="within-a-quiet-watch"),
        pytest.param(
            lambda api: setattr(api, "keep_alive", False), id="within-a-watch-that-ends-its-connection"
        ),
        pytest.param(lambda api: api.faults.append(Fault(a_list, delay=60.0)), id="before-an-answer"),
        pytest.param(
            lambda api: api.faults.append(Fault(a_list, then="silence", after=9)), id="within-an-answer"
        ),
        pytest.param(lambda api: api.faults.append(Fault(times=99, status=500)), id="while-backing-off"),
        pytest.param(lambda api: api.refuse(), id="without-a-server"),
    ],
)
@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_it_stops_at_once_whatever_it_waits_for(
    prepare: Callable[[ApiServer], Any], certificate: tuple[Path, Path], home: Path, *, tls: bool
) -> None:
    with ApiServer(tls=certificate if tls else None) as api:
        connection = connect("kubeconfig", str(api.kubeconfig(home / "kubeconfig")))
        prepare(api)
        source, stop = PodSource(connection, NODE, pace=Pace(backoff=60.0)), threading.Event()
        thread = threading.Thread(target=source.run, args=(stop,), daemon=True)
        thread.start()
        time.sleep(0.3)
        began = time.monotonic()
        stop.set()
        thread.join(5.0)
        assert time.monotonic() - began < 1.0
