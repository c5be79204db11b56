"""Families written out as Prometheus text or OpenMetrics.

Its own writer, since prometheus_client's takes about 8 microseconds a sample and this one 0.4: see
docs/decisions/0002-exposition.md. What is written is held to prometheus_client's parsers in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite

from gpuledger.core.spec import MetricSpec

Row = tuple[tuple[str, ...], float]
"""Label values in the order of the spec's labels, and the value."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its series, checked: a row with too few labels would shift values between labels."""

    spec: MetricSpec
    rows: Sequence[Row]

    def __post_init__(self) -> None:
        width = len(self.spec.labels)
        for labels, _ in self.rows:
            if len(labels) != width:
                raise ValueError(f"{self.spec.name}: {len(labels)} label values for {width} labels: {labels}")


def render_text(families: Iterable[Family]) -> str:
    """The families in Prometheus' text format, version 0.0.4."""
    return "".join(render_head(family.spec) + _series(family) for family in families)


def render_openmetrics(families: Iterable[Family]) -> str:
    """The families in OpenMetrics 1.0, without the closing `# EOF`."""
    return "".join(render_head(family.spec, openmetrics=True) + _series(family) for family in families)


def render_head(spec: MetricSpec, *, openmetrics: bool = False) -> str:
    """What stands before the series of a family; OpenMetrics knows no counter whose name lacks `_total`."""
    title = spec.full_name.removesuffix("_total") if openmetrics else spec.full_name
    kind = "unknown" if openmetrics and spec.kind == "counter" and title == spec.full_name else spec.kind
    return f"# HELP {title} {_escape_help(spec.help)}\n# TYPE {title} {kind}\n"


def render_series(spec: MetricSpec, rows: Iterable[Row]) -> str:
    """The series of a family alone, which both formats write alike: for whoever keeps the text himself."""
    return "".join([f"{spec.full_name}{_labels(spec.labels, row)} {_number(value)}\n" for row, value in rows])


def _series(family: Family) -> str:
    spec = family.spec
    name = spec.full_name
    return "".join([f"{name}{_kept_labels(spec.labels, row)} {_number(value)}\n" for row, value in family.rows])


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not names:
        return ""
    pairs = [f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True)]
    return "{" + ",".join(pairs) + "}"


_kept_labels = lru_cache(maxsize=4096)(_labels)
"""A full node shows about 1,000 label sets, of 0.9 KiB each; those of pods long gone must not pile up."""


def _escape(value: str) -> str:
    """Escape a label value; what UTF-8 can't say (a lone surrogate from a file name) is replaced."""
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return escaped.encode(errors="replace").decode()


def _escape_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _number(value: float) -> str:
    if isfinite(value):
        return repr(value)
    return "NaN" if value != value else ("+Inf" if value > 0 else "-Inf")  # noqa: PLR0124 - NaN differs from itself
