"""Every query of every panel, and every variable, finds data in a real Prometheus that scrapes exporters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from dashboards.reading import PANELS, QUERIES, VARIABLES, Query, fill
from dashboards.rig import CLUSTER, DEMO
from fakes.world import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.rig import Rig
    from tools.prometheus import Prometheus, Sample

pytestmark = pytest.mark.e2e

PATIENCE_S = 10

OR_ZERO = re.compile(r" or 0 \* count\(\w+(\{[^}]*\})?( == 1)?\)")
"""The 0 of a query that found nothing, which is no data."""


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.place)
def test_a_query_finds_data(rig: Rig, query: Query) -> None:
    expr = fill(query.expr)
    rig.prometheus.wait_for(OR_ZERO.sub("", expr), timeout=PATIENCE_S)
    rig.prometheus.query(expr)


@pytest.mark.parametrize("variable", VARIABLES.values(), ids=VARIABLES.keys())
def test_a_variable_has_values(rig: Rig, variable: Mapping[str, Any]) -> None:
    assert values_of(rig.prometheus, variable)


def values_of(prometheus: Prometheus, variable: Mapping[str, Any]) -> list[str]:
    """What Grafana would offer."""
    query = fill(variable["query"])
    if found := re.fullmatch(r"label_values\((?:(.*), )?(\w+)\)", query):
        return prometheus.label_values(found[2], found[1])
    found = re.fullmatch(r"query_result\((.*)\)", query)
    assert found, query
    pattern = re.compile(variable["regex"].strip("/").replace("(?<", "(?P<"))
    texts = [
        "{" + ", ".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items())) + "} 1 0"
        for sample in prometheus.query(found[1])
    ]
    return [match["value"] for text in texts if (match := pattern.search(text))]


TRAIN = {"namespace": "research", "pod": "train-0", "workload": "train"}

TRUTH: list[tuple[str, Mapping[str, str], dict[str, float]]] = [
    ("gpuledger-fleet-GPUs lost-A", {}, {"": 1}),
    ("gpuledger-fleet-To recover-A", {}, {"": 0}),
    ("gpuledger-fleet-Critical XIDs-A", {}, {"": 1}),
    ("gpuledger-fleet-Slowed down-A", {}, {"": 1}),
    ("gpuledger-fleet-Nodes unwatched-A", {}, {"": 1}),
    ("gpuledger-fleet-GPUs-A", {}, {"": 5 + 1}),
    ("gpuledger-fleet-Held-A", {}, {"": 4}),
    ("gpuledger-fleet-Held and idle-A", {}, {"": 1}),
    ("gpuledger-fleet-Free-A", {}, {"": 1}),
    ("gpuledger-fleet-Pods waiting by reason-A", {}, {"insufficient-gpu": 1}),
    ("gpuledger-gpu-GPUs that answer-A", {"node": "gpu-node-2"}, {"": 1}),
    ("gpuledger-gpu-Driver-A", {"node": "gpu-node-2"}, {"570.124.06": 1}),
    ("gpuledger-workloads-Quotas now-C", TRAIN, {"research gpus requests.nvidia.com/gpu": 0.75}),
    ("gpuledger-workloads-Held-A", TRAIN, {"nvidia.com/gpu": 1}),
    ("gpuledger-workloads-Efficiency-A", TRAIN, {"": 0.6}),
    ("gpuledger-pod-Phase-A", TRAIN, {"Running": 1}),
    ("gpuledger-pod-SM-A", TRAIN, {"": 0.6}),
    ("gpuledger-pod-GPU memory-A", TRAIN, {"": 20_000 * MIB}),
    ("gpuledger-pod-Owner-A", TRAIN, {"train false StatefulSet": 1}),
    ("gpuledger-pod-Restarts-A", {"namespace": "research", "pod": "flaky-9r5wt"}, {"": 7}),
    ("gpuledger-pod-Containers-B", {"namespace": "research", "pod": "flaky-9r5wt"}, {"main 137 OOMKilled": 1}),
    ("gpuledger-audit-Excused-A", {}, {"": 2}),
    ("gpuledger-exporter-Web configurations-A", {"node": "gpu-node-1"}, {"test gpu-node-1": 1}),
    ("gpuledger-exporter-Sources down-A", {}, {"": 1}),
    ("gpuledger-exporter-Sources down-A", {"node": "gpu-node-1"}, {"": 0}),
]
"""What the rig's panels must show with some choice of variables: values by what tells the series apart."""


@pytest.mark.parametrize(
    ("place", "chosen", "shown"),
    TRUTH,
    ids=[f"{place}-{'-'.join(chosen.values())}" for place, chosen, _ in TRUTH],
)
def test_a_panel_tells_the_truth(
    rig: Rig, place: str, chosen: Mapping[str, str], shown: dict[str, float]
) -> None:
    [query] = [query for query in QUERIES if query.place == place]

    def by_labels(samples: list[Sample]) -> dict[str, float]:
        return {" ".join(label for _, label in sorted(s.labels.items())): s.value for s in samples}

    samples = rig.prometheus.wait_for(
        fill(query.expr, {"cluster": CLUSTER, **chosen}),
        lambda found: pytest.approx(shown, rel=0.1) == by_labels(found),
    )
    assert pytest.approx(shown, rel=0.1) == by_labels(samples)


def test_every_query_works_with_one_choice_of_each_variable(rig: Rig) -> None:
    chosen = {**TRAIN, "cluster": CLUSTER, "node": "gpu-node-1", "gpu": rig.world.scenario.gpus[0].uuid}
    for query in QUERIES:
        rig.prometheus.query(fill(query.expr, {**chosen, "severity": "high"}))


NOT_IN_DEMO = {
    # what the simulated hardware does not tell
    *("gpuledger-gpu-GPUs", "gpuledger-gpu-SM activity and tensor cores", "gpuledger-gpu-Memory bandwidth"),
    *("gpuledger-gpu-Video engines", "gpuledger-gpu-Fans", "gpuledger-gpu-Memory health"),
    *("gpuledger-gpu-PCIe traffic", "gpuledger-gpu-NVLink traffic", "gpuledger-gpu-Link errors"),
    *("gpuledger-gpu-MIG devices", "gpuledger-gpu-Memory"),
    # what nothing in the simulated cluster makes happen
    *("gpuledger-fleet-Nodes unwatched", "gpuledger-exporter-Series left out"),
    *("gpuledger-exporter-Readings dropped", "gpuledger-exporter-What was thrown away"),
    *("gpuledger-exporter-Web configurations", "gpuledger-exporter-Turned away"),
    # what happens only later in the simulated day
    *("gpuledger-fleet-Critical XIDs", "gpuledger-fleet-Held and idle", "gpuledger-fleet-By model"),
    *(
        "gpuledger-fleet-GPUs by state",
        "gpuledger-fleet-Alerts that fire",
        "gpuledger-fleet-Driver errors by code",
    ),
    *(f"{board}-Driver errors (XID) of the last day" for board in ("gpuledger-fleet", "gpuledger-gpu")),
    "gpuledger-pod-Driver errors (XID) of the last day",
}
"""Panels of which some query may find nothing in the demo; the rig's own node has all of it."""


def test_the_demo_fills_the_other_panels(rig: Rig) -> None:
    for panel in PANELS:
        if f"{panel.board}-{panel.title}" not in NOT_IN_DEMO:
            for query in panel.queries:
                expr = OR_ZERO.sub("", fill(query.expr, {"cluster": DEMO}))
                rig.prometheus.wait_for(expr, timeout=PATIENCE_S)
