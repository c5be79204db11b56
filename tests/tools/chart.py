"""The Helm chart, rendered by the real engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from helm_python import Chart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "gpuledger"
NAME = "gpuledger"
"""Of the release and of its namespace."""


def render_text(values: Mapping[str, Any] | None = None, name: str = NAME) -> dict[str, str]:
    """What each template of the chart renders to; raises HelmError with the engine's message."""
    with Chart.load(CHART) as chart:
        return chart.render(dict(values or {}), name=name, namespace=NAME)


def render(values: Mapping[str, Any] | None = None, name: str = NAME) -> list[dict[str, Any]]:
    """The objects that the chart renders to."""
    rendered = sorted(render_text(values, name).items())
    texts = [text for path, text in rendered if path.endswith(".yaml")]
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def only(objects: Iterable[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    """The one object of that kind, and that name, where one is given."""
    found = [each for each in objects if each["kind"] == kind and name in ("", each["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]
