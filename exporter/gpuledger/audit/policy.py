"""Exceptions that a platform team grants: what is excused, why, by whom and until when."""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Iterable, Iterator
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase

import msgspec

from gpuledger.audit.finding import AuditedPod, Finding


class PolicyError(ValueError):
    """A policy that can't be applied as it was meant; the message names the place."""


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an exception is about: shell patterns, `*` where nothing is said; `workload` is `<kind>/<name>`."""

    namespace: str = "*"
    workload: str = "*"
    container: str = "*"
    check: str = "*"


class PolicyException(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One exception; it holds to the end of the day `expires` (UTC), for ever where there is none."""

    match: Match
    reason: str
    owner: str
    expires: date | None = None

    def covers(self, pod: AuditedPod, finding: Finding) -> bool:
        """Whether the exception is about a finding."""
        return (
            fnmatchcase(finding.check, self.match.check)
            and fnmatchcase(pod.namespace, self.match.namespace)
            and fnmatchcase(f"{pod.workload_kind}/{pod.workload}", self.match.workload)
            and fnmatchcase(finding.container, self.match.container)
        )

    def expired(self, now: float) -> bool:
        """Whether the exception no longer holds at the Unix time `now`."""
        return self.expires is not None and datetime.fromtimestamp(now, UTC).date() > self.expires


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The exceptions of a policy file."""

    exceptions: tuple[PolicyException, ...] = ()

    def reason(self, pod: AuditedPod, finding: Finding, now: float) -> str:
        """Why a finding is excused at the Unix time `now`; empty where it is not."""
        for exception in self.exceptions:
            if not exception.expired(now) and exception.covers(pod, finding):
                return f"{exception.reason} ({exception.owner})"
        return ""


def stale_exceptions(policy: Policy, pods: Iterable[AuditedPod], now: float) -> Iterator[str]:
    """What is to be said of exceptions that have expired, or that cover nothing of what was found."""
    left = dict(enumerate(policy.exceptions))
    for pod in pods if left else ():
        for finding in pod.findings:
            for index in [index for index, exception in left.items() if exception.covers(pod, finding)]:
                exception = left.pop(index)
                if exception.expired(now):
                    yield f"exceptions[{index}] expired on {exception.expires}: what it covers counts"
    for index in left:
        yield f"exceptions[{index}] covers nothing that was found"


def parse_policy(text: str, checks: Container[str]) -> Policy:
    """The policy in a YAML text; `checks` are the ids that exist.

    Raises:
        PolicyError: the text is not a policy, or an exception lacks its reason or owner, or names no check.
    """
    from gpuledger.parse.yamldocs import YamlError, parse_yaml  # noqa: PLC0415 - most runs read no policy

    try:
        policy = msgspec.convert(parse_yaml(text) or {}, Policy)
    except YamlError as error:
        raise PolicyError(str(error)) from error
    except msgspec.ValidationError as error:
        message = str(error).replace("Invalid RFC3339 encoded date", "Expected a date as YYYY-MM-DD")
        raise PolicyError(f"{message}{_suggestion(message)}") from error
    for index, exception in enumerate(policy.exceptions):
        place = f"exceptions[{index}]"
        if not exception.reason.strip() or not exception.owner.strip():
            raise PolicyError(f"{place}: a reason and an owner are needed")
        if exception.match == Match():
            raise PolicyError(f"{place}: `match` names nothing, and would excuse everything")
        if not re.search(r"[*?\[]", exception.match.check) and exception.match.check not in checks:
            raise PolicyError(f"{place}: no check {exception.match.check!r}")
    return policy


_FIELDS = sorted({field for struct in (Match, PolicyException, Policy) for field in struct.__struct_fields__})


def _suggestion(error: str) -> str:
    unknown = re.search(r"unknown field `(.+?)`", error)
    near = difflib.get_close_matches(unknown[1], _FIELDS, 1) if unknown else []
    return f" (did you mean `{near[0]}`?)" if near else ""
