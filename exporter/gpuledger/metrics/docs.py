"""docs/metrics.md from the catalogue: `python -m gpuledger.metrics.docs [--check] FILE`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuledger.core.spec import MetricSpec
from gpuledger.metrics import catalog

HEAD = """\
# Metrics

Generated from `exporter/gpuledger/metrics/catalog/` by `make docs`; change it there.

All names begin with `gpuledger_`. Units are bytes, seconds, ratios from 0 to 1, joules, watts, degrees Celsius
and hertz. A series that is absent is unknown or not supported (then it is named in
`gpuledger_gpu_unsupported`); it is never written as 0.
"""


def render_docs() -> str:
    """The page."""
    return HEAD + "".join(_section(title, specs) for title, specs in catalog.SECTIONS)


def _section(title: str, specs: Sequence[MetricSpec]) -> str:
    rows = "".join(
        f"| `{spec.full_name}` | {spec.kind} | {', '.join(spec.labels)} | {spec.help} | {_source(spec)} |\n"
        for spec in specs
    )
    return f"\n## {title}\n\n| metric | type | labels | meaning | source |\n|---|---|---|---|---|\n{rows}"


def _source(spec: MetricSpec) -> str:
    return f"`{spec.source}`" if spec.source else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or with --check only compare it; 1 when it differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args(argv)
    page = render_docs()
    if not arguments.check:
        arguments.file.write_text(page, encoding="utf-8")
        return 0
    if arguments.file.read_text(encoding="utf-8") == page:
        return 0
    sys.stderr.write(f"{arguments.file} does not match the catalogue; run make docs\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
