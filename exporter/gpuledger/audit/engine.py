"""Runs the checks over one object after the other, and collects what they tell of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from gpuledger.audit.annotations import annotated_reason
from gpuledger.audit.check import Check, Hit
from gpuledger.audit.claims import claims_of, has_claims
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.audit.infrastructure import infrastructure_role
from gpuledger.audit.reach import TENTATIVE_WAYS, ways_to_gpu
from gpuledger.audit.stack import component_of
from gpuledger.audit.subject import (
    AuditContext,
    Part,
    PodSubject,
    extended_resources,
    fractions_of,
    subject_of,
    waiting_for,
)
from gpuledger.core.model import NOTHING
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.parse.manifests import (
    KubeObject,
    PodManifest,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceQuota,
)
from gpuledger.parse.workload import workload_of


@dataclass(slots=True)
class Audit:
    """An audit of GPU pods by `checks`: of those that ask for a GPU or reach one, or with `every_pod` of all.

    Pods that may reach one, and most likely don't, are looked at by the checks of GPUs alone. Without
    `annotations`, no manifest excuses itself.

    `namespace` narrows what is audited, not what is counted on nodes. Without `reach`, pods that don't ask are
    left out.
    """

    checks: Sequence[Check]
    context: AuditContext
    namespace: str = ""
    every_pod: bool = False
    annotations: bool = True
    reach: bool = True
    facts: ClusterFacts = field(default_factory=ClusterFacts)
    undecided: list[PodManifest] | None = None
    """Takes the pods that ask for devices of which a DeviceClass may yet tell that they are GPUs."""
    _seen: set[int] = field(default_factory=set)

    def take(self, item: KubeObject) -> AuditedPod | None:
        """Audit an object; None where there is nothing to audit, or it was audited before."""
        if isinstance(item, PodManifest):
            return self._ended_pod(item) if item.terminal else self._pod(item)
        if not (isinstance(item, ResourceQuota) and self._is_elsewhere(item.metadata.namespace or "default")):
            self.facts.observe(item)
        if isinstance(item, ResourceClaim | ResourceClaimTemplate):
            return self._claim(item)
        return None

    def decide(self) -> None:
        """All DeviceClasses are known: from now on a pod is a GPU pod or none."""
        self.undecided = None
        self.context = replace(self.context, also=self.facts.classes.gpu_resources())

    def _pod(self, manifest: PodManifest) -> AuditedPod | None:
        extended = extended_resources(manifest)
        asks = _has_gpu(extended, self.context.also) or bool(fractions_of(manifest))
        if self.undecided is not None and extended and not asks:
            self.undecided.append(manifest)
            return None
        reach = ways_to_gpu(manifest) if self.reach else ()
        claims = has_claims(manifest)
        stack = _is_gpu_stack(manifest)
        if stack:
            self.facts.posture.observe(manifest)
        surely = asks or self.every_pod or (self.reach and stack)
        chosen = surely or reach or claims
        if not chosen or self._is_repeated(manifest.meta.uid, manifest.path):
            return None
        maybe = not surely and TENTATIVE_WAYS.issuperset(reach)
        pod = subject_of(manifest, self.context)
        # A controller that a cluster runs holds nothing itself: its pods do.
        holds = manifest.kind == "Pod" or not manifest.meta.uid
        asked = pod.gpu_requests if asks else NOTHING
        gpus = asked if holds else NOTHING
        if manifest.spec.node_name:
            self.facts.inventory.add_requests(manifest.spec.node_name, gpus)
        if self._is_elsewhere(manifest.namespace):
            return None
        hits = self._hits(pod, of_gpus=maybe and not claims)
        if len(hits) > 1:
            order = {container.path: index for index, container in enumerate(pod.containers)}
            hits.sort(key=lambda entry: order.get(_element(entry[1].path), len(order)))
        return _audited(
            manifest,
            hits,
            reach,
            self.excuses(manifest),
            gpus=dict(gpus),
            unknown_gpus=pod.unknown_gpus if asks and holds else (),
            template={} if holds else dict(asked),
            by_claims=maybe and claims,
            tentative=maybe and not claims,
        )

    def _ended_pod(self, manifest: PodManifest) -> AuditedPod | None:
        """A pod that has ended holds nothing; what is left to say is why it failed."""
        if manifest.status.phase != "Failed" or self._is_elsewhere(manifest.namespace):
            return None
        pod = subject_of(manifest, self.context)
        hits = self._hits(pod, failed=True)
        if not hits or self._is_repeated(manifest.meta.uid, manifest.path):
            return None
        return _audited(manifest, hits, (), self.excuses(manifest))

    def _claim(self, claim: ResourceClaim | ResourceClaimTemplate) -> AuditedPod | None:
        meta = claim.metadata
        namespace = meta.namespace or "default"
        hits = [(check, hit) for check in self.checks for hit in check.claim_rule(claim)]
        if not hits or self._is_elsewhere(namespace) or self._is_repeated(meta.uid, ""):
            return None
        workload = workload_of(meta, claim.kind)
        return AuditedPod(
            namespace=namespace,
            name=meta.name,
            kind=claim.kind,
            workload_kind=workload.kind,
            workload=workload.name,
            uid=meta.uid,
            findings=_findings(
                hits, NOTHING if meta.uid or not self.annotations else meta.annotations or NOTHING, ""
            ),
        )

    def _hits(self, pod: PodSubject, *, failed: bool = False, of_gpus: bool = False) -> list[tuple[Check, Hit]]:
        checks = _chosen(tuple(self.checks), pod.parts, failed=failed, of_gpus=of_gpus)
        return [(check, hit) for check in checks for hit in check.pod_rule(pod)]

    def excuses(self, manifest: PodManifest) -> Mapping[str, str]:
        """The annotations that count: a tenant writes those of live objects, while files are reviewed."""
        if manifest.live or not self.annotations:
            return NOTHING
        return {**(manifest.meta.annotations or {}), **manifest.annotations}

    def _is_elsewhere(self, namespace: str) -> bool:
        return self.namespace not in ("", namespace)

    def _is_repeated(self, uid: str, path: str) -> bool:
        """Whether this very object was audited before: dumps overlap, files are named twice."""
        if not uid:
            return False
        key = hash((uid, path))
        repeated = key in self._seen
        self._seen.add(key)
        return repeated


Hits = Sequence[tuple[Check, Hit]]


@lru_cache(maxsize=512)
def _chosen(
    checks: tuple[Check, ...], parts: frozenset[Part], *, failed: bool, of_gpus: bool
) -> tuple[Check, ...]:
    """Those of the checks that are made on pods with such parts, failed or not, and perhaps of GPUs alone."""
    return tuple(
        check
        for check in checks
        if check.of_failed == failed
        and (check.of_gpus or not of_gpus)
        and (not check.of or not parts.isdisjoint(check.of))
    )


def _audited(
    manifest: PodManifest,
    hits: Hits,
    reach: tuple[str, ...],
    annotations: Mapping[str, str],
    **asked: Any,
) -> AuditedPod:
    """What is told of a pod; `asked` are the fields of what it asks for."""
    workload = workload_of(manifest.meta, manifest.kind)
    name = manifest.meta.name or f"{manifest.meta.generate_name}?"
    role = infrastructure_role(manifest.namespace, workload, manifest.spec) if hits else ""
    return AuditedPod(
        namespace=manifest.namespace,
        name=name,
        kind=manifest.kind,
        workload_kind=workload.kind,
        workload=workload.name or name,
        uid=manifest.meta.uid,
        node=manifest.spec.node_name,
        pending=waiting_for(manifest),
        fractions=fractions_of(manifest),
        claims=claims_of(manifest),
        reach=reach,
        findings=_findings(hits, annotations, role),
        **asked,
    )


def _findings(hits: Hits, annotations: Mapping[str, str], role: str) -> tuple[Finding, ...]:
    if not hits:
        return ()
    places = {(check.id, hit.path) for check, hit in hits}
    return tuple(
        Finding(
            check=check.id,
            severity=check.severity if hit.severity is None else hit.severity,
            path=hit.path,
            detail=hit.detail,
            container=hit.container,
            claims=hit.claims,
            exempt=(check.expected and role and f"expected of GPU infrastructure ({role})")
            or (annotations and annotated_reason(annotations, check.id, hit.container))
            or "",
        )
        for check, hit in hits
        if not (check.covered_by and any((other, hit.path) in places for other in check.covered_by))
    )


def _element(path: str) -> str:
    """The first list element of a field path: the container that a place belongs to, if it does to one."""
    head, bracket, _ = path.partition("]")
    return head + bracket


def _has_gpu(resources: Iterable[str], also: re.Pattern[str] | None) -> bool:
    return any(gpu_resource_kind(name, also) for name in resources)


def _is_gpu_stack(manifest: PodManifest) -> bool:
    for container in (*manifest.spec.containers, *manifest.spec.init_containers):
        if component_of(container.image):
            return True
    return False
