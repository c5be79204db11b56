"""The test's containers as the node itself shows them: in the API, and as processes in /proc."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from cluster.node import kubectl_get


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A container with the PIDs that its processes have on the host.

    `devices` is what the device plugin told it that it holds; empty where it asked for nothing.
    """

    pod: str
    name: str
    pids: tuple[int, ...]
    devices: tuple[str, ...]


Running: TypeAlias = dict[tuple[str, str], RunningContainer]
"""Running containers by their pod's label `app` and their own name."""


def read_running(namespace: str) -> Running:
    """What runs in the namespace now."""
    cgroups = read_cgroups()
    return {
        (pod["metadata"]["labels"]["app"], status["name"]): RunningContainer(
            pod["metadata"]["name"], status["name"], pids, _devices(pod, status["name"], pids[0])
        )
        for pod in kubectl_get("pods", "-n", namespace)
        for status in pod["status"].get("containerStatuses", ())
        if (pids := pids_of(status, cgroups))
    }


def pids_of(status: dict[str, Any], cgroups: dict[int, str]) -> tuple[int, ...]:
    """The PIDs on the host of the container that a pod's status tells of."""
    container_id = status.get("containerID", "").rpartition("/")[2]
    return tuple(sorted(pid for pid, cgroup in cgroups.items() if container_id and container_id in cgroup))


def _devices(pod: dict[str, Any], container: str, pid: int) -> tuple[str, ...]:
    requests = {c["name"]: c["resources"].get("limits") for c in pod["spec"]["containers"]}
    if not requests[container]:
        return ()
    variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
    told = next(v for v in variables if v.startswith("NVIDIA_VISIBLE_DEVICES="))
    return tuple(told.partition("=")[2].split(","))


def read_cgroups() -> dict[int, str]:
    """Every process of this machine, with its cgroups."""
    cgroups = {}
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            cgroups[int(path.parent.name)] = path.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since the folder was listed
    return cgroups
