"""Exposition text kept per object and joined at a scrape, so that a scrape costs no rendering.

The cluster role's page has some 300,000 series, of which few change between two scrapes. kube-state-metrics
does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpuledger.core.spec import MetricSpec
from gpuledger.metrics.exposition import Row, render_head, render_series

Lines = tuple[bytes, ...]
"""An object's series as text, one entry for each family of its cache."""

Column = tuple[MetricSpec, list[bytes]]
"""A family with the text of every object that has it."""


def render_lines(specs: Iterable[MetricSpec], rows: Mapping[str, Iterable[Row]]) -> Lines:
    """The text of one object's rows, given by metric name."""
    return tuple(render_series(spec, rows.get(spec.name, ())).encode() for spec in specs)


class ObjectCache:
    """The series of objects of one kind; it is not for use by two threads at once."""

    def __init__(self, specs: Sequence[MetricSpec]) -> None:
        self._specs = specs
        self._lines: dict[str, Lines] = {}

    def put(self, key: str, rows: Mapping[str, Iterable[Row]]) -> None:
        """Show these rows, given by metric name, for the object in place of those before."""
        self._lines[key] = render_lines(self._specs, rows)

    def put_lines(self, key: str, lines: Lines) -> None:
        """As `put`, for whoever has rendered them already."""
        self._lines[key] = lines

    def remove(self, key: str) -> None:
        """Show the object no longer; it need not be there."""
        self._lines.pop(key, None)

    def columns(self) -> list[Column]:
        """What there is now, to be joined at leisure."""
        lines = list(self._lines.values())
        return [(spec, [each[index] for each in lines]) for index, spec in enumerate(self._specs)]


def join_columns(
    columns: Iterable[Column], *, limit: int, openmetrics: bool
) -> tuple[list[bytes], Mapping[str, int]]:
    """The page of these families in pieces, and by name how many series of each were cut off at the limit."""
    page: list[bytes] = []
    dropped: dict[str, int] = {}
    for spec, texts in columns:
        text = b"".join(texts)
        over = text.count(b"\n") - limit
        if over > 0:
            dropped[spec.name] = over
            text = text[: -len(text.split(b"\n", limit)[-1])]
        if text:
            page += [render_head(spec, openmetrics=openmetrics).encode(), text]
    return page, dropped
