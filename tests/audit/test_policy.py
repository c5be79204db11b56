"""A policy that can't be applied as it was meant is an error; a baseline knows findings from run to run."""

import json
from datetime import date
from pathlib import Path

import pytest

from audit.auditing import audited
from audit.command import gpuledger_audit
from gpuledger.audit.baseline import BaselineError, fingerprint, parse_baseline, render_baseline
from gpuledger.audit.checks import CHECKS
from gpuledger.audit.policy import Match, PolicyError, PolicyException, parse_policy

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
        pytest.param(EXCEPTION + "  expires: soon\n", "Invalid RFC3339", id="no date"),
        pytest.param("[", "not YAML", id="no YAML"),
        pytest.param("- a", "Expected `object`", id="a list"),
    ],
)
def test_a_policy_that_can_not_be_applied(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message.replace("[", r"\[")):
        parse_policy(text, CHECKS)


def test_an_empty_policy_excuses_nothing() -> None:
    assert parse_policy("", CHECKS).exceptions == ()


def test_a_policy_file_excuses_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(EXCEPTION)
    assert 0 == gpuledger_audit(CAPTURE, "--check", "gpu-privileged", "--policy", str(path))
    assert "over all pods: 1 exempt" in capsys.readouterr().out


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
    assert frozenset({"a", "b"}) == parse_baseline(render_baseline(["b", "a", "b"]))


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b'{"fingerprints": [1]}', b"[" * 99999])
def test_anything_else_is_no_baseline(text: bytes) -> None:
    with pytest.raises(BaselineError, match="not a baseline"):
        parse_baseline(text)
