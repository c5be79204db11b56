"""PromQL looked at without running it: which series an expression selects, and which labels its result has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import promql_parser as promql

from gpuledger.metrics import catalog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TARGET = frozenset({"cluster", "job", "instance"})
"""Labels that Prometheus itself gives a series: the target's, and the external `cluster` where there is one."""

FOREIGN: Mapping[str, frozenset[str]] = {
    "kube_node_info": frozenset({"node"}),
    "kube_node_status_capacity": frozenset({"node", "resource", "unit"}),
    "up": frozenset(),
    "ALERTS": frozenset({"alertname", "alertstate", "node", "gpu_uuid"}),
}
"""Metrics of kube-state-metrics and of Prometheus itself, with those of their labels that we use."""

COUNTER_FUNCTIONS = frozenset({"rate", "irate", "increase", "resets"})

CATALOGUE: Mapping[str, frozenset[str]] = {
    **{spec.full_name: frozenset(spec.labels) for spec in catalog.SPECS},
    **FOREIGN,
}
COUNTERS = frozenset(spec.full_name for spec in catalog.SPECS if spec.kind == "counter")

_SET_OPERATORS = frozenset({"and", "or", "unless"})
_CHOOSING = frozenset({"topk", "bottomk"})
"""Aggregations whose result has the series that they chose, whole."""


@dataclass(frozen=True, slots=True)
class Linter:
    """Finds what is wrong with expressions; `series` are the metrics that exist, with their labels."""

    series: Mapping[str, frozenset[str]] = field(default_factory=lambda: CATALOGUE)
    levels: frozenset[str] = frozenset()
    """Counters whose level may be compared."""

    def faults(self, text: str) -> list[str]:
        """Unknown metrics and labels, counters without rate, rates of gauges, places that drop `cluster`."""
        try:
            expression = promql.parse(text)
        except ValueError as error:
            return [f"{error}: {text}"]
        return [*self._selectors(expression, ""), *self._groupings(expression)]

    def labels(self, text: str) -> frozenset[str]:
        """The labels that the result may have."""
        return self._labels(promql.parse(text))

    def _selectors(self, node: Any, function: str) -> Iterator[str]:
        """Faults of every selector below `node`, which is an argument of `function`."""
        if isinstance(node, promql.VectorSelector):
            yield from self._selector(node, function)
        elif isinstance(node, promql.MatrixSelector):
            yield from self._selector(node.vector_selector, function)
        else:
            called = node.func.name if isinstance(node, promql.Call) else ""
            for child in _children(node):
                yield from self._selectors(child, called)

    def _selector(self, selector: promql.VectorSelector, function: str) -> Iterator[str]:
        name = selector.name or ""
        if name not in self.series:
            yield f"{name or selector}: no such metric"
            return
        for matcher in selector.matchers.matchers:
            if matcher.name not in self.series[name] | TARGET:
                yield f"{name} has no label {matcher.name}"
        if name in COUNTERS - self.levels and function not in COUNTER_FUNCTIONS:
            yield f"{name} is a counter: take its rate or increase"
        if name not in COUNTERS and function in COUNTER_FUNCTIONS:
            yield f"{name} is no counter: {function} of it means nothing"

    def _groupings(self, node: Any) -> Iterator[str]:
        """Faults of every `by` and `on` below `node`."""
        for child in _children(node):
            yield from self._groupings(child)
        if isinstance(node, promql.AggregateExpr):
            yield from self._grouping(_by(node), node.expr)
        elif isinstance(node, promql.BinaryExpr) and (on := _on(node)) is not None:
            for side in (node.lhs, node.rhs):
                yield from self._grouping(on, side)

    def _grouping(self, labels: list[str], of: Any) -> Iterator[str]:
        if "cluster" not in labels:
            yield f"cluster is dropped: ({', '.join(labels)}) of {of.prettify()}"
        for label in set(labels) - self._labels(of):
            yield f"no label {label} in {of.prettify()}"

    def _labels(self, node: Any) -> frozenset[str]:
        if isinstance(node, promql.VectorSelector):
            return self.series.get(node.name or "", frozenset()) | TARGET
        if isinstance(node, promql.MatrixSelector):
            return self._labels(node.vector_selector)
        if isinstance(node, promql.AggregateExpr) and str(node.op) not in _CHOOSING:
            return frozenset(_by(node))
        if isinstance(node, promql.BinaryExpr):
            return self._labels_of_operation(node)
        if isinstance(node, promql.Call) and node.func.name == "absent":
            return frozenset()
        children = [self._labels(child) for child in _children(node)]
        return frozenset().union(*children)

    def _labels_of_operation(self, node: promql.BinaryExpr) -> frozenset[str]:
        left, right = self._labels(node.lhs), self._labels(node.rhs)
        operator, on = str(node.op).strip(), _on(node)
        if operator in _SET_OPERATORS:
            return left | right if operator == "or" else left
        if node.modifier is not None and node.modifier.group_labels is not None:
            return left | frozenset(node.modifier.group_labels)
        return frozenset(on) if on is not None else left or right


def _by(node: promql.AggregateExpr) -> list[str]:
    """The labels that are kept; our style has no `without`."""
    modifier = node.modifier
    return [] if modifier is None or modifier.type != promql.AggModifierType.By else modifier.labels


def _on(node: promql.BinaryExpr) -> list[str] | None:
    matching = node.modifier.matching if node.modifier is not None else None
    if matching is None or matching.type != promql.LabelModifierType.Include:
        return None
    return matching.labels


def _children(node: Any) -> list[Any]:
    if isinstance(node, promql.BinaryExpr):
        return [node.lhs, node.rhs]
    if isinstance(node, promql.Call):
        return list(node.args)
    if isinstance(node, promql.AggregateExpr | promql.ParenExpr | promql.UnaryExpr | promql.SubqueryExpr):
        return [node.expr]
    return []
