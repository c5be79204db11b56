"""What the cluster role tells is what kubectl and the server say, with the rights of its role alone."""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import pytest

from cluster.node import kubectl, kubectl_get
from cluster.rights import allowed, write_kubeconfig
from gpuledger.parse.quantity import parse_quantity
from tools.daemon import Daemon, until
from tools.exposition import Exposition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cluster.containers import Running
    from cluster.node import Node

pytestmark = pytest.mark.cluster

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def kubeconfig(namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Access to the API with the rights that the chart gives to the cluster role, and no others."""
    with allowed("cluster", namespace):
        yield write_kubeconfig("cluster", namespace, tmp_path_factory.mktemp("kube") / "config")


@pytest.fixture(scope="module")
def scrape(
    node: Node, running: Running, namespace: str, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Exposition]]:
    """Scrapes the cluster role, which follows the cluster with all of workloads.yaml and waiting.yaml in it."""
    assert running
    kubectl("apply", "-n", namespace, "-f", "-", stdin=_fill("waiting.yaml", image=node.image))
    command = [
        *(sys.executable, "-m", "gpuledger", "cluster", "--web.listen-address=127.0.0.1:0"),
        f"--kubeconfig={kubeconfig}",
    ]
    with Daemon(command, tmp_path_factory.mktemp("cluster") / "exporter.log") as exporter:
        url = f"http://{exporter.address()}/metrics"

        def scrape() -> Exposition:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return Exposition(answer.read().decode())

        until(lambda: scrape().series("pod_pending_since_timestamp_seconds"), 30, exporter.log)
        yield scrape
    kubectl("delete", "-n", namespace, "-f", "-", stdin=_fill("waiting.yaml", image=node.image))


def test_requested_and_free_are_what_kubectl_describes(node: Node, scrape: Callable[[], Exposition]) -> None:
    def agree() -> bool:
        """Pods of the cluster come and go between the two looks."""
        return _described(node.name) == _shown(scrape(), node.name)

    until(agree, 20, lambda: f"{_described(node.name)} is not {_shown(scrape(), node.name)}")
    assert "nvidia.com/gpu" in _described(node.name)


def test_quotas_are_the_servers_own(namespace: str, scrape: Callable[[], Exposition]) -> None:
    resource = "requests.nvidia.com/gpu"

    def server() -> list[float]:
        (quota,) = kubectl_get("resourcequotas", "-n", namespace)
        return [float(quota["status"][which][resource]) for which in ("hard", "used")]

    def shown() -> list[float | None]:
        labels = {"namespace": namespace, "quota": "gpus", "resource": resource}
        return [scrape().value(f"quota_{which}", **labels) for which in ("hard", "used")]

    until(lambda: server() == shown(), 20, lambda: f"{server()} is not {shown()}")
    assert server()[1] > 64  # pending pods count too


def test_a_pod_that_fits_nowhere_waits_with_its_reason(
    namespace: str, scrape: Callable[[], Exposition]
) -> None:
    def waits() -> set[tuple[str, str]]:
        samples = scrape().series("pod_pending_since_timestamp_seconds", namespace=namespace)
        return {(sample.labels["pod"], sample.labels["reason"]) for sample in samples}

    until(lambda: waits() == {("too-big", "insufficient-gpu")}, 30, lambda: f"{waits()}")
    failed = {"namespace": namespace, "pod": "too-big", "reason": "FailedScheduling"}
    until(lambda: scrape().value("pod_warning_events", **failed), 20, lambda: "no warning")


def test_who_reaches_a_gpu_past_the_scheduler_is_found(
    namespace: str, scrape: Callable[[], Exposition]
) -> None:
    samples = scrape().series("audit_finding", namespace=namespace, check="gpu-env-bypass")
    assert {"sneaky"} <= {sample.labels["pod"] for sample in samples}


def test_the_role_is_enough(scrape: Callable[[], Exposition]) -> None:
    sources = {sample.labels["source"]: sample.value for sample in scrape().series("source_up")}
    assert {"pods", "nodes", "resourcequotas", "namespaces", "events"} <= sources.keys()
    assert {1.0} == set(sources.values())


def _described(node: str) -> Mapping[str, tuple[float, float]]:
    """Requested and free per resource, by the table of `kubectl describe node`."""
    (document,) = [each for each in kubectl_get("nodes") if each["metadata"]["name"] == node]
    allocatable = document["status"]["allocatable"]
    table = kubectl("describe", "node", node).partition("Allocated resources:")[2].partition("Events:")[0]
    rows = [line.split() for line in table.splitlines() if line.startswith("  ")]
    requests = {row[0]: float(parse_quantity(row[1])) for row in rows if row[0] in allocatable}
    return {
        name: (requested, float(parse_quantity(allocatable[name])) - requested)
        for name, requested in requests.items()
        if name in ("cpu", "memory") or name.startswith("nvidia.com/")
    }


def _shown(scrape: Exposition, node: str) -> Mapping[str, tuple[float, float]]:
    """Requested and free per resource, by the page."""
    requested = {s.labels["resource"]: s.value for s in scrape.series("node_resource_requested", node=node)}
    free = {s.labels["resource"]: s.value for s in scrape.series("node_resource_free", node=node)}
    return {name: (requested[name], free[name]) for name in free if name != "pods"}


def _fill(template: str, **values: str) -> str:
    return Template((HERE / template).read_text()).substitute(values)
