"""docs/performance.md, rendered from what the benchmarks measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks import cluster, node

JUDGED = {"gpus": 8, "processes": 64}
"""The node that the budget is about: eight processes on each of eight GPUs."""
SCRAPE_LIMIT = 0.005

HEAD = """\
# Performance: what it costs, measured

`make bench` writes this page and its pictures; `make bench-full` measures longer. It needs root, gcc and a
few GiB of memory, no GPU: NVML is the tests' stand-in, a C library that the unmodified `pynvml` loads. CPU is
what the kernel has charged to a process, so that other load on the machine changes it little; what is timed
by the clock says so.

"""

NODE = """\
## Node role

Four programs read the same node in the same seconds, every second, each scraped every 15: `gpuledger node`
with all it does in a cluster (real processes in real cgroups, the kubelet's socket, log folders, a watch on
the API over TLS), [nvitop-exporter](https://pypi.org/project/nvitop-exporter/) as PyPI has it
(`requirements/bench.txt`), a loop over `prometheus_client` gauges as one writes it in an afternoon, and the
NVML calls alone that gpuledger makes in each cycle: nobody who makes them from Python pays less. A call takes
30 µs (PCIe throughput 20 ms, as nvml.h says), which costs the caller about 19 µs of CPU. Processes are dealt
out to the GPUs, each in a pod of its own.

"""

SCRAPES = """\
## Scrapes

8 GPUs with 64 processes; each scraper asks once a second. Times are by the clock, as the scraper sees them,
so load on the machine is in them. Stuck scrapers ask and never read the answer.

"""

STARTUP = """\
## Start

What a command has used before it does anything: the interpreter with the modules that it imports.

"""

CLUSTER = """\
## Cluster role

An API with so many pods, a fifth of them with GPUs, then 1,000 events a second. [scaling.md](scaling.md) says
why it grows so little.

"""

AUDIT = """\
## Audit

Beside the rules of the script that it replaces, on the same dump.

"""


def render_page(results: dict[str, Any]) -> str:
    """The page, with the parts that have been measured."""
    parts: dict[str, Callable[[Any], str]] = {
        "node": _node,
        "scrapes": _scrapes,
        "startup": _startup,
        "cluster": _cluster,
        "audit": _audit,
    }
    present = {name: render for name, render in parts.items() if name in results}
    sections = [render(results[name]["measured"]) + _footing(results[name]) for name, render in present.items()]
    return HEAD + _budgets(results) + "".join(sections).rstrip("\n") + "\n"


def _footing(result: dict[str, Any]) -> str:
    before, after = result["loads"]
    return f"\nOn {result['machine']}; load average {before:.1f} before and {after:.1f} after.\n\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _budgets(results: dict[str, Any]) -> str:
    rows = []
    if "node" in results:
        sides = _judged(results["node"]["measured"])
        own, other = sides["gpuledger"], sides["nvitop-exporter"]
        times = other["cpu"] / own["cpu"]
        rows += [
            _budget(
                "node role: CPU", "1/5 of nvitop-exporter's", f"1/{times:.1f}", kept=times >= 1 / node.CPU_LIMIT
            ),
            _budget(
                "node role: memory",
                f"{node.MEMORY_LIMIT:.0f} MiB",
                f"{own['memory']:.0f} MiB",
                kept=own["memory"] <= node.MEMORY_LIMIT,
            ),
        ]
    if "scrapes" in results:
        alone = results["scrapes"]["measured"][0]
        rows.append(
            _budget("scrape, p99 by the clock", "5 ms", _milli(alone["p99"]), kept=alone["p99"] <= SCRAPE_LIMIT)
        )
    if "cluster" in results:
        largest = results["cluster"]["measured"][-1]
        rows += [
            _budget(
                f"cluster role, {largest['pods']:,} pods: {name}",
                f"{most:g}",
                f"{largest[name]:.2f}",
                kept=largest[name] <= most,
            )
            for name, most in cluster.BUDGET.items()
        ]
    return "## Budgets\n\n" + _table(("what", "budget", "measured", "kept"), rows) + "\n"


def _budget(what: str, budget: str, measured: str, *, kept: bool) -> tuple[str, ...]:
    return (what, budget, measured, "yes" if kept else "**no**")


def _judged(measured: list[dict[str, Any]]) -> dict[str, Any]:
    sides: dict[str, Any] = next(
        size["sides"] for size in measured if all(size[key] == value for key, value in JUDGED.items())
    )
    return sides


def _node(measured: list[dict[str, Any]]) -> str:
    names = list(measured[0]["sides"])
    rows = []
    for size in measured:
        sides = size["sides"]
        own = sides["gpuledger"]
        cpu = [f"{sides[name]['cpu']:.2f}" for name in names]
        ratios = [
            f"1/{sides['nvitop-exporter']['cpu'] / own['cpu']:.1f}",
            f"{own['cpu'] / sides[names[-1]]['cpu']:.1f}",
        ]
        memory = [f"{sides[name]['memory']:.0f}" for name in names[:3]]
        rows.append([str(size["gpus"]), str(size["processes"]), *cpu, *ratios, *memory])
    head = [
        "GPUs",
        "processes",
        *(f"{name}, % CPU" for name in names),
        "to nvitop-exporter",
        "to the calls alone",
        *(f"{name}, MiB" for name in names[:3]),
    ]
    picture = "\n![CPU by processes and by GPUs](images/performance-node.svg)\n"
    return NODE + _table(head, rows) + picture


def _scrapes(measured: list[dict[str, Any]]) -> str:
    head = (
        "exporter",
        "scrapers",
        "stuck beside",
        "median",
        "p99",
        "longest",
        "CPU of one",
        "longest between cycles",
    )
    rows = [
        (
            latency["side"],
            str(latency["scrapers"]),
            str(latency["stuck"]),
            *(_milli(latency[key]) for key in ("median", "p99", "longest", "cpu")),
            "" if latency["cycle_gap"] is None else f"{latency['cycle_gap']:.2f} s",
        )
        for latency in measured
    ]
    return SCRAPES + _table(head, rows)


def _milli(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"


def _startup(measured: list[dict[str, Any]]) -> str:
    rows = [
        (
            f"`{start['command']}`" if start["command"] else "Python alone",
            f"{start['cpu']:.2f}",
            f"{start['memory']:.0f}",
        )
        for start in measured
    ]
    return STARTUP + _table(("command", "CPU, s", "peak memory, MiB"), rows)


def _cluster(measured: list[dict[str, Any]]) -> str:
    rows = [
        [f"{cell:,}" if isinstance(cell, int) else f"{cell:,.2f}" for cell in cost.values()]
        for cost in measured
    ]
    picture = "\n![CPU and memory by pods](images/performance-cluster.svg)\n"
    return CLUSTER + cluster.HEAD + "".join(f"| {' | '.join(cells)} |\n" for cells in rows) + picture


def _audit(measured: str) -> str:
    return f"{AUDIT}```\n{measured}```\n"
