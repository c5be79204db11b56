"""What the documentation quotes is what the program says and Prometheus understands."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.documented import read_queries
from tools.fetch import binary
from tools.promql import Linter

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()

VARIES = "…"
"""Stands in a quoted message for what differs from case to case."""

_PREFIX = re.compile(r"^(gpuledger \w+|kube|nvml|procfs|podlogs): ")
"""What the log and the command line put before a message."""


def quoted_messages() -> Iterator[str]:
    """Lines of the blocks marked `log`, and what the columns headed `line` or `log` quote."""
    for block in re.findall(r"^ *```log\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL):
        yield from (line.strip() for line in block.splitlines() if line.strip())
    for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        head, _, *rows = (
            [cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table.splitlines()
        )
        for column in (number for number, title in enumerate(head) if title in ("line", "log")):
            for row in rows:
                yield from re.findall(r"`([^`]+)`", row[column])


def program_texts() -> Iterator[str]:
    """Every string of the program, with `VARIES` where something is filled in."""
    for path in (ROOT / "exporter" / "gpuledger").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else VARIES for part in node.values)
                yield "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"%[sdr]", VARIES, node.value)


MESSAGES = sorted(set(quoted_messages()))
TEXTS = "\n".join(program_texts())


@pytest.mark.parametrize("message", MESSAGES)
def test_the_program_says_what_is_quoted(message: str) -> None:
    parts = [part.strip() for part in _PREFIX.sub("", message).split(VARIES)]

    assert [] == [part for part in parts if part not in TEXTS]


def test_messages_are_quoted() -> None:
    assert len(MESSAGES) > 20


@pytest.mark.parametrize("page", ["install.md", "troubleshooting.md", "migration.md", "comparison.md"])
def test_queries_ask_for_what_there_is(page: str) -> None:
    assert {} == {
        title: faults for title, query in read_queries(page).items() if (faults := Linter().faults(query))
    }


def test_prometheus_takes_the_scrape_job_as_printed(tmp_path: Path) -> None:
    (job,) = re.findall(
        r"```yaml\n(scrape_configs:.*?)```", (ROOT / "docs" / "install.md").read_text(), re.DOTALL
    )
    config = tmp_path / "prometheus.yml"
    config.write_text(job)

    subprocess.run(
        [binary("prometheus-3", "promtool"), "check", "config", config], check=True, capture_output=True
    )
    assert "honor_labels: true" in job
