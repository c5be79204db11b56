"""Findings kept per object: judged when the object changes, and again when what the judgement rests on does."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator

from gpuledger.app.cluster.podintake import AuditFailure
from gpuledger.audit.finding import AuditedPod
from gpuledger.audit.verdict import Judge, JudgedPod
from gpuledger.core.model import Workload
from gpuledger.core.spec import MetricSpec
from gpuledger.core.text import printable
from gpuledger.metrics import catalog
from gpuledger.metrics.exposition import Row
from gpuledger.metrics.objectcache import Column, ObjectCache
from gpuledger.metrics.render_cluster import finding_row, render_column

log = logging.getLogger(__name__)

_NAMED = 20
"""Of the objects that fail at a time; a bug may make it all of them."""

Key = tuple[str, str, str, str, str]
"""Namespace, workload kind, workload, check and severity."""


class AuditBook:
    """The findings of every audited object, and how many objects of each workload have them."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self._audited: dict[str, AuditedPod] = {}
        self._failed: set[str] = set()
        self._findings = ObjectCache((catalog.BY_NAME["audit_finding"],))
        self._affected = _Tally(catalog.BY_NAME["audit_workload_pods_affected"])
        self._exempted = _Tally(catalog.BY_NAME["audit_exempted"])

    @property
    def failed(self) -> int:
        """Objects of which the last audit failed."""
        return len(self._failed)

    def put(self, uid: str, audited: AuditedPod | AuditFailure | None) -> None:
        """Take what the audit said of an object for what it said before; None for one that is gone."""
        if isinstance(audited, AuditFailure):
            self._fail(uid, audited)
        else:
            self._failed.discard(uid)
        if isinstance(audited, AuditedPod) and audited.findings:
            self._audited[uid] = audited
            self._judge(uid, audited)
        elif self._audited.pop(uid, None) is not None:
            self._findings.remove(uid)
            self._affected.put(uid, frozenset())
            self._exempted.put(uid, frozenset())

    def rejudge(self, concerns: Callable[[AuditedPod], bool]) -> None:
        """Judge those objects anew, because the judge knows more."""
        for uid, audited in self._audited.items():
            if concerns(audited):
                self._judge(uid, audited)

    def affected(self) -> dict[Key, int]:
        """How many objects of each workload break each rule."""
        return dict(self._affected.counts)

    def columns(self) -> Iterator[Column]:
        """The families of findings."""
        yield from self._findings.columns()
        yield self._affected.column()
        yield self._exempted.column()

    def _fail(self, uid: str, failure: AuditFailure) -> None:
        if uid not in self._failed and len(self._failed) < _NAMED:
            log.warning("%s", printable(f"{failure.object} can't be audited: {failure.error}"))
        self._failed.add(uid)

    def _judge(self, uid: str, audited: AuditedPod) -> None:
        judged = self.judge.pod(audited)
        self._findings.put(uid, {"audit_finding": _rows(judged)})
        self._affected.put(uid, _keys(judged, exempt=False))
        self._exempted.put(uid, _keys(judged, exempt=True))


class _Tally:
    """How many objects there are for each key, where an object may have several."""

    def __init__(self, spec: MetricSpec) -> None:
        self._spec = spec
        self._keys: dict[str, frozenset[Key]] = {}
        self.counts: Counter[Key] = Counter()

    def put(self, uid: str, keys: frozenset[Key]) -> None:
        old = self._keys.pop(uid, frozenset())
        if keys:
            self._keys[uid] = keys
        self.counts.update(keys - old)
        for key in old - keys:
            self.counts[key] -= 1
            if not self.counts[key]:
                del self.counts[key]

    def column(self) -> Column:
        return render_column(self._spec, self.counts.items())


def _rows(judged: JudgedPod) -> list[Row]:
    """One series for each rule that a container breaks, in however many places."""
    pod = judged.pod
    broken = dict.fromkeys((each.container, each.check, str(each.severity)) for each in judged.reported)
    workload, name = Workload(pod.workload_kind, pod.workload), pod.name if pod.kind == "Pod" else ""
    return [finding_row(pod.namespace, name, workload, *each) for each in broken]


def _keys(judged: JudgedPod, *, exempt: bool) -> frozenset[Key]:
    pod = judged.pod
    findings = judged.exempt if exempt else judged.reported
    return frozenset(
        (pod.namespace, pod.workload_kind, pod.workload, each.check, str(each.severity)) for each in findings
    )
