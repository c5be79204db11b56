"""A policy that can't be applied as it was meant is an error; a baseline knows findings from run to run."""

import json
from datetime import date
from pathlib import Path

import msgspec
import pytest

from audit.auditing import NOON, audited
from audit.command import gpuledger_audit
from gpuledger.audit.baseline import BaselineError, fingerprint, parse_baseline, render_baseline
from gpuledger.audit.check import Severity
from gpuledger.audit.checks import CHECKS
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.policy import Match, PolicyError, PolicyException, parse_policy
from gpuledger.audit.verdict import Judge

CAPTURE = str(Path(__file__).parents[1] / "fixtures/kube-1.36/kubectl-get-pods-A.json")

EXCEPTION = """
exceptions:
- match: {namespace: research, check: gpu-privileged}
  reason: debugging
  owner: platform
"""


def test_a_policy() -> None:
    policy = parse_policy(EXCEPTION + "  expires: 2026-12-31\n", CHECKS)
    match = Match(namespace="research", check="gpu-privileged")
    assert (PolicyException(match, "debugging", "platform", date(2026, 12, 31)),) == policy.exceptions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("exception: []", "did you mean `exceptions`", id="misspelt list"),
        pytest.param(EXCEPTION + "  expire: 2026-12-31\n", "did you mean `expires`", id="misspelt expiry"),
        pytest.param(
            EXCEPTION.replace("namespace", "namepsace"), "did you mean `namespace`", id="misspelt match"
        ),
        pytest.param(
            EXCEPTION.replace("gpu-privileged", "gpu-privleged"),
            "no check 'gpu-privleged'",
            id="misspelt check",
        ),
        pytest.param(EXCEPTION.replace("debugging", "''"), "a reason and an owner are needed", id="no reason"),
        pytest.param(
            EXCEPTION.replace("  owner: platform\n", ""), "missing required field `owner`", id="no owner"
        ),
        pytest.param(EXCEPTION + "  expires: soon\n", "Expected a date as YYYY-MM-DD", id="no date"),
        pytest.param(EXCEPTION + "  expires: 31.03.2027\n", "YYYY-MM-DD", id="a German date"),
        pytest.param("[", "not YAML", id="no YAML"),
        pytest.param(
            "exceptions: [{match: {}, reason: a, owner: b}]",
            "would excuse everything",
            id="match of everything",
        ),
        pytest.param("- a", "Expected `object`", id="a list"),
    ],
)
def test_a_policy_that_can_not_be_applied(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message.replace("[", r"\[")):
        parse_policy(text, CHECKS)


@pytest.mark.parametrize(
    ("expires", "expired"),
    [
        pytest.param("0001-01-01", (True, True), id="long ago"),
        pytest.param("2025-12-31", (True, True), id="yesterday"),
        pytest.param("2026-01-01", (False, True), id="today"),
        pytest.param("9999-12-31", (False, False), id="never"),
    ],
)
def test_an_exception_holds_to_the_end_of_its_last_day(expires: str, expired: tuple[bool, bool]) -> None:
    (exception,) = parse_policy(f"{EXCEPTION}  expires: {expires}\n", CHECKS).exceptions
    assert expired == (exception.expired(NOON + 43_199), exception.expired(NOON + 43_200))


def test_an_empty_policy_excuses_nothing() -> None:
    assert parse_policy("", CHECKS).exceptions == ()


def test_a_policy_file_excuses_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(EXCEPTION)
    assert 0 == gpuledger_audit(CAPTURE, "--check", "gpu-privileged", "--policy", str(path))
    assert "over all pods: 1 exempt" in capsys.readouterr().out


def test_what_a_policy_says_in_vain_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "policy.yaml"
    nowhere = EXCEPTION.replace("exceptions:\n", "").replace("research", "nowhere")
    path.write_text(f"{EXCEPTION}  expires: 2020-01-01\n{nowhere}")
    assert 1 == gpuledger_audit(CAPTURE, "--check", "gpu-privileged", "--policy", str(path))
    assert [
        f"{path}: exceptions[0] expired on 2020-01-01: what it covers counts",
        f"{path}: exceptions[1] covers nothing that was found",
    ] == capsys.readouterr().err.splitlines()


# ---- baseline ----


def test_a_baseline_leaves_only_what_is_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "baseline.json")
    assert 0 == gpuledger_audit(CAPTURE, "--check", "gpu-privileged", "--write-baseline", path)
    assert 0 == gpuledger_audit(CAPTURE, "--check", "gpu-privileged", "--baseline", path)
    assert 1 == gpuledger_audit(
        CAPTURE, "--check", "gpu-privileged", "--check", "memory-limit", "--baseline", path
    )
    out = capsys.readouterr().out
    assert ("1 known from the baseline" in out, out.count("privileged container sees every GPU")) == (True, 1)


def test_a_baseline_can_not_be_written_where_nothing_can_be(tmp_path: Path) -> None:
    assert 2 == gpuledger_audit(CAPTURE, "--write-baseline", str(tmp_path / "no" / "folder"))


def test_a_finding_keeps_its_fingerprint_in_another_replica() -> None:
    pods = []
    for name in ("own-a", "own-b"):
        owner = {"kind": "DaemonSet", "name": "own", "uid": "o", "controller": True}
        spec = {"containers": [{"name": "c", "securityContext": {"privileged": True}}]}
        pods.append({"kind": "Pod", "metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec})
    lines = audited(json.dumps({"items": pods}), "gpu-privileged").lines()
    first, second = (fingerprint(line.pod, line.finding) for line in lines)
    assert first == second


def test_a_baseline_reads_what_it_wrote() -> None:
    found = [("b", Severity.HIGH), ("a", Severity.LOW), ("b", Severity.LOW)]
    assert {"a": Severity.LOW, "b": Severity.HIGH} == parse_baseline(render_baseline(found))


def test_what_has_become_worse_is_new() -> None:
    text = json.dumps({"kind": "Pod", "spec": {"containers": [{"name": "c", "image": "a"}]}})
    (judged,) = audited(text, "image-latest", every_pod=True).pods()
    (finding,) = judged.reported
    prints = {fingerprint(judged.pod, finding): finding.severity}
    judge = Judge(CHECKS, ClusterFacts(), NOON, baseline=prints)
    worse = msgspec.structs.replace(finding, severity=Severity.HIGH)
    again = judge.pod(msgspec.structs.replace(judged.pod, findings=(finding, worse)))
    assert ((finding,), (worse,)) == (again.known, again.reported)


OTHER_SEVERITY = b'{"gpuledger_baseline": 2, "fingerprints": {"a": "awful"}}'


def test_a_baseline_of_another_version_is_refused() -> None:
    with pytest.raises(BaselineError, match="version 1, not 2"):
        parse_baseline(b'{"gpuledger_baseline": 1, "fingerprints": {}}')


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b'{"fingerprints": [1]}', b"[" * 99999, OTHER_SEVERITY])
def test_anything_else_is_no_baseline(text: bytes) -> None:
    with pytest.raises(BaselineError, match="not a baseline"):
        parse_baseline(text)
