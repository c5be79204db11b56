"""The real authorizer allows a role what the chart says and nothing more; each right taken away is one loss."""

from __future__ import annotations

import json
import sys
import urllib.request
from itertools import product
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import pytest

from cluster.exporter import exporting
from cluster.node import kubectl
from cluster.rights import Change, Rule, allowed, rules_of, write_kubeconfig
from tools.daemon import Daemon, until
from tools.exposition import Exposition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cluster.containers import Running
    from cluster.gpus import NodeGpus
    from cluster.node import Node

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

WAITING = Path(__file__).parent / "waiting.yaml"

REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SelfSubjectRulesReview",
    "spec": {"namespace": "default"},
}

WATCHED = ("pods", "nodes", "resourcequotas", "namespaces", "events")
"""What the cluster role watches, on servers of any age."""

LOST = {
    "pods": "node_resource_free",
    "nodes": "node_resource_free",
    "resourcequotas": "quota_hard",
    "events": "pod_warning_events",
}
"""A family that goes with the right to list, by docs/security.md; namespaces take none away."""


def without(resource: str, verb: str) -> Change:
    """Takes one verb on one resource away."""

    def change(rules: list[Rule]) -> list[Rule]:
        each = [{**rule, "resources": [name]} for rule in rules for name in rule["resources"]]
        (changed,) = [rule for rule in each if rule["resources"] == [resource]]
        changed["verbs"] = [other for other in changed["verbs"] if other != verb]
        return [rule for rule in each if rule["verbs"]]

    return change


def rights_of(user: str) -> set[tuple[str, str, str]]:
    """Every API group, resource and verb that the server's authorizer allows a user."""
    answer = kubectl("create", "-f", "-", "-o", "json", f"--as={user}", stdin=json.dumps(REVIEW))
    return set(rights_in(json.loads(answer)["status"]["resourceRules"]))


def rights_in(rules: Iterable[Rule]) -> Iterator[tuple[str, str, str]]:
    for rule in rules:
        yield from product(rule["apiGroups"], rule["resources"], rule["verbs"])


@pytest.mark.parametrize("role", ["node", "cluster"])
def test_the_authorizer_allows_what_the_chart_says_and_nothing_more(namespace: str, role: str) -> None:
    anybody = rights_of(f"system:serviceaccount:{namespace}:default")
    with allowed(role, namespace):
        expected = set(rights_in(rules_of(role, namespace)))
        user = f"system:serviceaccount:{namespace}:{namespace}-{role}"
        until(lambda: rights_of(user) - anybody == expected, 20, lambda: f"{rights_of(user) - anybody}")


@pytest.fixture(scope="module")
def waiting(node: Node, namespace: str) -> Iterator[None]:
    """A quota, and a pod that a warning tells of."""
    document = Template(WAITING.read_text()).substitute(image=node.image)
    kubectl("apply", "-n", namespace, "-f", "-", stdin=document)
    yield
    kubectl("delete", "-n", namespace, "-f", "-", stdin=document)


@pytest.mark.usefixtures("running", "waiting")
@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize("resource", WATCHED)
def test_cluster_role_without_a_right_loses_that_and_goes_on(
    namespace: str, tmp_path: Path, resource: str, verb: str
) -> None:
    with allowed("cluster", namespace, without(resource, verb)):
        kubeconfig = write_kubeconfig("cluster", namespace, tmp_path / "config")
        command = [sys.executable, "-m", "gpuledger", "cluster", "--web.listen-address=127.0.0.1:0"]
        with Daemon([*command, f"--kubeconfig={kubeconfig}"], tmp_path / "log") as exporter:
            url = f"http://{exporter.address(60)}/metrics"
            down = {resource}
            until(
                lambda: sources(url, 0) == down and len(sources(url, 1)) == len(WATCHED) - 1, 60, exporter.log
            )
            if verb == "list" and resource in LOST:
                assert [] == scrape(url).series(LOST[resource])
            assert 0 == exporter.stop()


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_node_role_without_the_pods_of_the_api_takes_names_from_log_folders(
    node: Node, gpus: NodeGpus, namespace: str, running: Running, tmp_path: Path, verb: str
) -> None:
    gpus.run(running.values())
    names = {(used.pod, used.name) for used in running.values()}
    with allowed("node", namespace, without("pods", verb)):
        kubeconfig = write_kubeconfig("node", namespace, tmp_path / "config")
        with exporting(node, gpus, tmp_path, f"--kubeconfig={kubeconfig}") as address:
            url = f"http://{address}/metrics"
            until(lambda: sources(url, 0) == {"kube"}, 60, lambda: f"{sources(url, 0)}")
            until(lambda: names <= users(url), 60, lambda: f"{users(url)} instead of {names}")


def test_node_role_without_jobs_calls_the_job_the_workload(
    node: Node, gpus: NodeGpus, namespace: str, running: Running, tmp_path: Path
) -> None:
    gpus.run(running.values())
    pod = running["nightly", "eval"].pod
    with allowed("node", namespace, without("jobs", "get")):
        kubeconfig = write_kubeconfig("node", namespace, tmp_path / "config")
        with exporting(node, gpus, tmp_path, f"--kubeconfig={kubeconfig}") as address:
            url = f"http://{address}/metrics"
            until(lambda: scrape(url).series("pod_info", pod=pod), 60, lambda: scrape(url).books)
            (info,) = scrape(url).series("pod_info", pod=pod)
            assert "true" == info.labels["workload_inferred"]
            assert set() == sources(url, 0)


def scrape(url: str) -> Exposition:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return Exposition(answer.read().decode())


def sources(url: str, value: float) -> set[str]:
    """The sources that are up, or down."""
    return {s.labels["source"] for s in scrape(url).series("source_up") if s.value == value}


def users(url: str) -> set[tuple[str, str]]:
    return {(s.labels["pod"], s.labels["container"]) for s in scrape(url).series("container_memory_used_bytes")}
