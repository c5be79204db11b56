"""A real cluster whose kubelet hands out GPUs that NVML's stand-in shows, and the exporter on its node."""

from __future__ import annotations

import contextlib
import subprocess
import uuid
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import pytest

from cluster.containers import Running, read_running
from cluster.exporter import exporting
from cluster.gpus import NodeGpus
from cluster.node import Node, cronjob_api, find_node, kubectl, kubectl_get, read_allocatable
from cluster.rights import allowed, write_kubeconfig
from fakes.device_plugin import DevicePlugin
from tools.daemon import until
from tools.prometheus import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent

APPS = (
    "llm",
    "notebook",
    "finetune",
    "nightly",
    "agent",
    "gpu-monitor",
    "debug-shell",
    "sneaky",
    "host-tools",
)
"""The pods that go on running, by their label `app`."""


@pytest.fixture(scope="session")
def node() -> Node:
    return find_node()


@pytest.fixture(scope="session")
def gpus(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeGpus]:
    """The node's GPUs, offered to its kubelet."""
    gpus = NodeGpus(tmp_path_factory.mktemp("nvml") / "scenario")
    until(
        lambda: not _taken(gpus, node), 60, lambda: f"{node.name} has GPUs, whose place a stand-in would take"
    )
    with contextlib.ExitStack() as stack:
        until(lambda: _offered(gpus, node, stack), 120, lambda: "the kubelet does not offer the GPUs")
        yield gpus


def _taken(gpus: NodeGpus, node: Node) -> bool:
    """Whether the node has GPUs on offer; one that was started again shows for a while what it had before."""
    allocatable = read_allocatable(node.name)
    return any(allocatable.get(resource, "0") != "0" for resource in gpus.offers)


def _offered(gpus: NodeGpus, node: Node, stack: contextlib.ExitStack) -> bool:
    """Whether the node has all GPUs on offer; a kubelet that starts just now forgets who has registered."""
    stack.close()
    for resource, ids in gpus.offers.items():
        stack.enter_context(DevicePlugin(resource, ids))
    expected = {resource: str(len(ids)) for resource, ids in gpus.offers.items()}
    with contextlib.suppress(AssertionError):
        return until(lambda: expected.items() <= read_allocatable(node.name).items(), 15, str)
    return False


@pytest.fixture(scope="session")
def namespace(node: Node) -> Iterator[str]:
    """A namespace of its own, with a static pod in it; all that is in it goes at the end."""
    name = f"gpuledger-e2e-{uuid.uuid4().hex[:6]}"
    static_pod = node.static_pods / f"{name}.yaml"
    kubectl("create", "namespace", name)
    try:
        until(lambda: kubectl_get("serviceaccounts", "-n", name), 30, lambda: "no service account")
        static_pod.write_text(_fill("static-pod.yaml", namespace=name, image=node.image))
        yield name
    finally:
        static_pod.unlink(missing_ok=True)
        kubectl("delete", "namespace", name, "--timeout=100s")


@pytest.fixture(scope="session")
def running(node: Node, gpus: NodeGpus, namespace: str) -> Running:
    """Every container of workloads.yaml that goes on running, once all pods are where they shall be."""
    manifest = _fill("workloads.yaml", node=node.name, image=node.image, cronjob_api=cronjob_api())
    kubectl("apply", "-n", namespace, "-f", "-", stdin=manifest)

    def settled() -> bool:
        pods = kubectl_get("pods", "-n", namespace)
        phases = {pod["metadata"]["labels"]["app"]: pod["status"]["phase"] for pod in pods}
        return phases == {"done": "Succeeded", **dict.fromkeys(APPS, "Running")}

    until(settled, 150, lambda: kubectl("describe", "pods", "-n", namespace))
    running = read_running(namespace)
    gpus.run(running.values())
    return running


@pytest.fixture(scope="session")
def host_pid() -> Iterator[int]:
    """A process that no container holds."""
    with subprocess.Popen(["sleep", "3600"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture(scope="session")
def kubeconfig(namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Access to the API with the rights that the chart gives to the node role, and no others."""
    with allowed("node", namespace):
        yield write_kubeconfig("node", namespace, tmp_path_factory.mktemp("kube") / "config")


@pytest.fixture(scope="session")
def prometheus(
    node: Node,
    gpus: NodeGpus,
    running: Running,
    host_pid: int,
    kubeconfig: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the exporter, with all that runs on a GPU, once it has seen whose that is."""
    gpus.run(running.values(), [host_pid])
    folder = tmp_path_factory.mktemp("exporter")
    with (
        exporting(node, gpus, folder, f"--kubeconfig={kubeconfig}") as address,
        Prometheus(folder, {"gpuledger": address}) as prometheus,
    ):
        rows = sum(len(gpus.devices_of(container)) for container in running.values())
        owned = 'gpuledger_container_memory_used_bytes{workload!=""}'
        prometheus.wait_for(owned, lambda samples: len(samples) == rows)
        yield prometheus


def _fill(template: str, **values: str) -> str:
    return Template((HERE / template).read_text()).substitute(values)
