"""What a check is: one declaration that its code, its documentation and every report are made from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from gpuledger.audit.facts import ClusterFacts
    from gpuledger.audit.finding import AuditedPod, Finding
    from gpuledger.audit.subject import Part, PodSubject
    from gpuledger.parse.manifests import ResourceClaim, ResourceClaimTemplate


class Severity(IntEnum):
    """How bad a finding is; the order is that of `--min-severity`."""

    INFO = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4

    def __str__(self) -> str:
        return self.name.lower()


class Hit(msgspec.Struct, frozen=True, gc=False):
    """A place that a check flags: its field path, and the container where it is one's.

    `severity` differs from the check's where this place is less bad. `claims` are those that decide, once they
    are known.
    """

    path: str
    detail: str = ""
    container: str = ""
    severity: Severity | None = None
    claims: tuple[str, ...] = ()


def _flags_nothing(_: object) -> Iterator[Hit]:
    return iter(())


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """A check of pods, or of claims, or one that the node role makes at run time and that has no rule here.

    `severity` is the worst that it gives before the cluster's facts are known; `judge` then has the last
    word. `title` stands in report lines, `flags` says which fields make a finding. The rule is asked about pods
    alone that have one of the parts that the check is `of`, if it names any. A finding is dropped where
    a check in `covered_by` flagged the same place. `opt_in` checks run only when named, `of_failed` ones on
    failed pods alone. GPU infrastructure is exempt from checks that flag what it is `expected` to do.
    """

    id: str
    severity: Severity
    pod_rule: Callable[[PodSubject], Iterator[Hit]] = _flags_nothing
    _: KW_ONLY
    title: str
    flags: str
    why: str
    remediation: str
    references: tuple[str, ...]
    of: tuple[Part, ...] = ()
    claim_rule: Callable[[ResourceClaim | ResourceClaimTemplate], Iterator[Hit]] = _flags_nothing
    judge: Callable[[ClusterFacts, AuditedPod, Finding], Severity | None] | None = None
    covered_by: tuple[str, ...] = ()
    expected: bool = False
    opt_in: bool = False
    of_failed: bool = False
    at_runtime: bool = False

    @property
    def of_gpus(self) -> bool:
        """Whether it is about GPUs, and not about pods of any kind."""
        return self.id.startswith("gpu-")

    def may_reach(self, minimum: Severity) -> bool:
        """Whether a finding of it can be that severe; a judge may raise what it finds."""
        return self.severity >= minimum or self.judge is not None
