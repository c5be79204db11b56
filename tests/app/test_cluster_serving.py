"""The cluster role's answers: when they are given, how old they are, and by which policy."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fakes.apiserver import ApiServer, Fault
from fakes.clusterview import NOW, node, pod
from fakes.podwatch import BRISK, eventually
from gpuledger.app.cluster import loop as clusterloop
from gpuledger.app.cluster.books import ClusterBooks
from gpuledger.app.cluster.command import chosen_checks, feeds
from gpuledger.app.cluster.loop import ClusterLoop
from gpuledger.app.cluster.podintake import PodIntake
from gpuledger.app.cluster.policyfile import PolicyFile
from gpuledger.app.cluster.scrape import ClusterPage
from gpuledger.app.cluster.site import ClusterSite
from gpuledger.app.http import Request
from gpuledger.app.settings import ClusterSettings
from gpuledger.audit.check import Severity
from gpuledger.audit.checks import CHECKS
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.verdict import Judge
from gpuledger.core.errors import SourceError
from tools.exposition import Exposition

SNEAKY = pod("sneaky", container={"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]})
EXCUSE = "exceptions: [{match: {check: gpu-env-bypass}, reason: known, owner: us}]"

Serve = Callable[..., ClusterSite]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(bookmark_seconds=0.05) as api:
        yield api


@pytest.fixture
def serve(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts the cluster role on the server, in a hurry; a policy and a series limit may be given."""
    monkeypatch.setattr(clusterloop, "REFRESH_SECONDS", 0.02)
    monkeypatch.setattr(clusterloop, "POLICY_SECONDS", 0.02)
    started: list[ClusterLoop] = []

    def start(policy: Path | None = None, limit: int = 1000) -> ClusterSite:
        settings = ClusterSettings(kubeconfig=str(server.kubeconfig(tmp_path / "kubeconfig")))
        intake = PodIntake(chosen_checks(Severity.MEDIUM), (), time.time)
        books = ClusterBooks(intake, Judge(CHECKS, ClusterFacts(), NOW, Severity.MEDIUM))
        loop = ClusterLoop(
            feeds(settings, books, intake, BRISK), books, PolicyFile(policy).read if policy else None
        )
        started.append(loop)
        loop.start()
        return ClusterSite(loop, ClusterPage(loop, intake, series_limit=limit))

    yield start
    for loop in started:
        loop.stop()


def status(site: ClusterSite, path: str) -> int:
    return site.answer(Request("GET", path, {})).status


def page(site: ClusterSite) -> Exposition:
    return Exposition(site.answer(Request("GET", "/metrics", {})).body.decode())


def up(site: ClusterSite, source: str) -> float:
    (sample,) = page(site).series("source_up", source=source)
    return sample.value


def unreadable_pods(site: ClusterSite) -> float:
    (sample,) = page(site).series("source_unreadable_objects", source="pods")
    return sample.value


def progress(site: ClusterSite) -> float:
    """By how much fresher the findings become in a moment that is many judgements long, in seconds."""
    before = page(site).value("audit_last_success_timestamp_seconds")
    time.sleep(0.3)
    after = page(site).value("audit_last_success_timestamp_seconds")
    assert before is not None
    assert after is not None
    return after - before


def ready(site: ClusterSite) -> ClusterSite:
    eventually(200, lambda: status(site, "/readyz"))
    return site


def test_until_everything_is_known_nothing_is_said_of_the_cluster(server: ApiServer, serve: Serve) -> None:
    server.add(SNEAKY)
    server.faults.append(Fault(lambda asked: asked.path.endswith("/nodes"), times=20, status=403))
    site = serve()
    eventually(
        1, lambda: site.answer(Request("GET", "/readyz", {})).body.count(b"nodes: GET /api/v1/nodes: 403")
    )
    assert (503, 0.0) == (status(site, "/readyz"), up(site, "nodes"))
    assert not {name for name in page(site).names if name.startswith(("audit_finding", "audit_last", "node_"))}
    assert 200 == status(site, "/healthz")
    assert 1 == page(ready(site)).value("audit_finding", check="gpu-env-bypass")


def test_findings_age_while_the_api_is_away_and_stay(server: ApiServer, serve: Serve) -> None:
    server.add(SNEAKY)
    site = ready(serve())
    assert (page(site).value("audit_last_success_timestamp_seconds") or 0) > time.time() - 5
    server.refuse()
    eventually(set[str](), lambda: {s.labels["source"] for s in page(site).series("source_up") if s.value})
    eventually(0.0, lambda: progress(site))
    assert 1 == page(site).value("audit_finding", check="gpu-env-bypass")
    assert (200, 200) == (status(site, "/readyz"), status(site, "/healthz"))


@pytest.mark.parametrize("kind", ["pods", "nodes"])
def test_findings_age_while_any_of_what_they_rest_on_is_away(
    kind: str, server: ApiServer, serve: Serve
) -> None:
    server.add(SNEAKY)
    site = ready(serve())
    server.faults.append(Fault(lambda asked: asked.path.endswith(f"/{kind}"), times=10**6, status=403))
    server.cut()
    eventually((0.0, 1.0), lambda: (up(site, kind), up(site, "namespaces")))
    eventually(0.0, lambda: progress(site))


