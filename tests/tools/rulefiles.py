"""The rules that ship, as they stand in `rules/`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
RULES = ROOT / "rules"
PLAIN = ROOT / "deploy" / "prometheus" / "rules"
RUNBOOKS = ROOT / "docs" / "runbooks"

RULE_FILES = tuple(sorted(RULES.rglob("*.yaml")))


@dataclass(frozen=True, slots=True)
class Rule:
    """A recording or alerting rule; `text` is what stands in its file, comments and all."""

    name: str
    expr: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    fields: Mapping[str, Any]
    text: str


def read_object(path: Path) -> Any:
    """The PrometheusRule object in a file."""
    return yaml.safe_load(path.read_text())


def _read_rules(path: Path) -> list[Rule]:
    rules = [rule for group in read_object(path)["spec"]["groups"] for rule in group["rules"]]
    texts = re.split(r"^ +- (?=alert:|record:)", path.read_text(), flags=re.MULTILINE)[1:]
    assert len(texts) == len(rules), path
    return [
        Rule(
            rule.get("alert") or rule["record"],
            rule["expr"],
            rule.get("labels", {}),
            rule.get("annotations", {}),
            rule,
            text,
        )
        for rule, text in zip(rules, texts, strict=True)
    ]


ALL = tuple(rule for path in RULE_FILES for rule in _read_rules(path))
ALERTS = tuple(rule for rule in ALL if "alert" in rule.fields)
RECORDINGS = tuple(rule for rule in ALL if "record" in rule.fields)
