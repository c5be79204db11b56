"""Recent warnings about pods that ask for a GPU."""

from __future__ import annotations

from gpuledger.metrics.objectcache import Column, ObjectCache
from gpuledger.metrics.render_cluster import WARNING_SPECS, warning_rows
from gpuledger.parse.clusterobjects import PodWarning

WARNINGS_KEPT = 20_000
"""Of the whole cluster's; the API itself forgets them after an hour."""

REASONS_SHOWN = 8
"""Of one pod, the latest."""


class WarningBook:
    """Warnings by pod. They may come before the pod does, and outlive it in the API; neither shows."""

    def __init__(self) -> None:
        self._shown: set[str] = set()
        self._of_pods: dict[str, dict[str, PodWarning]] = {}
        self._series = ObjectCache(WARNING_SPECS)

    def change(self, uid: str, old: PodWarning | None, new: PodWarning | None) -> None:
        """A warning that is new, was repeated or has been forgotten."""
        if old is not None:
            warnings = self._of_pods[old.pod_uid]
            del warnings[uid]
            if not warnings:
                del self._of_pods[old.pod_uid]
        if new is not None:
            self._of_pods.setdefault(new.pod_uid, {})[uid] = new
        for pod in {each.pod_uid for each in (old, new) if each is not None}:
            self._write(pod)

    def show(self, pod: str, *, shown: bool) -> None:
        """Whether the warnings about a pod are of interest from now on."""
        if shown != (pod in self._shown):
            self._shown ^= {pod}
            self._write(pod)

    def columns(self) -> list[Column]:
        """The families of warnings."""
        return self._series.columns()

    def _write(self, pod: str) -> None:
        warnings = self._of_pods.get(pod) if pod in self._shown else None
        if not warnings:
            self._series.remove(pod)
            return
        count: dict[str, int] = {}
        last: dict[str, float] = {}
        for each in warnings.values():
            count[each.reason] = count.get(each.reason, 0) + each.count
            last[each.reason] = max(last.get(each.reason, 0.0), each.last or 0.0)
        latest = sorted(last, key=last.__getitem__, reverse=True)[:REASONS_SHOWN]
        any_one = next(iter(warnings.values()))
        rows = warning_rows(
            any_one.namespace, any_one.pod, [(name, count[name], last[name]) for name in latest]
        )
        self._series.put(pod, rows)
