"""What the chart hands to the Prometheus operator and to Grafana is what stands here, but for the values."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tools.chart import render, render_text
from tools.fetch import binary
from tools.rulefiles import ROOT, RULES, read_object

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def rule_objects(chart: Mapping[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    """The PrometheusRule objects by their name without the release's; `values` are those of prometheusRule."""
    objects = render({**(chart or {}), "prometheusRule": {"enabled": True, **values}})
    found = [each for each in objects if each["kind"] == "PrometheusRule"]
    return {each["metadata"]["name"].removeprefix("gpuledger-"): each for each in found}


def alerts(objects: Mapping[str, Any]) -> dict[str, Any]:
    groups = [group for each in objects.values() for group in each["spec"]["groups"]]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def test_rules_are_those_of_the_repository() -> None:
    objects = rule_objects(optIn=["memory"], labels={"release": "kps"})
    assert {path.stem: read_object(path)["spec"] for path in RULES.rglob("*.yaml")} == {
        name: each["spec"] for name, each in objects.items()
    }
    assert {"kps"} == {each["metadata"]["labels"]["release"] for each in objects.values()}


def test_a_label_of_a_part_goes_before_that_of_all() -> None:
    values = {
        "labels": {"release": "all", "team": "platform"},
        "monitor": {"kind": "PodMonitor", "labels": {"release": "part"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "part"}},
        "dashboards": {"enabled": True, "labels": {"release": "part"}},
    }
    texts = render_text(values)
    for topic in ("monitors", "rules", "dashboards"):
        text = texts[f"gpuledger/templates/{topic}.yaml"]
        for each in yaml.safe_load_all(text):
            if each:
                labels = each["metadata"]["labels"]
                assert ("part", "platform") == (labels["release"], labels["team"])
        assert "release: all" not in text


def test_opt_in_rules_are_left_out() -> None:
    assert {path.stem for path in RULES.glob("*.yaml")} == rule_objects().keys()


@pytest.mark.parametrize(
    ("values", "alert", "expected"),
    [
        pytest.param({"settings": {"pending-seconds": 60}}, "GpuPodPending", ") > 60  #", id="number"),
        pytest.param(
            {"settings": {"exempt-namespaces": "a|b$"}},
            "GpuProcessWithoutAllocation",
            '{namespace!~"a|b$"}  #',
            id="string",
        ),
        pytest.param(
            {"settings": {"host-units": 'docker\\.service|"'}},
            "GpuHostProcess",
            'unit!~"docker\\\\.service|\\""  #',
            id="string with escapes",
        ),
        pytest.param(
            {"settings": {"warm-memory-ratio": "0.4"}}, "GpuAllocatedIdle", "> 0.4  #", id="number as text"
        ),
        pytest.param({"xidTiers": {"critical": [48, 79]}}, "GpuXidCritical", '{xid=~"48|79"}  #', id="tier"),
        pytest.param(
            {"overrides": {"GpuPodPending": {"expr": "up == 0"}}}, "GpuPodPending", "up == 0", id="expr"
        ),
    ],
)
def test_values_take_the_place_of_what_a_rule_says(
    values: Mapping[str, Any], alert: str, expected: str
) -> None:
    assert expected in alerts(rule_objects(**values))[alert]["expr"]
    assert expected not in alerts(rule_objects())[alert]["expr"]


def test_an_override_leaves_the_rest_of_the_alert() -> None:
    before = alerts(rule_objects())["GpuPodPending"]
    override = {"for": "1h", "labels": {"severity": "critical"}}
    after = alerts(rule_objects(overrides={"GpuPodPending": override}))["GpuPodPending"]
    labels = {**before["labels"], "severity": "critical"}
    assert {**before, "for": "1h", "labels": labels} == after


def test_a_disabled_alert_is_gone_and_no_other() -> None:
    before, after = alerts(rule_objects()), alerts(rule_objects(disabled=["GpuXidWarning"]))
    assert before.keys() - after.keys() == {"GpuXidWarning"}


@pytest.mark.parametrize(
    ("values", "topics", "names"),
    [
        pytest.param({"cluster": {"enabled": False}}, {"audit", "inventory"}, set(), id="cluster"),
        pytest.param(
            {"node": {"enabled": False}},
            set(),
            {"GpuExporterDown", "GpuExporterAbsent", "GpuNodeWithoutExporter"},
            id="node",
        ),
    ],
)
def test_no_alert_waits_for_a_role_that_is_not_there(
    values: Mapping[str, Any], topics: set[str], names: set[str]
) -> None:
    before, after = rule_objects(), rule_objects(values)
    assert topics == before.keys() - after.keys()
    assert names == alerts({topic: before[topic] for topic in after}).keys() - alerts(after).keys()


def test_a_topic_without_a_rule_is_left_out() -> None:
    before = rule_objects()
    after = rule_objects(disabled=list(alerts({"audit": before["audit"]})))
    assert {"audit"} == before.keys() - after.keys()


@pytest.mark.parametrize("code", [pytest.param(78, id="of another tier"), pytest.param(999, id="unknown")])
def test_a_code_has_one_tier(code: int) -> None:
    names = ("GpuXidCritical", "GpuXidWarning", "GpuXidApplication", "GpuXidUnclassified")
    rules = alerts(rule_objects(xidTiers={"critical": [48, code]}))
    matched = {
        name: [
            operator == ("=~" if re.fullmatch(codes, str(code)) else "!~")
            for operator, codes in re.findall(r'xid(=~|!~)"([0-9|]+)"', rules[name]["expr"])
        ]
        for name in names
    }
    assert [True, False, False, False] == [all(matched[name]) for name in names]


def test_prometheus_takes_the_rules_with_all_values_changed(tmp_path: Path) -> None:
    settings = {"idle-ratio": 0.05, "node-gpus": 4, "exempt-namespaces": r"gpu-operator|infra\.\"x"}
    objects = rule_objects(settings=settings, xidTiers={"warning": [94]}, disabled=["GpuXidCritical"])
    files = []
    for name, each in objects.items():
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(yaml.safe_dump(each["spec"]))
    command = [str(binary("prometheus-3", "promtool")), "check", "rules", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboards_are_those_of_the_repository() -> None:
    objects = render({"dashboards": {"enabled": True, "namespace": "grafana"}})
    maps = [each for each in objects if each["metadata"]["labels"].get("grafana_dashboard") == "1"]
    given = {name: json.loads(text) for each in maps for name, text in each["data"].items()}
    assert {path.name: json.loads(path.read_text()) for path in (ROOT / "dashboards").glob("*.json")} == given
    assert {"grafana"} == {each["metadata"]["namespace"] for each in maps}


@pytest.mark.parametrize(
    ("kind", "endpoints"), [("PodMonitor", "podMetricsEndpoints"), ("ServiceMonitor", "endpoints")]
)
def test_a_monitor_keeps_the_names_of_those_who_use_gpus(kind: str, endpoints: str) -> None:
    monitor = {"kind": kind, "interval": "15s", "scrapeTimeout": "10s", "endpoint": {"scheme": "https"}}
    objects = [each for each in render({"monitor": monitor}) if each["kind"] == kind]
    assert {"gpuledger-node", "gpuledger-cluster"} == {each["metadata"]["name"] for each in objects}
    expected = {
        "port": "metrics",
        "honorLabels": True,
        "interval": "15s",
        "scrapeTimeout": "10s",
        "scheme": "https",
    }
    assert [[expected]] * 2 == [each["spec"][endpoints] for each in objects]
