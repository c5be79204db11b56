"""This machine as a node of the Kubernetes that KUBECONFIG names.

What the API does not tell comes from the environment: E2E_NODE (the node's name, where there are several),
E2E_KUBELET_ROOT (/var/lib/kubelet), E2E_DEVICE_PLUGINS (the folder device-plugins in it), E2E_STATIC_PODS
(/etc/kubernetes/manifests) and E2E_IMAGE (busybox:1, or another that has sh and sleep).
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESOURCES = ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb")
"""What stand-in device plugins offer here."""


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    """What kubectl prints; fails with its complaint."""
    command = ["kubectl", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def kubectl_get(*arguments: str) -> list[dict[str, Any]]:
    """The objects of a `kubectl get` of a list."""
    items: list[dict[str, Any]] = json.loads(kubectl("get", *arguments, "-o", "json"))["items"]
    return items


@dataclass(frozen=True, slots=True)
class Node:
    """A node and where its kubelet keeps things; `image` is what the test's pods run."""

    name: str
    podresources: Path
    device_plugins: Path
    static_pods: Path
    image: str


def find_node() -> Node:
    """The node that this machine is; fails where that can't be told, and where it offers real GPUs."""
    nodes = {node["metadata"]["name"]: node for node in kubectl_get("nodes")}
    name = os.environ.get("E2E_NODE") or (next(iter(nodes)) if len(nodes) == 1 else "")
    assert name in nodes, f"set E2E_NODE to the name that this machine has among {list(nodes)}"
    offered = nodes[name]["status"]["allocatable"]
    assert not any(int(offered.get(resource, 0)) for resource in RESOURCES), f"{name} has GPUs: {offered}"
    root = Path(os.environ.get("E2E_KUBELET_ROOT", "/var/lib/kubelet"))
    node = Node(
        name,
        podresources=root / "pod-resources" / "kubelet.sock",
        device_plugins=Path(os.environ.get("E2E_DEVICE_PLUGINS", root / "device-plugins")),
        static_pods=Path(os.environ.get("E2E_STATIC_PODS", "/etc/kubernetes/manifests")),
        image=os.environ.get("E2E_IMAGE", "busybox:1"),
    )
    for path in (node.podresources, node.device_plugins, node.static_pods):
        assert path.exists(), f"{path} is not here: set E2E_KUBELET_ROOT, E2E_DEVICE_PLUGINS, E2E_STATIC_PODS"
    return node


def cronjob_api() -> str:
    """The version of CronJob that this server has: batch/v1 since Kubernetes 1.21."""
    resources = json.loads(kubectl("get", "--raw", "/apis/batch/v1"))["resources"]
    return "batch/v1" if "cronjobs" in {resource["name"] for resource in resources} else "batch/v1beta1"
