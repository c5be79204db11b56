"""What a user asks Prometheus about a cluster: what is free, who waits, who breaks rules."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from fakes.apiserver import ApiServer
from fakes.clusterview import GPU, node, pod, quota
from tools.daemon import Daemon
from tools.prometheus import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fakes.apistore import Object

pytestmark = pytest.mark.e2e

SHARDS, KINDS = 2, 8
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"}
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "4"}
SNEAKY = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
WAITS = {
    "conditions": [
        {"type": "PodScheduled", "status": "False", "message": "0/3 nodes: 3 Insufficient nvidia.com/gpu."}
    ]
}


@dataclass(frozen=True)
class Cluster:
    """A cluster's API, and a Prometheus that scrapes both shards of its exporter."""

    api: ApiServer
    prometheus: Prometheus
    doomed: Object

    def values(self, query: str, *labels: str) -> dict[tuple[str, ...], float]:
        samples = self.prometheus.query(query)
        return {tuple(sample.labels.get(label, "") for label in labels): sample.value for sample in samples}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with ApiServer() as api:
        for each in (node("h1", 8, labels=H100), node("h2", 8, labels=H100, unschedulable=True)):
            api.add(each)
        api.add(node("a1", 4, labels=A100))
        api.add(pod("train-0", 6, "h1"))
        api.add(pod("train-1", 6, "h2"))
        api.add(pod("eval", 1, "a1", namespace="research"))
        api.add(pod("too-big", 16, status=WAITS))
        api.add(pod("sneaky", 0, "a1", namespace="research", container=SNEAKY))
        api.add(quota("gpus", hard=24, used=18))
        doomed = api.add(pod("doomed", 1, "h1"))
        kubeconfig = api.kubeconfig(folder / "kubeconfig")
        with exporting(folder, kubeconfig, 0) as one, exporting(folder, kubeconfig, 1) as two:
            targets = {"shard0": one, "shard1": two}
            with Prometheus(folder, targets, interval="500ms") as prometheus:
                prometheus.wait_for(f"count(gpuledger_source_up == 1) == {KINDS * SHARDS}")
                yield Cluster(api, prometheus, doomed)


@contextmanager
def exporting(folder: Path, kubeconfig: Path, shard: int) -> Iterator[str]:
    """The address of one shard's exporter."""
    command = [
        *(sys.executable, "-m", "gpuledger", "cluster", "--web.listen-address=127.0.0.1:0"),
        *(f"--kubeconfig={kubeconfig}", f"--shard=gpuledger-{shard}/{SHARDS}"),
    ]
    with Daemon(command, folder / f"shard{shard}.log") as exporter:
        yield exporter.address()


def test_free_gpus_by_model_and_node(cluster: Cluster) -> None:
    free = (
        f'gpuledger_node_resource_free{{resource="{GPU}"}} * on (node) group_left (product) gpuledger_node_info'
    )
    expected = {
        ("NVIDIA-H100-80GB-HBM3", "h1"): 1,
        ("NVIDIA-H100-80GB-HBM3", "h2"): 2,
        ("NVIDIA-A100-SXM4-40GB", "a1"): 3,
    }
    assert expected == cluster.values(free, "product", "node")
    placeable = f'max by (node) (gpuledger_node_resource_placeable{{resource="{GPU}"}})'
    assert {("h1",): 1, ("h2",): 0, ("a1",): 3} == cluster.values(placeable, "node")


def test_who_waits_and_why(cluster: Cluster) -> None:
    waits = "time() - gpuledger_pod_pending_since_timestamp_seconds > 0"
    assert {("too-big", "insufficient-gpu")} == set(cluster.values(waits, "pod", "reason"))
    waiting = "gpuledger_pod_pending_since_timestamp_seconds"
    asked = f'gpuledger_pod_requested{{resource="{GPU}"}} and on (namespace, pod) {waiting}'
    assert {("too-big",): 16} == cluster.values(asked, "pod")


def test_what_quotas_leave(cluster: Cluster) -> None:
    left = "min by (namespace, resource) (gpuledger_quota_hard - gpuledger_quota_used)"
    assert {("ml", f"requests.{GPU}"): 6} == cluster.values(left, "namespace", "resource")


def test_findings_by_namespace_and_severity(cluster: Cluster) -> None:
    found = "sum by (namespace, severity) (gpuledger_audit_workload_pods_affected)"
    assert {("research", "high"): 1} == cluster.values(found, "namespace", "severity")
    assert {("sneaky", "gpu-env-bypass")} == set(cluster.values("gpuledger_audit_finding", "pod", "check"))
    stale = "time() - min(gpuledger_audit_last_success_timestamp_seconds)"
    assert 0 <= (cluster.prometheus.query_value(stale) or -1) < 60


def test_a_deleted_pod_is_gone_from_the_next_scrape(cluster: Cluster) -> None:
    cluster.api.delete(cluster.doomed)
    gone = '{pod="doomed",__name__=~"gpuledger_.*"}'
    cluster.prometheus.wait_for(gone, lambda samples: not samples, timeout=3)
    free = f'gpuledger_node_resource_free{{node="h1",resource="{GPU}"}}'
    cluster.prometheus.wait_for(f"{free} == 2")


def test_prometheus_has_nothing_to_complain_of(cluster: Cluster) -> None:
    assert {("up", "")} == {(target.health, target.error) for target in cluster.prometheus.targets()}
    assert not cluster.prometheus.complaints()
