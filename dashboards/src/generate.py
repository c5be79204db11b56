"""Writes the dashboards that this folder declares as JSON into the folder above.

`python dashboards/src/generate.py` writes; with --check it only compares, and fails where a file differs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

import audit
import exporter
import fleet
import gpu
import pod
import workloads

BOARDS = tuple(module.BOARD for module in (fleet, gpu, workloads, pod, audit, exporter))
FOLDER = Path(__file__).resolve().parents[1]


def render_dashboards() -> dict[Path, str]:
    """Every dashboard's file with the text that it should have."""
    encode = JSONEncoder(sort_keys=True, indent=2).encode
    return {FOLDER / f"{dashboard.uid}.json": encode(dashboard) + "\n" for dashboard in BOARDS}


def main(arguments: Sequence[str]) -> int:
    """Write all, or with --check name what differs; 1 when something does."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    texts = render_dashboards()
    stray = set(FOLDER.glob("*.json")) - texts.keys()
    differing = {path for path, text in texts.items() if not path.exists() or path.read_text() != text} | stray
    if arguments:
        for path in sorted(differing):
            sys.stderr.write(f"{path.relative_to(FOLDER.parent)} is out of date; run make dashboards\n")
        return 1 if differing else 0
    for path in stray:
        path.unlink()
    for path in differing - stray:
        path.write_text(texts[path])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
