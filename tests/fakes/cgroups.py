"""Real cgroups with the names that real container runtimes give them, on the hierarchies that this kernel has.

Names follow kubelet's cgroup manager (systemd and cgroupfs drivers), containerd, CRI-O, Docker and systemd.
They start at the root, as on a node, except for the cgroupfs driver: that stands below `/kubelet`, as kind sets
it (`--cgroup-root`), since a kubelet on this machine would take unknown pods in `/kubepods` for orphans. Needs
root.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

V1_HIERARCHIES = ("name=systemd", "pids", "memory")
"""Those that every runtime uses on cgroup v1; a process lists the others too, at their root."""


def new_container_id() -> str:
    """Return 64 fresh hex digits."""
    return secrets.token_hex(32)


def containerd_systemd(pod_uid: str, container_id: str, qos: str = "burstable") -> str:
    """Return the path of a container under containerd with the systemd cgroup driver."""
    return f"{_pod_slice(pod_uid, qos)}/cri-containerd-{container_id}.scope"


def crio_systemd(pod_uid: str, container_id: str, qos: str = "burstable") -> str:
    """Return the path of a container under CRI-O with crun, which puts processes one level deeper."""
    return f"{_pod_slice(pod_uid, qos)}/crio-{container_id}.scope/container"


def containerd_cgroupfs(pod_uid: str, container_id: str, qos: str = "burstable") -> str:
    """Return the path of a container under containerd with the cgroupfs driver, in a kubelet like kind's."""
    return f"{_pod_folder(pod_uid, qos)}/{container_id}"


def crio_cgroupfs(pod_uid: str, container_id: str, qos: str = "burstable") -> str:
    """Return the path of a container under CRI-O with the cgroupfs driver."""
    return f"{_pod_folder(pod_uid, qos)}/crio-{container_id}"


def docker_cgroupfs(container_id: str) -> str:
    """Return the path of a plain Docker container."""
    return f"/docker/{container_id}"


def systemd_service(name: str) -> str:
    """Return the path of a host's service, such as `ollama` for `ollama.service`."""
    return f"/system.slice/{name}.service"


def _pod_slice(pod_uid: str, qos: str) -> str:
    """Systemd nests slices by their dashes, so kubelet turns those of the UID into underscores."""
    pod = f"pod{pod_uid.replace('-', '_')}.slice"
    if qos == "guaranteed":
        return f"/kubepods.slice/kubepods-{pod}"
    return f"/kubepods.slice/kubepods-{qos}.slice/kubepods-{qos}-{pod}"


def _pod_folder(pod_uid: str, qos: str) -> str:
    return f"/kubelet/kubepods/pod{pod_uid}" if qos == "guaranteed" else f"/kubelet/kubepods/{qos}/pod{pod_uid}"


class Cgroups:
    """Makes cgroups and moves processes into them; as a context manager it removes those that it made."""

    def __init__(self) -> None:
        self._mounts = list(read_mounts())
        assert self._mounts, "no cgroup hierarchy is mounted"
        self._made: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for folder in reversed(self._made):
            _remove(folder)

    def put(self, pid: int, path: str) -> None:
        """Move a process into the cgroup `path` of every hierarchy, made where it isn't there yet."""
        for mount in self._mounts:
            folder = mount / path.lstrip("/")
            missing = [p for p in (folder, *folder.parents) if not p.exists()]
            for part in reversed(missing):
                part.mkdir()
                self._made.append(part)
            (folder / "cgroup.procs").write_text(str(pid))


def read_mounts() -> Iterator[Path]:
    """Yield where this machine mounts cgroup v2 and those of V1_HIERARCHIES that it has (/proc/mounts)."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup2" or (kind == "cgroup" and set(options.split(",")) & set(V1_HIERARCHIES)):
            yield Path(where)


def _remove(folder: Path) -> None:
    """Remove a cgroup, unless somebody else has come to use it.

    The kernel says EBUSY for a moment after the last process was reaped.
    """
    for _ in range(100):
        try:
            folder.rmdir()
        except OSError:
            if (folder / "cgroup.procs").read_text() or any(path.is_dir() for path in folder.iterdir()):
                return
            time.sleep(0.02)
        else:
            return
    raise AssertionError(f"{folder} is empty and can't be removed")
