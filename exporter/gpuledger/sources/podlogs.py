"""The kubelet's log folders on disk: names of pods and containers without the API."""

from __future__ import annotations

import os
import time
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from gpuledger.core.errors import SourceError
from gpuledger.core.model import ContainerId, LoggedContainer, LoggedPod, PodLogs, PodUid
from gpuledger.parse.podlogs import is_container_name, parse_container_log_name, parse_pod_log_dir

if TYPE_CHECKING:
    from collections.abc import Callable

ENTRY_LIMIT = 20_000
"""Entries read of either folder: a node runs some hundred pods, so more is a fault or an attack."""

POD_ENTRY_LIMIT = 100
"""Entries read of one pod's folder, which has one for each container."""

RESCAN_SECONDS = 60.0
"""How long a listing is trusted while the folder's modification time stands still."""

_SETTLED_SECONDS = 0.05  # a second change within the kernel's tick (up to 10 ms) leaves that time as it is

T = TypeVar("T")


class PodLogsSource:
    """Names of the node's pods and containers; a folder is listed again only when it has changed."""

    def __init__(self, containers_dir: str, pods_dir: str) -> None:
        self._containers = _Folder(containers_dir, _read_link, ENTRY_LIMIT)
        self._pods = _Folder(pods_dir, _parse_pod, ENTRY_LIMIT)
        self._pod_folders: dict[str, _Folder[str]] = {}
        self._newest = PodLogs()

    def read(self) -> PodLogs:
        """Read what the folders name; the same object as before when nothing has changed.

        A folder that is missing or refused leaves its half empty, and both raise SourceError.
        """
        containers, pods = self._containers.read(), self._read_pods()
        if containers is None and pods is None:
            raise SourceError(
                f"neither {self._containers.path} nor {self._pods.path} can be read: mount the node's /var/log "
                "read-only, or set --path.container-logs and --path.pod-logs"
            )
        logs = PodLogs(dict(containers or ()), pods or {})
        if logs != self._newest:
            self._newest = logs
        return self._newest

    def _read_pods(self) -> dict[PodUid, LoggedPod] | None:
        pods = self._pods.read()
        if pods is None:
            return None
        known = self._pod_folders
        self._pod_folders = {
            path: known.get(path) or _Folder(path, _parse_container, POD_ENTRY_LIMIT) for path, _ in pods
        }
        return {
            uid: LoggedPod(namespace, pod, self._pod_folders[path].read() or ())
            for path, (uid, namespace, pod) in pods
        }


class _Folder(Generic[T]):
    """What can be read from a folder's entries, at most `limit`, in the order of their names."""

    def __init__(self, path: str, read_entry: Callable[[os.DirEntry[str]], T | None], limit: int) -> None:
        self.path = path
        self._read_entry = read_entry
        self._limit = limit
        self._items: tuple[T, ...] = ()
        self._modified_at = 0.0
        self._listed_at = 0.0

    def read(self) -> tuple[T, ...] | None:
        """List the folder if it may have changed since it was; None if it can't be read."""
        now = time.time()
        try:
            modified_at = os.stat(self.path).st_mtime  # noqa: PTH116 - once a cycle for each pod
            if (
                modified_at != self._modified_at
                or self._listed_at < modified_at + _SETTLED_SECONDS
                or abs(now - self._listed_at) > RESCAN_SECONDS
            ):
                self._items = self._list()
                self._modified_at, self._listed_at = modified_at, now
        except OSError:
            return None
        return self._items

    def _list(self) -> tuple[T, ...]:
        with os.scandir(self.path) as entries:
            ordered = sorted(islice(entries, self._limit), key=lambda entry: entry.name)
        return tuple(item for entry in ordered if (item := self._read_entry(entry)) is not None)


def _read_link(entry: os.DirEntry[str]) -> tuple[ContainerId, LoggedContainer] | None:
    try:
        target = os.readlink(entry.path)  # noqa: PTH115 - parsed, not followed
    except OSError:  # not a link, or gone since it was listed
        return None
    return parse_container_log_name(entry.name, target)


def _parse_pod(entry: os.DirEntry[str]) -> tuple[str, tuple[PodUid, str, str]] | None:
    pod = parse_pod_log_dir(entry.name)
    return pod and (entry.path, pod)


def _parse_container(entry: os.DirEntry[str]) -> str | None:
    return entry.name if is_container_name(entry.name) else None
