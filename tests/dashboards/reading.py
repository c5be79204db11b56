"""The dashboards that ship, as Grafana would read them: panels, queries, variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "dashboards"

INTERVALS = {
    "$__rate_interval": "10s",
    "[$__range:1h]": "[1m:1s]",
    "$__range": "5m",
    "$__interval": "1s",
}
"""What Grafana would fill in, for tests in which an hour lasts a second."""

EVERYTHING = ".*"
"""What `All` stands for in a variable."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel; `place` names dashboard, panel and query."""

    place: str
    ref: str
    expr: str
    instant: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel; `json` is all that Grafana has of it, `board` its dashboard's uid."""

    board: str
    title: str
    kind: str
    queries: tuple[Query, ...]
    json: Mapping[str, Any]

    @property
    def defaults(self) -> Mapping[str, Any]:
        """What holds for each of its fields."""
        return self.json.get("fieldConfig", {}).get("defaults", {})  # type: ignore[no-any-return]

    def properties(self, name: str) -> Iterator[Any]:
        """The values of a field property, by default and in overrides."""
        if name in self.defaults:
            yield self.defaults[name]
        for override in self.json.get("fieldConfig", {}).get("overrides", ()):
            yield from (p["value"] for p in override["properties"] if p["id"] == name)

    @property
    def links(self) -> list[str]:
        """Where its cells lead."""
        return [link["url"] for links in self.properties("links") for link in links]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard; `panels` leaves out rows, and takes in what is in them."""

    uid: str
    panels: tuple[Panel, ...]
    json: Mapping[str, Any]

    @property
    def variables(self) -> dict[str, Mapping[str, Any]]:
        """Its variables by name, the data source too."""
        return {variable["name"]: variable for variable in self.json["templating"]["list"]}


def _panels(board: str, panels: list[Any]) -> Iterator[Panel]:
    for panel in panels:
        if panel["type"] == "row":
            yield from _panels(board, panel.get("panels", []))
            continue
        title = panel.get("title", "")
        queries = tuple(
            Query(f"{board}-{title}-{t['refId']}", t["refId"], t["expr"], bool(t.get("instant")))
            for t in panel.get("targets", ())
        )
        yield Panel(board, title, panel["type"], queries, panel)


def parse_dashboard(text: str) -> Dashboard:
    """A dashboard from its JSON."""
    document = json.loads(text)
    uid = document["uid"]
    return Dashboard(uid, tuple(_panels(uid, document["panels"])), document)


DASHBOARDS = tuple(parse_dashboard(path.read_text()) for path in sorted(FOLDER.glob("*.json")))
PANELS = tuple(panel for dashboard in DASHBOARDS for panel in dashboard.panels)
QUERIES = tuple(query for panel in PANELS for query in panel.queries)
VARIABLES = {
    f"{dashboard.uid}-{name}": variable
    for dashboard in DASHBOARDS
    for name, variable in dashboard.variables.items()
    if variable["type"] == "query"
}


def fill(text: str, values: Mapping[str, str] | None = None) -> str:
    """A query with its variables filled in, by default with everything."""
    for name, value in INTERVALS.items():
        text = text.replace(name, value)
    return re.sub(r"\$\{?(\w+)\}?", lambda found: (values or {}).get(found[1], EVERYTHING), text)
