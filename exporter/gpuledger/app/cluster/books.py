"""The books of a cluster: what the API tells of each kind of object, and the series that it makes.

Watches write, each from its thread, and scrapes read. What is written once is kept as text until it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from threading import Lock

from gpuledger.app.cluster.auditbook import AuditBook, Key
from gpuledger.app.cluster.devicebook import DeviceBook, PoolStock
from gpuledger.app.cluster.mirror import Mirror
from gpuledger.app.cluster.podintake import PodIntake, PodRecord, Queued
from gpuledger.app.cluster.stockbook import StockBook
from gpuledger.app.cluster.warningbook import WARNINGS_KEPT, WarningBook
from gpuledger.audit.deviceclasses import DeviceClasses
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.inventory import InventoryBook, QuotaInventory
from gpuledger.audit.policy import Policy
from gpuledger.audit.posture import Posture
from gpuledger.audit.verdict import Judge
from gpuledger.core.inventory import NodeStock
from gpuledger.core.model import NOTHING
from gpuledger.metrics.objectcache import Column, ObjectCache
from gpuledger.metrics.render_cluster import POD_SPECS, QUOTA_SPECS, quota_rows
from gpuledger.parse.clusterobjects import PodWarning, Slice
from gpuledger.parse.manifests import DeviceClass, Namespace, Node, ResourceClaim, ResourceQuota


@dataclass(frozen=True, slots=True)
class _Known:
    """What the judgement of findings rests on, beside the findings themselves."""

    posture: Posture
    admin_namespaces: frozenset[str]
    policy: Policy
    expired: tuple[bool, ...]
    """Which of the policy's exceptions hold no longer."""
    drivers: frozenset[tuple[str, str]]
    """DRA drivers with the nodes on which they offer devices."""
    nodes: Mapping[str, Node]
    claims: Mapping[str, ResourceClaim]
    classes: Mapping[str, DeviceClass]

    def changed_nodes(self, before: _Known) -> set[str] | None:
        """The nodes of which something else is known than before; None where that is true of the cluster."""
        if self._of_cluster() != before._of_cluster():
            return None
        names = self.nodes.keys() | before.nodes.keys()
        return {name for name in names if self.nodes.get(name) is not before.nodes.get(name)}

    def changed_claims(self, before: _Known) -> bool:
        """Whether claims may mean something else than before."""
        return (self.claims, self.classes) != (before.claims, before.classes)

    def _of_cluster(self) -> _Known:
        return replace(self, nodes=NOTHING, claims=NOTHING, classes=NOTHING)


@dataclass(frozen=True, slots=True)
class Overview:
    """Nodes with GPUs, devices by claim, who waits, quotas, and how many pods of a workload break a rule."""

    stocks: tuple[tuple[Node, NodeStock], ...]
    pools: tuple[PoolStock, ...]
    queued: tuple[Queued, ...]
    quotas: tuple[QuotaInventory, ...]
    affected: Mapping[Key, int]


