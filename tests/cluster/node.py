"""This machine as a node of the Kubernetes that KUBECONFIG names.

What the API does not tell comes from the environment: E2E_NODE, this machine's name where there are several
nodes, and E2E_KUBELET_ROOT where the kubelet runs with another --root-dir than /var/lib/kubelet.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
    """A node: where its kubelet keeps things, and an image that is there."""

    name: str
    podresources: Path
    static_pods: Path
    image: str


def find_node() -> Node:
    """The node that this machine is, once its kubelet answers; fails where that can't be told."""
    nodes = {node["metadata"]["name"]: node["status"] for node in kubectl_get("nodes")}
    name = os.environ.get("E2E_NODE") or (next(iter(nodes)) if len(nodes) == 1 else "")
    assert name in nodes, f"set E2E_NODE to the name that this machine has among {list(nodes)}"
    root = Path(os.environ.get("E2E_KUBELET_ROOT", "/var/lib/kubelet"))
    podresources = root / "pod-resources" / "kubelet.sock"
    configuration = json.loads(_kubelet_answer(name, "configz"))
    assert podresources.exists(), f"no {podresources}: set E2E_KUBELET_ROOT to the kubelet's --root-dir"
    images = [image for images in nodes[name]["images"] for image in images["names"] or ()]
    return Node(
        name,
        podresources,
        static_pods=Path(configuration["kubeletconfig"]["staticPodPath"]),
        image=next((image for image in images if "busybox" in image), "busybox:1"),
    )


def _kubelet_answer(node: str, path: str) -> str:
    """What a kubelet says, asked for a minute: a cluster started again shows its node as Ready too soon."""
    end = time.monotonic() + 60.0
    while True:
        try:
            return kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/{path}")
        except AssertionError:
            if time.monotonic() > end:
                raise
        time.sleep(1.0)


def read_allocatable(node: str) -> dict[str, str]:
    """What the node offers to pods now, by resource."""
    status = json.loads(kubectl("get", "node", node, "-o", "json"))["status"]
    return dict(status["allocatable"])


def cronjob_api() -> str:
    """The version of CronJob that this server has: batch/v1 since Kubernetes 1.21."""
    resources = json.loads(kubectl("get", "--raw", "/apis/batch/v1"))["resources"]
    return "batch/v1" if "cronjobs" in {resource["name"] for resource in resources} else "batch/v1beta1"
