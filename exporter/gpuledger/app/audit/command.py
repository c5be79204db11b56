"""`gpuledger audit`: dumps, manifests or a live cluster in, findings out; exit code 0, 1 or 2 as of old."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path

from gpuledger.app.audit.intake import Intake
from gpuledger.app.config import ConfigError
from gpuledger.app.stderr import write_stderr
from gpuledger.audit.advisories import Advisory, parse_advisories
from gpuledger.audit.baseline import BaselineError, fingerprint, parse_baseline, render_baseline
from gpuledger.audit.check import Check, Severity
from gpuledger.audit.checks import CHECKS, STATIC_CHECKS
from gpuledger.audit.classic import CLASSIC_CHECKS
from gpuledger.audit.engine import Audit
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod
from gpuledger.audit.policy import Policy, PolicyError, parse_policy, stale_exceptions
from gpuledger.audit.report.full_json import render_full_json
from gpuledger.audit.report.github import render_github
from gpuledger.audit.report.junit import render_junit
from gpuledger.audit.report.model import Report
from gpuledger.audit.report.plain_json import render_plain_json
from gpuledger.audit.report.policy_report import render_policy_report
from gpuledger.audit.report.sarif import render_sarif
from gpuledger.audit.report.text import TextStyle, render_explanation, render_text
from gpuledger.audit.subject import AuditContext
from gpuledger.audit.verdict import Judge
from gpuledger.core.errors import SourceError
from gpuledger.sources.dumps import STDIN
from gpuledger.sources.spool import Spool

CLEAN, FINDINGS, UNREADABLE = 0, 1, 2

FORMATS: dict[str, Callable[[Report], Iterator[str]]] = {
    "json": render_full_json,
    "sarif": render_sarif,
    "junit": render_junit,
    "github": render_github,
    "policy-report": render_policy_report,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags; those of the script it replaces keep their letters."""
    _add_input_arguments(parser)
    _add_choice_arguments(parser)
    _add_output_arguments(parser)


def _add_input_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="JSON or YAML; - or none for standard input")
    add("--live", action="store_true", help="the cluster of the kubeconfig or service account")
    add("--kubeconfig", default="", metavar="FILE", help="instead of KUBECONFIG or ~/.kube/config")
    add("--kube-context", default="", metavar="NAME", help="instead of the current context")
    add("--fail-if-empty", action="store_true", help="exit 2 if no pod was audited")


def _add_choice_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-n", "--namespace", default="", help="audit only this namespace")
    add("-a", "--all", action="store_true", help="audit every pod, not only those that reach GPUs")
    add(
        "--gpu-resource",
        type=_pattern,
        action="append",
        default=[],
        metavar="REGEX",
        help="more resources that are GPUs (repeatable)",
    )
    add("--classic", action="store_true", help="the four checks of old, under their old names")
    add("--min-severity", choices=[str(severity) for severity in Severity], help="default: medium")
    add("--check", action="append", default=[], metavar="ID", help="run only this check (repeatable)")
    add("--skip", action="append", default=[], metavar="ID", help="leave this check out (repeatable)")
    add("--policy", metavar="FILE", help="exceptions, with reason, owner and expiry")
    add("--ignore-annotations", action="store_true", help="no manifest may excuse itself")
    add("--baseline", metavar="FILE", help="report only what this baseline does not know")


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-q", "--quiet", action="store_true", help="findings and summary only")
    add("--explain", nargs="?", const="", metavar="ID", help="why and what to do: one check, or each finding")
    add("--write-baseline", metavar="FILE", help="accept what is found now")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="one JSON object with the keys of old")
    output.add_argument("--format", choices=["text", *FORMATS], default="text", help="default: text")
    output.add_argument("--list-checks", action="store_true", help="print every check and exit")


def run(args: argparse.Namespace) -> int:
    """Audit as the flags say; the return value is the exit code. Raises ConfigError."""
    if sys.stdout is None:
        raise SourceError("standard output is closed")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if args.list_checks:
        return _write(f"{check.id:<28} {check.severity!s:<9} {check.title}\n" for check in CHECKS.values())
    if args.explain:
        return _write(render_explanation(_known_check(args.explain)))
    return _audit(args)


def _audit(args: argparse.Namespace) -> int:
    now = time.time()
    _refuse_what_has_no_effect(args)
    checks = _chosen_checks(args)
    also = _gpu_resources(args.gpu_resource)
    judge = _judge(args, checks, also, now)
    audit = Audit(
        checks=checks,
        context=AuditContext(now, also, read_advisories()),
        namespace=args.namespace,
        every_pod=args.all,
        reach=not args.classic,
        annotations=not args.ignore_annotations,
        facts=judge.facts,
        undecided=[],
    )
    with Spool(AuditedPod) as audited:
        intake = Intake(audit, audited)
        if args.live:
            from gpuledger.sources.kubeapi import connect  # noqa: PLC0415 - dumps need none of it

            intake.read_cluster(connect("auto", args.kubeconfig, args.kube_context), args.namespace)
        for path in args.paths or ([] if args.live else [STDIN]):
            intake.read_file(path)
        intake.finish()
        report = Report(audited, judge, also, tuple(intake.problems))
        _write(_rendered(report, args))
        for remark in stale_exceptions(judge.policy, audited, now):
            write_stderr(f"{args.policy}: {remark}\n")
        if args.write_baseline:
            _write_baseline(report, args.write_baseline)
        return _exit_code(report, args, readable=not intake.problems)


