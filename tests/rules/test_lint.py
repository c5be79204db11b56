"""Every rule is held to what makes alerts work: known series, whole labels, a reader who knows what to do."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import promql_parser
import pytest

from tools.promql import CATALOGUE, TARGET, Linter
from tools.rulefiles import ALERTS, ALL, RECORDINGS, RULE_FILES, RULES, RUNBOOKS, Rule, read_object

RUNBOOK_BASE = "https://github.com/gpuledger/gpuledger/blob/main/docs/runbooks/"

DASHBOARDS = {"fleet", "gpu", "workloads", "pod", "audit", "exporter"}
"""Names of the dashboards that alerts may link, each at /d/gpuledger-<name>."""

LEVELS = {"GpuEccUncorrectable": frozenset({"gpuledger_gpu_ecc_errors_total"})}
"""Alerts that compare a counter's level, for the reason that their comment gives."""

COUNTERS_SHOWN = frozenset(name for name in CATALOGUE if name.endswith("_total"))
"""Whoever looks by hand may want to see a counter as it stands."""

SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]

each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: rule.name)
each_rule = pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)


@cache
def series() -> dict[str, frozenset[str]]:
    """Every metric that a rule may use: the catalogue's, and those that rules record."""
    known = dict(CATALOGUE)
    pending = list(RECORDINGS)
    while pending:
        rule = next(r for r in pending if not any(name in r.expr for name in {p.name for p in pending}))
        known[rule.name] = (
            Linter(known).labels(rule.expr) | set(rule.labels) | known.get(rule.name, frozenset())
        )
        pending.remove(rule)
    return known


@each_rule
def test_uses_series_that_exist_as_they_are_meant_and_keeps_the_cluster(rule: Rule) -> None:
    levels = LEVELS.get(rule.name, frozenset())

    assert [] == Linter(series(), levels).faults(rule.expr)


@each_rule
def test_looks_back_over_several_scrapes(rule: Rule) -> None:
    ranges = [promql_parser.parse_duration(found) for found in re.findall(r"\[(\w+)", rule.expr)]

    assert all(found >= promql_parser.parse_duration("5m") for found in ranges)


@pytest.mark.parametrize("rule", RECORDINGS, ids=lambda rule: rule.name)
def test_a_recorded_name_is_level_metric_operations(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z_]+:gpuledger_[a-z_]+:[a-z_]+[0-9]*[a-z]*", rule.name)
    level = set(rule.name.partition(":")[0].split("_"))
    assert level <= Linter(series()).labels(rule.expr)


@each_alert
def test_an_alert_says_whom_it_concerns_and_how_much(alert: Rule) -> None:
    assert re.fullmatch(r"Gpu[A-Z][A-Za-z]+", alert.name)
    assert {"severity", "audience"} == set(alert.labels)
    assert alert.labels["severity"] in {"critical", "warning", "info"}
    assert alert.labels["audience"] in {"platform", "owner", "security"}
    assert "for" in alert.fields


@each_alert
def test_a_threshold_has_a_reason(alert: Rule) -> None:
    assert re.search(r"^ +# \w", alert.text, flags=re.MULTILINE)


@each_alert
def test_annotations_are_whole_and_name_only_labels_that_are_there(alert: Rule) -> None:
    annotations = alert.annotations
    assert {"summary", "description", "dashboard", "runbook_url"} <= set(annotations)
    assert set(annotations) <= {"summary", "description", "dashboard", "runbook_url", "pods", "gpus"}
    assert re.fullmatch(r"[A-Z][^{}\n]*\.", annotations["summary"])
    assert re.search(r"\.$", annotations["description"])
    labels = Linter(series()).labels(alert.expr) - {"job", "instance"}
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(annotations.values())))
    assert used <= labels


@each_alert
def test_a_description_names_the_pod_where_the_alert_has_one(alert: Rule) -> None:
    labels = Linter(series()).labels(alert.expr)

    for label in labels & {"node", "namespace", "pod", "workload", "gpu", "xid"}:
        assert f"$labels.{label}" in alert.annotations["description"], label


@each_alert
def test_queries_in_annotations_are_held_to_the_same(alert: Rule) -> None:
    for annotation in alert.annotations.values():
        for query in re.findall(r'printf\s+"(\w[^"]*)"', annotation):
            linter = Linter(series())
            assert [] == [f for f in linter.faults(query.replace("%q", '""')) if "cluster is dropped" not in f]
            shown = set(re.findall(r"\$\w+\.Labels\.(\w+)", annotation))
            assert shown <= linter.labels(query.replace("%q", '""')) - TARGET


@each_alert
def test_links_lead_somewhere(alert: Rule) -> None:
    assert f"{RUNBOOK_BASE}{alert.name}.md" == alert.annotations["runbook_url"]
    assert (RUNBOOKS / f"{alert.name}.md").is_file()
    assert alert.annotations["dashboard"].removeprefix("/d/gpuledger-") in DASHBOARDS


@each_alert
def test_a_runbook_can_be_followed(alert: Rule) -> None:
    page = (RUNBOOKS / f"{alert.name}.md").read_text()

    assert page.startswith(f"# {alert.name}\n")
    assert re.findall(r"^## (.+)$", page, flags=re.MULTILINE) == SECTIONS
    diagnosis = page.partition("## Diagnosis")[2].partition("## Mitigation")[0]
    assert re.search(r"```(promql|sh)\n", diagnosis)
    for query in re.findall(r"```promql\n(.*?)```", page, flags=re.DOTALL):
        faults = Linter(series(), COUNTERS_SHOWN).faults(query)
        assert [] == [fault for fault in faults if "cluster is dropped" not in fault], query
        alternatives = [Linter(series()).labels(part) for part in query.split(" or ")]
        assert len(alternatives) == len(set(alternatives)), (
            f"`or` hides what has the labels of another: {query}"
        )


def test_there_are_no_runbooks_but_those_of_alerts() -> None:
    assert {alert.name for alert in ALERTS} | {"README"} == {path.stem for path in RUNBOOKS.glob("*.md")}


def test_no_alert_has_two_rules() -> None:
    assert [] == [name for name, count in Counter(alert.name for alert in ALERTS).items() if count > 1]


@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: str(path.relative_to(RULES)))
def test_a_rule_file_is_an_object_that_the_operator_takes(path: str) -> None:
    content = read_object(RULES / path)

    assert ("monitoring.coreos.com/v1", "PrometheusRule") == (content["apiVersion"], content["kind"])
    assert re.fullmatch(r"gpuledger-[a-z]+", content["metadata"]["name"])


def test_objects_and_groups_have_names_of_their_own() -> None:
    contents = [read_object(path) for path in RULE_FILES]
    groups = [group["name"] for content in contents for group in content["spec"]["groups"]]

    assert len(contents) == len({content["metadata"]["name"] for content in contents})
    assert len(groups) == len(set(groups))
