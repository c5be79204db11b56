"""Draws the benchmarks' growth curves: `.cache/bench/bin/python curves.py RESULTS.json FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "gpuledger", "svg.fonttype": "none", "font.size": 9})

from matplotlib import pyplot as plt  # noqa: E402 - after the choice of what draws


def main() -> None:
    """Write a picture for each part that has been measured."""
    results, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    if "node" in results:
        draw_node(results["node"]["measured"], folder / "performance-node.svg")
    if "cluster" in results:
        draw_cluster(results["cluster"]["measured"], folder / "performance-cluster.svg")


def draw_node(measured: list[dict[str, Any]], path: Path) -> None:
    """CPU of each side by processes on 8 GPUs, and by GPUs with 64 processes."""
    figure, (by_processes, by_gpus) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name in measured[0]["sides"]:
        for axes, key, fixed in (
            (by_processes, "processes", ("gpus", 8)),
            (by_gpus, "gpus", ("processes", 64)),
        ):
            at = [size for size in measured if size[fixed[0]] == fixed[1]]
            axes.plot([s[key] for s in at], [s["sides"][name]["cpu"] for s in at], marker="o", label=name)
    by_processes.set(xlabel="processes on 8 GPUs", ylabel="CPU, % of a core", ylim=(0, None))
    by_gpus.set(xlabel="GPUs, with 64 processes", ylim=(0, None))
    by_processes.legend(frameon=False)
    save(figure, path)


def draw_cluster(measured: list[dict[str, Any]], path: Path) -> None:
    """CPU of the first list and of a scrape, and memory, by pods."""
    figure, (seconds, memory) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    pods = [cost["pods"] for cost in measured]
    for key, label in (("list_cpu", "first list"), ("scrape_cpu", "scrape")):
        seconds.loglog(pods, [cost[key] for cost in measured], marker="o", label=label)
    seconds.set(xlabel="pods", ylabel="CPU seconds")
    seconds.legend(frameon=False)
    memory.plot([count / 1000 for count in pods], [cost["memory_after"] for cost in measured], marker="o")
    memory.set(xlabel="thousand pods", ylabel="resident MiB", ylim=(0, None))
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write the picture, the same bytes for the same figures."""
    figure.savefig(path, metadata={"Date": None})


main()
