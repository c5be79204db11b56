"""What was found before: a baseline lets a pipeline fail on new findings alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from gpuledger.audit.finding import AuditedPod, Finding


class BaselineError(ValueError):
    """The text is not a baseline."""


class _Baseline(msgspec.Struct, frozen=True):
    gpuledger_baseline: int
    fingerprints: list[str]


def fingerprint(pod: AuditedPod, finding: Finding) -> str:
    """What stays the same from run to run: a finding of a workload, whichever of its pods shows it.

    Details of a status change by themselves and are left out.
    """
    detail = "" if finding.path.startswith("status") else finding.detail
    parts = (finding.check, pod.namespace, pod.workload_kind, pod.workload, finding.container, detail)
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]


def parse_baseline(text: bytes) -> frozenset[str]:
    """The fingerprints of a baseline.

    Raises:
        BaselineError: the text is not a baseline.
    """
    try:
        return frozenset(msgspec.json.decode(text, type=_Baseline).fingerprints)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BaselineError(f"not a baseline: {error}") from error


def render_baseline(fingerprints: Iterable[str]) -> bytes:
    """A baseline of these fingerprints, in an order that diffs well."""
    baseline = _Baseline(1, sorted(set(fingerprints)))
    return msgspec.json.format(msgspec.json.encode(baseline)) + b"\n"