def test_a_policy_is_taken_from_a_config_map_that_changes(
    server: ApiServer, serve: Serve, tmp_path: Path
) -> None:
    """The kubelet writes a folder beside, and swaps the link `..data`."""
    server.add(SNEAKY)
    mount = tmp_path / "policy"
    for folder, text in (("..1", "exceptions: []"), ("..2", EXCUSE)):
        (mount / folder).mkdir(parents=True)
        (mount / folder / "policy.yaml").write_text(text)
    (mount / "..data").symlink_to("..1")
    (mount / "policy.yaml").symlink_to("..data/policy.yaml")

    site = ready(serve(mount / "policy.yaml"))
    assert 1 == page(site).value("audit_finding", check="gpu-env-bypass")
    (mount / "..next").symlink_to("..2")
    (mount / "..next").rename(mount / "..data")
    eventually(0, lambda: len(page(site).series("audit_finding", check="gpu-env-bypass")))
    assert 1 == page(site).value("audit_exempted", check="gpu-env-bypass")


def test_a_policy_that_breaks_stays_in_force_and_the_findings_age(
    server: ApiServer, serve: Serve, tmp_path: Path
) -> None:
    server.add(SNEAKY)
    policy = tmp_path / "policy.yaml"
    policy.write_text(EXCUSE)
    site = ready(serve(policy))
    policy.write_text("exceptions: [{match: {check: no-such-check}, reason: a, owner: b}]")
    eventually(0.0, lambda: up(site, "policy"))
    assert 1 == page(site).value("audit_exempted", check="gpu-env-bypass")
    eventually(0.0, lambda: progress(site))


def test_a_policy_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"policy .*/none: No such file.*; name a file"):
        PolicyFile(tmp_path / "none").read()


def test_a_family_is_cut_at_the_limit_and_what_is_cut_is_counted(server: ApiServer, serve: Serve) -> None:
    for number in range(5):
        server.add(pod(f"p-{number}", container=SNEAKY["spec"]["containers"][0]))
    scrape = page(ready(serve(limit=3)))
    assert 3 == len(scrape.series("audit_finding"))
    assert 2 == scrape.value("series_dropped_total", family="audit_finding")
    affected = scrape.series("audit_workload_pods_affected")
    assert 5 == sum(sample.value for sample in affected) + 2  # one workload a pod: that family is cut as well


def test_an_object_that_can_not_be_read_shows_until_it_is_gone(server: ApiServer, serve: Serve) -> None:
    site = ready(serve())
    assert (0, 0) == (
        unreadable_pods(site),
        page(site).value("audit_failed_objects"),
    )
    spoiled = server.add({**pod("spoiled", 1, "node1"), "spec": {"containers": 5}})
    eventually(1.0, lambda: unreadable_pods(site))
    server.delete(spoiled)
    eventually(0.0, lambda: unreadable_pods(site))
    assert 1 == page(site).value("audit_errors_total", reason="malformed")


def test_openmetrics_says_the_same_and_small_pages_are_compressed(server: ApiServer, serve: Serve) -> None:
    server.add(pod("runs", 1, "node1"))
    headers = {"accept": "application/openmetrics-text; version=1.0.0", "accept-encoding": "gzip"}
    answer = ready(serve()).answer(Request("GET", "/metrics", headers))
    assert "gzip" == answer.headers["Content-Encoding"]
    families = text_string_to_metric_families(gzip.decompress(answer.body).decode())  # type: ignore[no-untyped-call] # theirs
    assert "gpuledger_pod_container_restarts" in {family.name for family in families}


def test_the_page_shows_what_is_free_who_waits_and_who_breaks_rules(server: ApiServer, serve: Serve) -> None:
    server.add(node("node1", 8, labels={"nvidia.com/gpu.product": "<H100>"}))
    server.add(pod("runs", 3, "node1"))
    server.add(pod("too-big", 9))
    server.add(SNEAKY)
    html = ready(serve()).answer(Request("GET", "/", {})).body.decode()
    for cell in (
        "node1",
        "&lt;H100&gt;",
        "nvidia.com/gpu",
        "5",
        "too-big",
        "queued",
        "gpu-env-bypass",
        "Pod/sneaky",
    ):
        assert re.search(rf"<td[^>]*>{re.escape(cell)}</td>", html), cell


def test_the_page_says_why_it_is_empty(server: ApiServer, serve: Serve) -> None:
    server.faults.append(Fault(lambda asked: asked.path.endswith("/pods"), times=1000, status=403))
    site = serve()
    eventually(1, lambda: site.answer(Request("GET", "/", {})).body.count(b"GET /api/v1/pods: 403"))
    assert b"not all pods and nodes are known yet" in site.answer(Request("GET", "/", {})).body
