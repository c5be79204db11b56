"""Both ages of promtool: the rules load without a remark, fire when they should, and else are silent."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from tools.fetch import binary
from tools.prometheus import VERSIONS
from tools.rulefiles import ALERTS, PLAIN, ROOT

CASES = sorted(Path(__file__).parent.glob("*_test.yaml"))
FILES = sorted(PLAIN.rglob("*.yaml"))

each_version = pytest.mark.parametrize("version", VERSIONS)


def promtool(version: str, *arguments: str | Path) -> str:
    """Run promtool and return what it said; fails where it failed."""
    done = subprocess.run(
        [binary(version, "promtool"), *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


@each_version
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_else_are_silent(case: Path, version: str) -> None:
    promtool(version, "test", "rules", case)


@each_version
def test_promtool_has_no_remark(version: str) -> None:
    said = promtool(version, "check", "rules", "--lint=all", "--lint-fatal", *FILES)

    assert said.count("SUCCESS") == len(FILES)


def test_every_alert_is_shown_to_fire_and_to_be_silent() -> None:
    shown: defaultdict[str, set[bool]] = defaultdict(set)
    for case in CASES:
        for test in yaml.safe_load(case.read_text())["tests"]:
            for look in test.get("alert_rule_test", []):
                shown[look["alertname"]].add(bool(look.get("exp_alerts")))

    assert {alert.name: {True, False} for alert in ALERTS} == dict(shown)


def test_what_derives_from_rules_and_catalogue_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "rules" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
