"""What was found before: a baseline lets a pipeline fail on new findings alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from gpuledger.audit.check import Severity
from gpuledger.audit.finding import AuditedPod, Finding

_VERSION = 2


class BaselineError(ValueError):
    """The text is not a baseline."""


class _Baseline(msgspec.Struct, frozen=True):
    gpuledger_baseline: int
    fingerprints: dict[str, str]


def fingerprint(pod: AuditedPod, finding: Finding) -> str:
    """What stays the same from run to run: a finding of a workload, whichever of its pods shows it.

    Details of a status change by themselves and are left out.
    """
    detail = "" if finding.path.startswith("status") else finding.detail
    parts = (finding.check, pod.namespace, pod.workload_kind, pod.workload, finding.container, detail)
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]


def parse_baseline(text: bytes) -> dict[str, Severity]:
    """The fingerprints of a baseline, each with the worst severity that was accepted.

    Raises:
        BaselineError: the text is not a baseline, or one of another version.
    """
    try:
        baseline = msgspec.json.decode(text, type=_Baseline)
        if baseline.gpuledger_baseline != _VERSION:
            raise BaselineError(f"version {baseline.gpuledger_baseline}, not {_VERSION}: write it anew")
        return {print_: Severity[name.upper()] for print_, name in baseline.fingerprints.items()}
    except (msgspec.DecodeError, RecursionError) as error:
        raise BaselineError(f"not a baseline: {error}") from error
    except KeyError as error:
        raise BaselineError(f"not a baseline: no severity {error}") from error


def render_baseline(found: Iterable[tuple[str, Severity]]) -> bytes:
    """A baseline of these fingerprints, with the worst severity of each, in an order that diffs well."""
    worst = {print_: str(severity) for print_, severity in sorted(found)}
    return msgspec.json.format(msgspec.json.encode(_Baseline(_VERSION, worst))) + b"\n"
