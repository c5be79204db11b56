"""Pages of exporters recorded scrape by scrape, as the input of promtool's tests of rules."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tools.fetch import binary
from tools.rulefiles import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LOOKED_AT = frozenset(re.findall(r"gpuledger_\w+", "".join(p.read_text() for p in PLAIN.rglob("*.yaml"))))
"""Names that rules may look at; nothing else of a page is kept."""


class Recording:
    """What Prometheus would have kept of scrapes that follow each other at an even interval."""

    def __init__(self) -> None:
        self._scrapes = 0
        self._values: dict[str, list[str | None]] = {}

    def scrape(self, pages: Mapping[str, str]) -> None:
        """Take in the page of each instance."""
        for instance, page in pages.items():
            for line in page.splitlines():
                series, _, value = line.rpartition(" ")
                name, brace, labels = series.partition("{")
                if name in LOOKED_AT:
                    known = f'{name}{{instance="{instance}"{f", {labels}" if brace else "}"}'
                    values = self._values.setdefault(known, [])
                    values += [None] * (self._scrapes - len(values))
                    values.append(value)
        self._scrapes += 1

    def input_series(self) -> Iterator[dict[str, str]]:
        """Each series in promtool's notation, stale where a scrape no longer had it."""
        for series, values in self._values.items():
            yield {"series": series, "values": " ".join(_notation(values, self._scrapes))}


def _notation(values: list[str | None], scrapes: int) -> Iterator[str]:
    known = False
    for value, run in groupby([*values, *[None] * (scrapes - len(values))]):
        count = len(list(run))
        if value is None and known:
            yield "stale"
            count -= 1
        if value is not None:
            yield f"{value}x{count - 1}"
        elif count:
            yield f"_x{count}"
        known = value is not None


def failures(version: str, recording: Recording, folder: Path, query: Mapping[str, Any]) -> str:
    """What promtool has to say against `query`, a promql_expr_test, after scrapes a minute apart."""
    document = {
        "rule_files": [str(path) for path in PLAIN.rglob("*.yaml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": list(recording.input_series()),
                "promql_expr_test": [query],
            }
        ],
    }
    case = folder / "case.json"  # JSON is YAML
    case.write_text(json.dumps(document))
    command = [str(binary(version, "promtool")), "test", "rules", str(case)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr
