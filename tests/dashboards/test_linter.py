"""The dashboards pass dashboard-linter, but for what `dashboards/.lint` says with reasons."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dashboards.linter import OF_DASHBOARD, OF_PANEL, OF_TARGET, Complaint, lint
from dashboards.reading import DASHBOARDS, FOLDER, Dashboard, parse_dashboard

EXCLUSIONS: dict[str, Any] = yaml.safe_load((FOLDER / ".lint").read_text())["exclusions"]

BROKEN = """{
  "uid": "broken", "title": "Broken", "editable": true,
  "templating": {"list": [
    {"name": "datasource", "type": "datasource", "query": "loki", "label": "Data source"},
    {"name": "node", "type": "query", "query": "label_values(up{, node)", "refresh": 1}
  ]},
  "panels": [
    {"title": "Bare", "type": "stat", "datasource": {"uid": "fixed"}, "targets": []},
    {"title": "Wrong", "description": "Wrong.", "type": "timeseries", "datasource": {"uid": "${datasource}"},
     "fieldConfig": {"defaults": {"unit": "parsecs"}},
     "targets": [{"refId": "A", "expr": "rate(a_total[1m])"}, {"refId": "B", "expr": "a_total"},
                 {"refId": "C", "expr": "sum("}, {"refId": "D", "expr": "a |= b"}]}
  ]
}"""


def excused(complaint: Complaint) -> bool:
    exclusion = EXCLUSIONS.get(complaint.rule)
    if exclusion is None:
        return False
    places = [(entry["dashboard"], entry["panel"]) for entry in exclusion.get("entries", ())]
    return not places or (complaint.dashboard, complaint.panel) in places


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_a_dashboard_passes(dashboard: Dashboard) -> None:
    assert [] == [complaint for complaint in lint(dashboard) if not excused(complaint)]


def test_each_excuse_is_needed_and_has_a_reason() -> None:
    complaints = {(c.rule, c.dashboard, c.panel) for dashboard in DASHBOARDS for c in lint(dashboard)}
    for rule, exclusion in EXCLUSIONS.items():
        assert exclusion["reason"]
        assert rule in {broken for broken, *_ in complaints}
        for entry in exclusion.get("entries", ()):
            assert entry["reason"]
            assert (rule, entry["dashboard"], entry["panel"]) in complaints


def test_every_rule_can_fail() -> None:
    complaints = list(lint(parse_dashboard(BROKEN)))

    assert {*OF_DASHBOARD, *OF_PANEL, *OF_TARGET} == {complaint.rule for complaint in complaints}
    assert Complaint("target-counter-agg-rule", "Broken", "Wrong", "B") in complaints
    assert Complaint("target-rate-interval-rule", "Broken", "Wrong", "A") in complaints
