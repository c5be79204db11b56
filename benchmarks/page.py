"""docs/performance.md: performance.md.in with the tables of what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from string import Template
from typing import Any

from benchmarks import cluster, node

TEMPLATE = Path(__file__).with_name("performance.md.in")

SCRAPE_LIMIT = 0.005
JUDGED_SCRAPERS = 10
"""So many that a hundredth of their scrapes is more than one."""

Cells = Sequence[str]


def render_page(results: dict[str, Any]) -> str:
    """The page, from what each part measured."""
    parts: dict[str, Callable[[Any], str]] = {
        "node": _node,
        "scrapes": _scrapes,
        "startup": _startup,
        "cluster": _cluster,
        "audit": lambda printed: f"```\n{printed}```\n",
    }
    tables = {
        name: render(results[name]["measured"]) + _footing(results[name]) for name, render in parts.items()
    }
    budgets = _table(("what", "budget", "measured", "kept"), _budgets(results))
    return Template(TEMPLATE.read_text()).substitute(tables, budgets=budgets.rstrip("\n"))


def _footing(result: dict[str, Any]) -> str:
    before, after = result["loads"]
    return f"\nOn {result['machine']}; load average {before:.1f} before and {after:.1f} after."


def _table(head: Cells, rows: Iterable[Cells]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *rows))


def _budgets(results: dict[str, Any]) -> Iterator[Cells]:
    sides = next(
        size["sides"]
        for size in results["node"]["measured"]
        if node.Size(size["gpus"], size["processes"]) == node.JUDGED
    )
    own, other = sides["gpuledger"], sides["nvitop-exporter"]
    times, memory = other["cpu"] / own["cpu"], own["memory"]
    yield _budget("node role: CPU", "1/5 of nvitop-exporter's", f"1/{times:.1f}", times * node.CPU_LIMIT >= 1)
    most = node.MEMORY_LIMIT
    yield _budget("node role: memory", f"{most:.0f} MiB", f"{memory:.0f} MiB", memory <= most)
    p99 = next(each["p99"] for each in results["scrapes"]["measured"] if each["scrapers"] == JUDGED_SCRAPERS)
    yield _budget("node role: p99 of a scrape, by the clock", "5 ms", _milli(p99), p99 <= SCRAPE_LIMIT)
    largest = results["cluster"]["measured"][-1]
    for name, (title, limit, unit) in cluster.BUDGET.items():
        what = f"cluster role, {largest['pods']:,} pods: {title}"
        yield _budget(what, f"{limit:g} {unit}", f"{largest[name]:.2f} {unit}", largest[name] <= limit)


def _budget(what: str, budget: str, measured: str, kept: bool) -> Cells:  # noqa: FBT001 - the last column
    return (what, budget, measured, "yes" if kept else "**no**")


def _node(measured: list[dict[str, Any]]) -> str:
    names = list(measured[0]["sides"])
    with_memory = names[:-1]
    head = [
        "GPUs",
        "processes",
        *(f"{name}, % CPU" for name in names),
        "of nvitop-exporter",
        "times the calls alone",
        *(f"{name}, MiB" for name in with_memory),
    ]
    return _table(head, (_node_row(size, names, with_memory) for size in measured))


def _node_row(size: dict[str, Any], names: Cells, with_memory: Cells) -> Cells:
    sides = size["sides"]
    own, other, floor = (sides[name]["cpu"] for name in ("gpuledger", "nvitop-exporter", names[-1]))
    cpu = [f"{sides[name]['cpu']:.2f}" for name in names]
    memory = [f"{sides[name]['memory']:.0f}" for name in with_memory]
    return [
        str(size["gpus"]),
        str(size["processes"]),
        *cpu,
        f"1/{other / own:.1f}",
        f"{own / floor:.1f}",
        *memory,
    ]


def _scrapes(measured: list[dict[str, Any]]) -> str:
    head = ["exporter", "scrapers", "stuck", "median", "p99", "longest", "CPU of one", "longest between cycles"]
    rows = (
        [
            each["side"],
            str(each["scrapers"]),
            str(each["stuck"]),
            *(_milli(each[key]) for key in ("median", "p99", "longest", "cpu")),
            "" if each["cycle_gap"] is None else f"{each['cycle_gap']:.2f} s",
        ]
        for each in measured
    )
    return _table(head, rows)


def _milli(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"


def _startup(measured: list[dict[str, Any]]) -> str:
    rows = (
        [each["command"] or "the interpreter alone", f"{each['cpu']:.2f}", f"{each['memory']:.0f}"]
        for each in measured
    )
    return _table(("command", "CPU, s", "memory, MiB"), rows)


def _cluster(measured: list[dict[str, Any]]) -> str:
    rows = (
        [f"{cell:,}" if isinstance(cell, int) else f"{cell:,.2f}" for cell in cost.values()]
        for cost in measured
    )
    return cluster.HEAD + "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
