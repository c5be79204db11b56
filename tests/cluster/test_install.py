"""The chart on a real cluster: its pods are as confined as it says, and Prometheus answers by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import bcrypt
import pytest

from cluster.containers import read_running
from cluster.gpus import memory_of
from cluster.installation import Installation, installed, scraping, values_for
from cluster.node import kubectl, kubectl_get
from tools.chart import CHART
from tools.confinement import assert_confined, pid_namespace
from tools.daemon import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.containers import Running
    from cluster.gpus import NodeGpus
    from cluster.node import Node
    from tools.prometheus import Prometheus

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

VISITOR = """
apiVersion: v1
kind: Pod
metadata: {name: visitor, labels: {app: visitor}}
spec:
  nodeSelector: {kubernetes.io/hostname: NODE}
  terminationGracePeriodSeconds: 0
  containers:
    - {name: main, image: "IMAGE", command: [sleep, "3600"], resources: {limits: {nvidia.com/gpu: 1}}}
"""


@pytest.fixture(scope="module")
def installation(node: Node, gpus: NodeGpus, running: Running) -> Iterator[Installation]:
    assert running
    with installed(node, gpus) as installation:
        yield installation


@pytest.fixture(scope="module")
def prometheus(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with scraping(installation, tmp_path_factory.mktemp("prometheus")) as prometheus:
        yield prometheus


def test_node_role_is_root_without_rights_among_the_hosts_processes(installation: Installation) -> None:
    pid = installation.pid("node")
    assert_confined(pid, user=0)
    assert pid_namespace("self") == pid_namespace(pid)


def test_cluster_role_is_nobody_and_sees_itself_alone(installation: Installation) -> None:
    pid = installation.pid("cluster")
    assert_confined(pid, user=65532)
    assert pid_namespace("self") != pid_namespace(pid)


def test_every_source_answers(prometheus: Prometheus) -> None:
    samples = prometheus.wait_for("gpuledger_source_up", lambda samples: len(samples) >= 8, 60)
    assert [] == [sample.labels["source"] for sample in samples if sample.value != 1]


def test_who_uses_what(prometheus: Prometheus, gpus: NodeGpus, running: Running, namespace: str) -> None:
    gpus.run(running.values())
    used = {
        (container.pod, container.name, (mig or gpu).uuid): sum(map(memory_of, container.pids))
        for container in running.values()
        for gpu, mig in gpus.devices_of(container)
    }

    def shown() -> dict[tuple[str, str, str], float]:
        samples = prometheus.query(f'gpuledger_container_memory_used_bytes{{namespace="{namespace}"}}')
        return {
            (s.labels["pod"], s.labels["container"], s.labels.get("mig_uuid") or s.labels["gpu_uuid"]): s.value
            for s in samples
        }

    until(lambda: shown() == used, 60, lambda: f"{shown()} is not {used}")


def test_workloads_come_and_go(
    prometheus: Prometheus, gpus: NodeGpus, running: Running, node: Node, namespace: str
) -> None:
    free = f'gpuledger_node_resource_free{{node="{node.name}",resource="nvidia.com/gpu"}}'
    before = prometheus.query_value(free)
    assert before is not None
    kubectl(
        "apply",
        "-n",
        namespace,
        "-f",
        "-",
        stdin=VISITOR.replace("NODE", node.name).replace("IMAGE", node.image),
    )
    kubectl("wait", "pod/visitor", "-n", namespace, "--for=condition=Ready", "--timeout=100s")
    gpus.run(read_running(namespace).values())
    use = f'gpuledger_container_memory_used_bytes{{namespace="{namespace}",pod="visitor"}}'
    prometheus.wait_for(use, timeout=60)
    prometheus.wait_for(f"{free} == {before - 1}", timeout=60)
    kubectl("delete", "pod", "visitor", "-n", namespace)
    gpus.run(running.values())
    prometheus.wait_for(use, lambda samples: samples == [], timeout=60)
    prometheus.wait_for(f"{free} == {before}", timeout=60)


def test_what_is_wrong_is_told_with_the_pod_that_does_it(prometheus: Prometheus, namespace: str) -> None:
    unasked = f'{{alertname="GpuProcessWithoutAllocation",alertstate="firing",namespace="{namespace}"}}'
    alerts = prometheus.wait_for(
        f"ALERTS{unasked}", lambda samples: "sneaky" in {s.labels["pod"] for s in samples}, 120
    )
    assert {"sneaky", "host-tools"} <= {sample.labels["pod"] for sample in alerts}
    assert {"notebook-0"}.isdisjoint({sample.labels["pod"] for sample in alerts})
    bypass = f'{{alertname="GpuAuditFindingHigh",namespace="{namespace}",check="gpu-env-bypass"}}'
    (finding,) = prometheus.wait_for(f"ALERTS{bypass}", timeout=120)
    assert ("Pod", "sneaky") == (finding.labels["workload_kind"], finding.labels["workload"])


def test_prometheus_has_no_complaint(prometheus: Prometheus) -> None:
    assert prometheus.complaints() == []


def test_an_upgrade_divides_the_cluster_role_and_locks_the_door(
    installation: Installation, node: Node, gpus: NodeGpus
) -> None:
    """After it, Prometheus has no password: nothing asks it any more."""
    password = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    changes = {"cluster": {"shards": 2}, "web": {"config": {"basic_auth_users": {"prometheus": password}}}}
    values = {**values_for(node, gpus), **changes}
    installation.config.upgrade(CHART, installation.namespace, values, namespace=installation.namespace)
    shards = {f"{installation.namespace}-cluster-{index}" for index in range(2)}
    installation.wait_for("cluster", shards)
    (budget,) = kubectl_get("poddisruptionbudgets", "-n", installation.namespace)
    assert 1 == budget["spec"]["maxUnavailable"]
    for shard in shards:
        proxy = f"/api/v1/namespaces/{installation.namespace}/pods/{shard}:9441/proxy"
        assert "ready" in kubectl("get", "--raw", f"{proxy}/readyz")
        with pytest.raises(AssertionError, match="provide credentials"):
            kubectl("get", "--raw", f"{proxy}/metrics")


def test_uninstalling_leaves_nothing(installation: Installation) -> None:
    installation.config.uninstall(installation.namespace)
    kinds = kubectl("api-resources", "--verbs=list", "-o", "name").split()
    selector = f"app.kubernetes.io/instance={installation.namespace}"

    def left() -> list[str]:
        names = kubectl("get", ",".join(kinds), "-A", "-l", selector, "-o", "name", "--ignore-not-found")
        return names.splitlines()

    until(lambda: left() == [], 60, lambda: f"left: {left()}")
    assert [] == kubectl_get("secrets", "-n", installation.namespace, "-l", "owner=helm")