class ClusterBooks:
    """Sinks for the watches of a cluster's objects, and the columns of its page."""

    def __init__(self, intake: PodIntake, judge: Judge) -> None:
        self._intake = intake
        self._lock = Lock()
        self._stock = StockBook(intake.shard, intake.also)
        self._classes = DeviceClasses(intake.also)
        self._devices = DeviceBook(intake.shard, self._classes)
        self._warnings = WarningBook()
        self._audit = AuditBook(judge)
        self._known: _Known | None = None
        self._pod_series = ObjectCache(POD_SPECS)
        self._quota_series = ObjectCache(QUOTA_SPECS)
        self.pods_scanned = 0
        lock = self._lock
        self.pods = Mirror[PodRecord](lock, lambda pod: pod.uid, self._pod, self._stock.settle)
        self.nodes = Mirror(lock, _uid, self._stock.change, self._stock.settle)
        self.quotas = Mirror(lock, _uid, self._quota)
        self.namespaces: Mirror[Namespace] = Mirror(lock, _uid, lambda _uid, _old, _new: None)
        self.classes = Mirror[DeviceClass](lock, _uid, lambda _uid, _old, _new: None, self._learn_classes)
        self.claims = Mirror(lock, _uid, self._claim, self._devices.settle)
        self.slices = Mirror[Slice](
            lock, lambda each: each.uid, self._devices.change_slice, self._devices.settle
        )
        self.warnings = Mirror[PodWarning](
            lock, lambda each: each.uid, self._warnings.change, limit=WARNINGS_KEPT
        )

    def columns(self) -> list[Column]:
        """Every family as it is now."""
        with self._lock:
            return [
                *self._stock.columns(),
                *self._pod_series.columns(),
                *self._quota_series.columns(),
                *self._devices.columns(),
                *self._warnings.columns(),
                *self._audit.columns(),
            ]

    @property
    def audits_failed(self) -> int:
        """Pods and claims of which the last audit failed."""
        return self._audit.failed

    def overview(self) -> Overview:
        """What people want to see first."""
        with self._lock:
            return Overview(
                stocks=tuple(self._stock.stocks()),
                pools=tuple(self._devices.stocks()),
                queued=tuple(pod.queued for pod in self.pods.objects.values() if pod.queued is not None),
                quotas=tuple(self._amounts(self.quotas.objects.values())),
                affected=self._audit.affected(),
            )

    def refresh(self, policy: Policy, now: float) -> None:
        """Judge anew what another policy, the end of an exception or news of the cluster has made doubtful.

        Pods of which a check looks at the clock are audited again.
        """
        with self._lock:
            facts = self._facts()
            self._audit.judge = replace(self._audit.judge, facts=facts, policy=policy, now=now)
            known = self._what_is_known(facts, policy, now)
            before, self._known = self._known, known
            changed = known.changed_nodes(before) if before else None
            if changed is None:
                self._audit.rejudge(lambda _: True)
            elif changed or (before and known.changed_claims(before)):
                self._audit.rejudge(lambda pod: pod.node in changed or bool(pod.claims))
            waiting = [pod for pod in self.pods.objects.values() if pod.waiting is not None]
        for pod in waiting:
            self._audit_again(pod)

    def _what_is_known(self, facts: ClusterFacts, policy: Policy, now: float) -> _Known:
        return _Known(
            facts.posture,
            frozenset(facts.admin_namespaces),
            policy,
            expired=tuple(each.expired(now) for each in policy.exceptions),
            drivers=frozenset((each.part.driver, each.part.node) for each in self.slices.objects.values()),
            nodes=dict(self._stock.nodes),
            claims=dict(self.claims.objects),
            classes=dict(self.classes.objects),
        )

    def _audit_again(self, pod: PodRecord) -> None:
        audited = self._intake.audit(pod.waiting) if pod.waiting else None
        with self._lock:
            if self.pods.objects.get(pod.uid) is pod:
                self._audit.put(pod.uid, audited)

    def _facts(self) -> ClusterFacts:
        """What the whole cluster tells about its pods."""
        facts = ClusterFacts(self._intake.also)
        items: tuple[Node | Namespace | DeviceClass | ResourceClaim, ...] = (
            *self.nodes.objects.values(),
            *self.namespaces.objects.values(),
            *self.classes.objects.values(),
            *self.claims.objects.values(),
        )
        for item in items:
            facts.observe(item)
        for part in self.slices.objects.values():
            facts.inventory.add_driver(part.part.driver, part.part.node)
        for pod in self.pods.objects.values():
            if pod.posture is not None:
                facts.posture.add(pod.posture)
        return facts

    # ---- what the change of an object changes, under the lock ----

    def _pod(self, uid: str, old: PodRecord | None, new: PodRecord | None) -> None:
        self._stock.book(uid, new.booking if new else None)
        lines = new.lines if new else None
        if lines is None:
            self._pod_series.remove(uid)
        else:
            self._pod_series.put_lines(uid, lines)
        self._warnings.show(uid, shown=lines is not None)
        self._audit.put(uid, new.audited if new else None)
        self.pods_scanned += bool(new and new.scanned) - bool(old and old.scanned)

    def _quota(self, uid: str, _old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if new is None or not self._intake.shard.owns(uid):
            self._quota_series.remove(uid)
            return
        amounts = [
            (each.namespace, each.quota, each.resource, each.hard, each.used) for each in self._amounts([new])
        ]
        self._quota_series.put(uid, quota_rows(amounts))

    def _amounts(self, quotas: Iterable[ResourceQuota]) -> Iterator[QuotaInventory]:
        """What those quotas that are this shard's say of GPUs."""
        book = InventoryBook(self._classes)
        for quota in quotas:
            if self._intake.shard.owns(quota.metadata.uid):
                book.add_quota(quota)
        return book.quotas()

    def _learn_classes(self) -> None:
        """What classes mean decides what claims and quotas are for."""
        classes = DeviceClasses(self._intake.also)
        for each in self.classes.objects.values():
            classes.add(each)
        if classes == self._classes:
            return
        self._classes = classes
        self._devices.learn(classes)
        for uid, quota in self.quotas.objects.items():
            self._quota(uid, quota, quota)

    def _claim(self, uid: str, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self._devices.change_claim(uid, old, new)
        mine = new is not None and self._intake.shard.owns(uid)
        self._audit.put(uid, self._intake.audit(new) if new is not None and mine else None)


def _uid(item: Node | Namespace | ResourceQuota | DeviceClass | ResourceClaim) -> str:
    return item.metadata.uid
