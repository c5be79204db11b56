"""A pod as it comes from the API, cut at once to what the cluster role keeps of it.

100,000 pods are some 800 MB of JSON: nothing of that outlives the page or the event in which it came.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from gpuledger.audit.advisories import Advisory
from gpuledger.audit.check import Check
from gpuledger.audit.checks.gpu_pending import gpu_pending
from gpuledger.audit.engine import Audit
from gpuledger.audit.finding import AuditedPod
from gpuledger.audit.posture import Posture
from gpuledger.audit.subject import AuditContext, asks_for_gpu
from gpuledger.core.inventory import Booking
from gpuledger.core.sharding import Shard
from gpuledger.metrics.objectcache import Lines, render_lines
from gpuledger.metrics.render_cluster import POD_SPECS, pod_rows
from gpuledger.parse.kubelist import ObjectParser
from gpuledger.parse.kubeobjects import parse_pod
from gpuledger.parse.manifests import PodManifest, ResourceClaim, parse_objects
from gpuledger.parse.podrequests import requests_of
from gpuledger.parse.waiting import WaitReason, parse_waiting

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Queued:
    """A pod that asks for a GPU and has no node, and why; `since` is Unix time."""

    namespace: str
    pod: str
    reason: WaitReason
    since: float | None


@dataclass(frozen=True, slots=True)
class AuditFailure:
    """A check failed on `object` (its kind and name): nothing is known of what it may break."""

    object: str
    error: str


@dataclass(frozen=True, slots=True)
class PodRecord:
    """What is kept of a pod.

    `lines` are its series where it asks for a GPU and is this shard's, `audited` what the audit says of it;
    `scanned` says that it is this shard's to audit, `queued` that it has no node. `posture` is set where pods
    configure how GPUs are reached, `waiting` for those to be audited again, because a check looks at how
    long they have waited.
    """

    uid: str
    booking: Booking | None
    lines: Lines | None = None
    audited: AuditedPod | AuditFailure | None = None
    scanned: bool = False
    posture: Posture | None = None
    waiting: PodManifest | None = None
    queued: Queued | None = None


@dataclass(slots=True)
class PodIntake:
    """Makes records of pods: books what they ask for, audits them, and writes their series."""

    checks: Sequence[Check]
    advisories: tuple[Advisory, ...]
    now: Callable[[], float]
    also: re.Pattern[str] | None = None
    shard: Shard = field(default_factory=Shard)
    failures: Counter[str] = field(default_factory=Counter)
    """Audits that failed, by the type of the error."""

    def parser(self) -> ObjectParser[msgspec.Raw, PodRecord]:
        """Reads pods into records."""
        return ObjectParser(msgspec.Raw, self._record)

    def audit(self, item: PodManifest | ResourceClaim) -> AuditedPod | AuditFailure | None:
        """What the audit says of a pod or claim now; None where that is nothing."""
        audit = Audit(self.checks, AuditContext(self.now(), self.also, self.advisories))
        try:
            return audit.take(item)
        except Exception as error:
            kind = type(error).__name__
            if not self.failures[kind]:
                log.exception("an audit failed")
            self.failures[kind] += 1
            meta = item.meta if isinstance(item, PodManifest) else item.metadata
            return AuditFailure(f"{item.kind} {meta.namespace}/{meta.name}", f"{kind}: {error}")

    def _record(self, raw: msgspec.Raw) -> PodRecord:
        (manifest,) = parse_objects(b"[%b]" % bytes(raw), "PodList")
        if not isinstance(manifest, PodManifest):
            raise ValueError(f"not a pod: {type(manifest).__name__}")  # noqa: TRY004 - to be counted as malformed
        spec, uid = manifest.spec, manifest.meta.uid
        requests = requests_of(spec, manifest.status, self.also)
        booking = Booking(spec.node_name, requests) if spec.node_name and not manifest.terminal else None
        posture = _posture(manifest)
        if not self.shard.owns(uid):
            return PodRecord(uid, booking, posture=posture)
        audited = self.audit(manifest)
        pod = parse_pod(raw) if asks_for_gpu(manifest, self.also) else None
        reason = parse_waiting(manifest, self.also) if pod is not None else None
        return PodRecord(
            uid,
            booking,
            lines=render_lines(POD_SPECS, pod_rows(pod, requests, reason)) if pod is not None else None,
            queued=Queued(pod.namespace, pod.name, reason, pod.created_at) if pod and reason else None,
            audited=audited,
            scanned=True,
            posture=posture,
            waiting=manifest if _waits(audited) and gpu_pending in self.checks else None,
        )


def _waits(audited: AuditedPod | AuditFailure | None) -> bool:
    return isinstance(audited, AuditedPod) and bool(audited.pending)


def _posture(manifest: PodManifest) -> Posture | None:
    posture = Posture()
    posture.observe(manifest)
    return posture if any(posture.evidence) else None
