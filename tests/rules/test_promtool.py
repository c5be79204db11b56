"""Both ages of promtool: the rules load without a remark, fire when they should, and else are silent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def scraped_twice(test: dict[str, Any]) -> None:
    """Make of a test one in which two jobs scrape each exporter, or the old and the new one overlap."""
    for series in list(test["input_series"]):
        if "instance=" not in series["series"] and series["series"].startswith("gpuledger_"):
            test["input_series"].remove(series)
            test["input_series"] += [labelled(series, f'instance="{number}"') for number in range(2)]


def in_a_cluster(test: dict[str, Any]) -> None:
    """Make of a test one in which Prometheus gives every series a cluster; an absence has none."""
    test["input_series"] = [
        series if "cluster=" in series["series"] else labelled(series, 'cluster="z9"')
        for series in test["input_series"]
    ]
    for look in test["alert_rule_test"]:
        for alert in look.get("exp_alerts", ()):
            if alert["exp_labels"].keys() > {"severity", "audience"}:
                alert["exp_labels"].setdefault("cluster", "z9")


def labelled(series: dict[str, str], label: str) -> dict[str, str]:
    """The input series with a further label."""
    name, _, rest = series["series"].partition("{")
    return {**series, "series": f"{name}{{{label}, {rest or '}'}"}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
@pytest.mark.parametrize("change", [scraped_twice, in_a_cluster])
def test_alerts_say_the_same_when(change: Callable[[Any], None], case: Path, tmp_path: Path) -> None:
    document = yaml.safe_load(case.read_text())
    document["rule_files"] = [str((case.parent / path).resolve()) for path in document["rule_files"]]
    document["tests"] = [test for test in document["tests"] if "alert_rule_test" in test]
    for test in document["tests"]:
        test.pop("promql_expr_test", None)
        change(test)
    changed = tmp_path / "case.json"  # JSON is YAML
    changed.write_text(json.dumps(document))

    promtool(VERSIONS[-1], "test", "rules", changed)


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
