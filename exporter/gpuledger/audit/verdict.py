"""The last word on findings, once the whole cluster is known: severities, exceptions, what is new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from gpuledger.audit.baseline import fingerprint
from gpuledger.audit.check import Check, Severity
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.audit.policy import Policy
from gpuledger.audit.reach import BY_ADMIN_CLAIM
from gpuledger.core.model import NOTHING


class JudgedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod with its findings told apart: to report, exempt, and known from the baseline."""

    pod: AuditedPod
    reported: tuple[Finding, ...]
    exempt: tuple[Finding, ...]
    known: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges findings by the cluster's facts, the policy and the baseline; drops those below `minimum`."""

    checks: Mapping[str, Check]
    facts: ClusterFacts
    now: float
    minimum: Severity = Severity.MEDIUM
    policy: Policy = field(default_factory=Policy)
    baseline: Mapping[str, Severity] = field(default_factory=lambda: NOTHING)
    """Findings that are known, each up to a severity."""

    def pod(self, pod: AuditedPod) -> JudgedPod:
        """The pod with its findings told apart; there are none where it turns out to be no GPU pod."""
        return self._judged(pod) if self.concerns(pod) else JudgedPod(pod, (), (), ())

    def concerns(self, pod: AuditedPod) -> bool:
        """Whether a pod that its claims made a GPU pod is one, as far as the cluster's claims tell."""
        return (
            not pod.by_claims
            or self.facts.claims.may_be_gpu(pod.namespace, pod.claims)
            or self.facts.claims.may_watch_gpu(pod.namespace, pod.claims)
        )

    def pods(self, pods: Iterable[AuditedPod]) -> Iterator[JudgedPod]:
        """Every pod with its findings told apart, without those that turn out to be no GPU pods."""
        for judged in map(self._judged, filter(self.concerns, pods)):
            if not judged.pod.tentative or judged.reported or judged.exempt or judged.known:
                yield judged

    def _judged(self, pod: AuditedPod) -> JudgedPod:
        reported, exempt, known = [], [], []
        if pod.claims and self.facts.claims.may_watch_gpu(pod.namespace, pod.claims):
            pod = msgspec.structs.replace(pod, reach=(*pod.reach, BY_ADMIN_CLAIM))
        for found in pod.findings:
            finding = self._finding(pod, found)
            if finding is None or finding.severity < self.minimum:
                continue
            if finding.exempt:
                exempt.append(finding)
            elif self.baseline and finding.severity <= self.baseline.get(fingerprint(pod, finding), -1):
                known.append(finding)
            else:
                reported.append(finding)
        return JudgedPod(pod, tuple(reported), tuple(exempt), tuple(known))

    def _finding(self, pod: AuditedPod, finding: Finding) -> Finding | None:
        judge = self.checks[finding.check].judge
        severity = judge(self.facts, pod, finding) if judge else finding.severity
        if severity is None:
            return None
        exempt = finding.exempt or (self.policy.exceptions and self.policy.reason(pod, finding, self.now)) or ""
        if severity == finding.severity and exempt == finding.exempt:
            return finding
        return msgspec.structs.replace(finding, severity=severity, exempt=exempt)
