"""The report that every format renders: judged pods that can be read again and again, and their totals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import msgspec

from gpuledger.audit.check import Check, Severity
from gpuledger.audit.claims import TEMPLATE
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.audit.verdict import Judge, JudgedPod
from gpuledger.core.resources import gpu_device_class_kind

CLAIM_KINDS = ("ResourceClaim", "ResourceClaimTemplate")

_CARDS = ("whole", "passthrough")
_ZERO = Decimal(0)


@dataclass(slots=True)
class Totals:
    """Totals over an audit. `gpus` holds amounts per resource or device class: unlike units are never summed.

    `cards` counts whole devices alone; `unresolved_claims` are claims that the dump does not explain.
    """

    pods: int = 0
    pods_with_findings: int = 0
    findings: Counter[Severity] = field(default_factory=Counter)
    exempt: int = 0
    known: int = 0
    cards: Decimal = _ZERO
    gpus: dict[str, Decimal] = field(default_factory=dict)
    unresolved_claims: int = 0
    unknown: int = 0
    """Pods of which the amount of a GPU resource can't be read."""


class Held(msgspec.Struct, frozen=True, gc=False):
    """What one pod asks for: cards, amounts per resource or device class, claims that nothing explains."""

    cards: Decimal
    gpus: Mapping[str, Decimal]
    unresolved_claims: int


@dataclass(slots=True)
class ReportLine:
    """A finding, the first pod that shows it, and how many other pods of its workload do."""

    pod: AuditedPod
    finding: Finding
    others: int = 0


@dataclass(slots=True)
class Report:
    """An audit's outcome. `audited` can be iterated again and again; `problems` is what could not be read."""

    audited: Iterable[AuditedPod]
    judge: Judge
    also: re.Pattern[str] | None = None
    problems: tuple[str, ...] = ()
    _totals: Totals | None = None

    @property
    def checks(self) -> Mapping[str, Check]:
        """The checks that were run, by id."""
        return self.judge.checks

    @property
    def facts(self) -> ClusterFacts:
        """What the whole cluster told."""
        return self.judge.facts

    def pods(self) -> Iterator[JudgedPod]:
        """The audited pods, and claims with findings, in the order in which they were read."""
        return self.judge.pods(self.audited)

    def inventory(self) -> Iterator[AuditedPod]:
        """The pods of `pods`, without the claims; once all were seen, the totals are known as well."""
        return (judged.pod for judged in self._counted() if judged.pod.kind not in CLAIM_KINDS)

    def pending(self) -> Iterator[AuditedPod]:
        """Those of the pods that wait for a node."""
        return (judged.pod for judged in self.judge.pods(pod for pod in self.audited if pod.pending))

    def lines(self) -> Iterator[ReportLine]:
        """What is to be reported, one line for each pod and place."""
        for judged in self.pods():
            for finding in judged.reported:
                yield ReportLine(judged.pod, finding)

    def grouped_lines(self) -> Iterator[ReportLine]:
        """What is to be reported by workload, worst first: what several of its pods show is one line.

        Pods without a controller come first, as they were read: there may be too many to sort.
        """
        lines: dict[tuple[str, ...], ReportLine] = {}
        for judged in self.pods():
            if judged.pod.workload_kind == "Pod":
                for finding in sorted(judged.reported, key=lambda finding: -finding.severity):
                    yield ReportLine(judged.pod, finding)
                continue
            for finding in judged.reported:
                place = (*_workload(judged.pod), finding.check, finding.container, finding.detail)
                first = lines.setdefault(place, ReportLine(judged.pod, finding))
                first.others += first.pod.name != judged.pod.name
        ranked = sorted(lines.items(), key=lambda entry: (entry[0][:3], -entry[1].finding.severity, entry[0]))
        yield from (line for _, line in ranked)

    def held(self, pod: AuditedPod) -> Held:
        """What a pod asks for, by resource and by claim."""
        return self._held(pod, pod.claims)

    def totals(self) -> Totals:
        """The totals over all pods; a claim that pods share counts once."""
        if self._totals is None:
            for _ in self._counted():
                pass
        return self._totals or Totals()

    def _counted(self) -> Iterator[JudgedPod]:
        """The pods, added up on the way: reading and judging them once more would cost more."""
        totals = Totals()
        counted: set[tuple[str, str]] = set()
        for judged in self.pods():
            pod = judged.pod
            claims = [claim for claim in pod.claims if (pod.namespace, claim) not in counted]
            counted.update((pod.namespace, claim) for claim in claims if not claim.startswith(TEMPLATE))
            held = self._held(pod, claims)
            totals.cards += held.cards
            totals.unresolved_claims += held.unresolved_claims
            totals.unknown += bool(pod.unknown_gpus)
            for name, amount in held.gpus.items():
                totals.gpus[name] = totals.gpus.get(name, _ZERO) + amount
            is_pod = pod.kind not in CLAIM_KINDS
            totals.pods += is_pod
            totals.pods_with_findings += is_pod and bool(judged.reported)
            for finding in judged.reported:
                totals.findings[finding.severity] += 1
            totals.exempt += len(judged.exempt)
            totals.known += len(judged.known)
            yield judged
        self._totals = totals

    def _held(self, pod: AuditedPod, claims: Iterable[str]) -> Held:
        gpus, cards, unresolved = dict(pod.gpus), _ZERO, 0
        for name, amount in gpus.items():
            if self.facts.classes.resource_kind(name) in _CARDS:
                cards += amount
        for claim in claims:
            devices = self.facts.claims.devices(pod.namespace, claim)
            if devices is None:
                unresolved += 1
                continue
            for name, count in devices.items():
                if kind := gpu_device_class_kind(name, self.also):
                    gpus[name] = gpus.get(name, _ZERO) + count
                    cards += count if kind in _CARDS else 0
        return Held(cards, gpus, unresolved)


def _workload(pod: AuditedPod) -> tuple[str, str, str]:
    return pod.namespace, pod.workload_kind, pod.workload


def render_amount(amount: Decimal) -> str:
    """A number of devices as people write it: 2, 0.5."""
    return f"{amount.normalize():f}"


def number(amount: Decimal) -> int | float:
    """The amount as JSON writes numbers."""
    return int(amount) if amount == amount.to_integral_value() else float(amount)
