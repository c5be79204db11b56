"""`gpuledger audit --live` says of a real cluster what it says of its dump by kubectl."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cluster.node import kubectl
from tools.daemon import until

if TYPE_CHECKING:
    from cluster.containers import Running

pytestmark = pytest.mark.cluster

EXPLAINED = "pods,nodes,namespaces,resourcequotas"
"""What old servers have too; those with device claims show these by `--live` as well."""

Said = tuple[int, str]
"""An exit code and a report."""


def _live(*flags: str) -> Said:
    return _audited("--live", *flags)


def _dumped(*flags: str) -> Said:
    return _audited("-", *flags, dump=kubectl("get", EXPLAINED, "-A", "-o", "json"))


def _audited(*flags: str, dump: str = "") -> Said:
    command = [sys.executable, "-m", "gpuledger", "audit", *flags]
    result = subprocess.run(command, input=dump, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    return result.returncode, result.stdout


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(["--min-severity=info"], id="all checks"),
        pytest.param(["--all", "--min-severity=low"], id="every pod"),
        pytest.param(["--classic"], id="classic"),
    ],
)
def test_a_live_cluster_is_audited_as_its_dump(running: Running, flags: list[str]) -> None:
    assert running

    def agree() -> bool:
        """Pods of the cluster come and go between the two looks."""
        return _live(*flags) == _dumped(*flags)

    until(agree, 60, lambda: f"{_live(*flags)} is not {_dumped(*flags)}")
    assert _live(*flags)[0] == 1


def test_one_namespace_is_audited_as_in_the_dump_of_all(running: Running, namespace: str) -> None:
    assert running
    flags = ("-n", namespace, "--quiet")
    live, dumped = _live(*flags), _dumped(*flags)
    assert dumped == live
    assert f"[FINDING] {namespace}/sneaky" in live[1]


def test_who_is_live_is_judged_as_live(running: Running, namespace: str) -> None:
    """An annotation, which its tenant writes, excuses nothing."""
    assert running
    kubectl("annotate", "pod", "sneaky", "-n", namespace, "ignore.gpuledger.io/gpu-env-bypass=because")
    _, report = _live("-n", namespace, "--check=gpu-env-bypass", "--format=json")
    findings = [finding for pod in json.loads(report)["pods"] for finding in pod["findings"]]
    assert ["gpu-env-bypass"] == [finding["check"] for finding in findings]