def _exit_code(report: Report, args: argparse.Namespace, *, readable: bool) -> int:
    totals = report.totals()
    if args.fail_if_empty and not totals.pods:
        write_stderr("error: nothing was audited\n")
        return UNREADABLE
    if not readable:
        return UNREADABLE
    return FINDINGS if totals.findings and not args.write_baseline else CLEAN


# ---- what the flags mean ----


def _refuse_what_has_no_effect(args: argparse.Namespace) -> None:
    choice = {"--check": args.check, "--skip": args.skip, "--min-severity": args.min_severity}
    for flag, given in choice.items():
        if args.classic and given:
            raise ConfigError(f"--classic makes its four checks, whatever {flag} says: leave one of them out")
    for flag, given in {"--kubeconfig": args.kubeconfig, "--kube-context": args.kube_context}.items():
        if given and not args.live:
            raise ConfigError(f"{flag} names a cluster, but no cluster is read without --live")


def _chosen_checks(args: argparse.Namespace) -> Sequence[Check]:
    if args.classic:
        return CLASSIC_CHECKS
    named = [_known_check(check_id) for check_id in args.check]
    for check in named:
        if check.at_runtime:
            raise ConfigError(f"{check.id} is found by `gpuledger node` while pods run, never in a manifest")
    skipped = [_known_check(check_id) for check_id in args.skip]
    chosen = named or [check for check in STATIC_CHECKS if not check.opt_in]
    minimum = _minimum(args)
    left = [check for check in chosen if check not in skipped and check.may_reach(minimum)]
    if not left:
        raise ConfigError("--check, --skip and --min-severity leave no check to run")
    return left


def _minimum(args: argparse.Namespace) -> Severity:
    """Checks that were named are shown whatever their severity, unless one is named too."""
    if args.min_severity:
        return Severity[args.min_severity.upper()]
    return Severity.INFO if args.check else Severity.MEDIUM


def _known_check(check_id: str) -> Check:
    if check_id in CHECKS:
        return CHECKS[check_id]
    near = get_close_matches(check_id, CHECKS, 1)
    hint = f"did you mean {near[0]}?" if near else "see --list-checks"
    if Path(check_id).is_file():
        hint = "which is a file: files go before --explain"
    raise ConfigError(f"no check {check_id!r}, {hint}")


def _judge(
    args: argparse.Namespace, checks: Iterable[Check], also: re.Pattern[str] | None, now: float
) -> Judge:
    try:
        policy = parse_policy(_read(args.policy).decode(), CHECKS) if args.policy else Policy()
        baseline = parse_baseline(_read(args.baseline)) if args.baseline else {}
    except UnicodeDecodeError as error:
        raise ConfigError(f"{args.policy}: not UTF-8") from error
    except PolicyError as error:
        raise ConfigError(f"{args.policy}: {error}") from error
    except BaselineError as error:
        raise ConfigError(f"{args.baseline}: {error}") from error
    return Judge(
        {check.id: check for check in checks}, ClusterFacts(also), now, _minimum(args), policy, baseline
    )


def _gpu_resources(patterns: Sequence[re.Pattern[str]]) -> re.Pattern[str] | None:
    """Any of the patterns; Kubernetes' own resources are never GPUs."""
    if not patterns:
        return None
    any_of_them = "|".join(f"(?:{pattern.pattern})" for pattern in patterns)
    return re.compile(rf"(?!(?:cpu|memory|pods|(?:ephemeral-)?storage|hugepages-.*)$)(?:{any_of_them})")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"not a regular expression: {error}") from error


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error


def read_advisories() -> tuple[Advisory, ...]:
    """The advisories that come with the program."""
    return parse_advisories((files("gpuledger.audit") / "advisories.json").read_bytes())


# ---- output ----


def _rendered(report: Report, args: argparse.Namespace) -> Iterator[str]:
    if args.json:
        return render_plain_json(report)
    if args.format != "text":
        return FORMATS[args.format](report)
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    style = TextStyle(
        inventory=not args.quiet,
        explain=args.explain is not None,
        classic=args.classic,
        colour=colour,
        every_pod=args.all,
    )
    return render_text(report, style)


def _write(pieces: Iterable[str]) -> int:
    """Write to standard output; a reader that goes away early (`| head`) is no error."""
    try:
        sys.stdout.writelines(pieces)
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - Python flushes it at exit
        if not isinstance(error, BrokenPipeError):
            raise SourceError(f"standard output: {error.strerror}") from error
    return CLEAN


def _write_baseline(report: Report, path: str) -> None:
    prints = (
        (fingerprint(judged.pod, finding), finding.severity)
        for judged in report.pods()
        for finding in (*judged.reported, *judged.known)
    )
    try:
        Path(path).write_bytes(render_baseline(prints))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
