"""What an audit finds, in a form that can wait on disk until the whole cluster is known."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from gpuledger.audit.check import Severity


class Finding(msgspec.Struct, frozen=True, gc=False):
    """One place that one check flags; `exempt` is why it is expected or excused, empty where it is neither.

    `claims` are the device claims that decide whether it is one.
    """

    check: str
    severity: Severity
    path: str
    detail: str = ""
    container: str = ""
    exempt: str = ""
    claims: tuple[str, ...] = ()


class AuditedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod (or a template of pods, or a claim) that was audited, and what was found.

    `gpus` is its effective request per GPU resource, `unknown_gpus` those of which the amount can't be read,
    `template` what each pod of a controller in a cluster asks for, which is counted by these pods,
    `fractions` KAI's annotations. `claims` names its device claims (which the cluster's claims resolve),
    `reach` its ways to a GPU that need no request. `by_claims` is set where nothing but its claims makes it a
    GPU pod, `tentative` where it is none unless something is found. `file` and `line` are where it stands.
    """

    namespace: str
    name: str
    kind: str
    workload_kind: str
    workload: str
    uid: str = ""
    node: str = ""
    pending: str = ""
    gpus: dict[str, Decimal] = {}
    unknown_gpus: tuple[str, ...] = ()
    template: dict[str, Decimal] = {}
    fractions: dict[str, str] = {}
    claims: tuple[str, ...] = ()
    by_claims: bool = False
    tentative: bool = False
    reach: tuple[str, ...] = ()
    file: str = ""
    line: int = 1
    findings: tuple[Finding, ...] = ()
