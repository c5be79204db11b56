"""The chart on the cluster with the built image, and a Prometheus that finds its pods as any other does."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shlex
import subprocess
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from helm_python import Config

from cluster.containers import pids_of, read_cgroups
from cluster.node import kubectl, kubectl_get
from fakes.nvml.build import build_library
from tools.chart import CHART, render
from tools.daemon import until
from tools.image import NAME, archive
from tools.prometheus import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cluster.gpus import NodeGpus
    from cluster.node import Node

PORTS = {"node": 9440, "cluster": 9441}

RULES = {
    "enabled": True,
    "overrides": {"GpuProcessWithoutAllocation": {"for": "2s"}, "GpuAuditFindingHigh": {"for": "2s"}},
}
"""Not waiting as long as one would at night."""

SCRAPER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus, namespace: NAMESPACE}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: prometheus, namespace: NAMESPACE}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [list, watch]}
  - {apiGroups: [""], resources: [pods/proxy], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: prometheus, namespace: NAMESPACE}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: prometheus}
subjects: [{kind: ServiceAccount, name: prometheus, namespace: NAMESPACE}]
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """A release of the chart in a namespace of its own, by whose name it goes."""

    namespace: str
    config: Config

    def pods(self, role: str) -> list[dict[str, Any]]:
        """The pods of a role."""
        selector = f"app.kubernetes.io/instance={self.namespace},app.kubernetes.io/component={role}"
        return kubectl_get("pods", "-n", self.namespace, "-l", selector)

    def pid(self, role: str) -> int:
        """The first process of a role's one pod, as the host counts."""
        (pod,) = self.pods(role)
        (status,) = pod["status"]["containerStatuses"]
        return pids_of(status, read_cgroups())[0]

    def wait_for(self, role: str, names: set[str] | None = None) -> None:
        """Wait until the role's pods, those of these names where some are given, are there and ready."""

        def ready() -> bool:
            pods = self.pods(role)
            wanted = names is None or names == {pod["metadata"]["name"] for pod in pods}
            return bool(pods) and wanted and all(map(_is_ready, pods))

        until(ready, 120, lambda: kubectl("describe", "pods", "-n", self.namespace))


@contextlib.contextmanager
def installed(node: Node, gpus: NodeGpus) -> Iterator[Installation]:
    """Install both roles, with NVML's stand-in in place of a driver, and wait until they are ready."""
    load_image()
    namespace = f"gpuledger-{uuid.uuid4().hex[:6]}"
    config = Config(kubeconfig_path=os.environ["KUBECONFIG"], namespace=namespace)
    values = values_for(node, gpus)
    try:
        config.install(CHART, namespace, values, namespace=namespace, create_namespace=True)
        installation = Installation(namespace, config)
        for role in PORTS:
            installation.wait_for(role)
        yield installation
    finally:
        config.uninstall(namespace, ignore_not_found=True)
        kubectl("delete", "namespace", namespace, "--timeout=100s")
        config.close()


def load_image() -> None:
    """Give the built image to the cluster's nodes."""
    command = os.environ.get("E2E_IMAGE_IMPORT")
    assert command, "set E2E_IMAGE_IMPORT to what loads an image archive, such as `kind load image-archive`"
    subprocess.run([*shlex.split(command), str(archive())], check=True, capture_output=True, timeout=300)


def values_for(node: Node, gpus: NodeGpus) -> dict[str, Any]:
    """The chart's values: this node, the image that was loaded, and the stand-in instead of a driver."""
    folders = {"nvml": build_library().parent, "scenario": gpus.scenario_file.parent}
    repository, _, tag = NAME.rpartition(":")
    return {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
        "node": {
            "affinity": None,
            "nodeSelector": {"kubernetes.io/hostname": node.name},
            "podResourcesPath": str(node.podresources.parent),
            "extraEnv": [
                {"name": "LD_LIBRARY_PATH", "value": "/opt/nvml"},
                {"name": "NVML_STANDIN_SCENARIO", "value": f"/opt/scenario/{gpus.scenario_file.name}"},
            ],
            "extraVolumes": [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()],
            "extraVolumeMounts": [
                {"name": name, "mountPath": f"/opt/{name}", "readOnly": True} for name in folders
            ],
        },
    }


@contextlib.contextmanager
def scraping(installation: Installation, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus with the chart's rules, which finds the pods by the API and reaches them through it.

    It labels targets as the operator does for a PodMonitor.
    """
    objects = SCRAPER.replace("NAMESPACE", installation.namespace)
    kubectl("apply", "-f", "-", stdin=objects)
    (monitor, *_) = [
        each for each in render({"monitor": {"kind": "PodMonitor"}}) if each["kind"] == "PodMonitor"
    ]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    jobs = {role: _job(installation, role, folder, endpoint["honorLabels"]) for role in PORTS}
    with Prometheus(folder, dict.fromkeys(jobs, ""), rules=_rule_files(folder), scrape=jobs) as prometheus:
        yield prometheus


def _job(installation: Installation, role: str, folder: Path, honor_labels: bool) -> Mapping[str, Any]:  # noqa: FBT001 - a field of it
    server, authority = _api_server(folder)
    token = kubectl("create", "token", "prometheus", "-n", installation.namespace).strip()
    access = {"authorization": {"credentials": token}, "tls_config": {"ca_file": str(authority)}}
    names = {"namespace": installation.namespace}
    path = f"/api/v1/namespaces/{names['namespace']}/pods/$1:{PORTS[role]}/proxy/metrics"
    component = "__meta_kubernetes_pod_label_app_kubernetes_io_component"
    pod, container = "__meta_kubernetes_pod_name", "__meta_kubernetes_pod_container_name"
    return {
        "scheme": "https",
        "static_configs": [],
        "honor_labels": honor_labels,
        **access,
        "kubernetes_sd_configs": [
            {
                "role": "pod",
                "api_server": f"https://{server}",
                "namespaces": {"names": [*names.values()]},
                **access,
            }
        ],
        "relabel_configs": [
            {"source_labels": [component], "regex": role, "action": "keep"},
            {"source_labels": [pod], "target_label": "pod"},
            {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
            {"source_labels": [container], "target_label": "container"},
            {"source_labels": [pod], "regex": "(.+)", "target_label": "__metrics_path__", "replacement": path},
            {"target_label": "__address__", "replacement": server},
        ],
    }


def _api_server(folder: Path) -> tuple[str, Path]:
    """Host and port of the API server, and a file with its authority."""
    config = json.loads(kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
    cluster = config["clusters"][0]["cluster"]
    authority = folder / "authority.crt"
    authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    return cluster["server"].removeprefix("https://"), authority


def _rule_files(folder: Path) -> list[Path]:
    files = []
    for each in render({"prometheusRule": RULES}):
        if each["kind"] == "PrometheusRule":
            files.append(folder / f"{each['metadata']['name']}.yaml")
            files[-1].write_text(yaml.safe_dump(each["spec"]))
    return files


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
