"""The linter finds what it is there to find."""

from __future__ import annotations

import pytest

from tools.promql import Linter

UP, BUSY = "gpuledger_gpu_up", "gpuledger_gpu_busy_seconds_total"
NO_RATE = f"{BUSY} is a counter: take its rate or increase"
LINTER = Linter({UP: frozenset({"node", "gpu"}), BUSY: frozenset({"node"})})


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        pytest.param("gpuledger_gpu_upp", "gpuledger_gpu_upp: no such metric", id="metric"),
        pytest.param(f'{UP}{{pod="x"}}', f"{UP} has no label pod", id="matcher"),
        pytest.param(f"{BUSY} > 0", NO_RATE, id="counter"),
        pytest.param(f"avg_over_time({BUSY}[5m])", NO_RATE, id="mean"),
        pytest.param(f"rate({UP}[5m])", f"{UP} is no counter: rate of it means nothing", id="rate"),
        pytest.param(f"sum by (node) ({UP})", f"cluster is dropped: (node) of {UP}", id="by"),
        pytest.param(f"sum({UP})", f"cluster is dropped: () of {UP}", id="sum"),
        pytest.param(f"{UP} and on (node) {UP}", f"cluster is dropped: (node) of {UP}", id="on"),
        pytest.param(f"sum by (cluster, pod) ({UP})", f"no label pod in {UP}", id="by-label"),
        pytest.param(
            f"{UP} unless on (cluster, gpu) max by (cluster, node) ({UP})",
            f"no label gpu in max by (cluster, node) ({UP})",
            id="on-label",
        ),
    ],
)  # fmt: skip
def test_finds_a_fault(query: str, fault: str) -> None:
    assert fault in LINTER.faults(query)


def test_says_what_can_not_be_parsed() -> None:
    assert ["sum("] == [fault[-4:] for fault in LINTER.faults("sum(")]


@pytest.mark.parametrize(
    "query",
    [
        f"sum by (cluster, node) (rate({BUSY}[5m])) > 0.1",
        f'{UP}{{cluster="a", job="b"}} == 0 unless on (cluster, node) {UP}',
        f"absent(group by (cluster) ({UP}))",
    ],
)
def test_finds_nothing_where_nothing_is(query: str) -> None:
    assert [] == LINTER.faults(query)


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        (f"sum by (cluster, node) ({UP}) > 3", {"cluster", "node"}),
        (f"{UP} and on (cluster) {BUSY}", {"cluster", "job", "instance", "node", "gpu"}),
        (f"sum by (cluster) ({UP}) or sum by (cluster, gpu) ({UP})", {"cluster", "gpu"}),
        (f"sum by (cluster, node) ({UP}) / on (cluster) sum by (cluster) ({UP})", {"cluster"}),
        (f"sum by (cluster) ({UP}) * on (cluster) group_left (gpu) {UP}", {"cluster", "gpu"}),
        (f"time() - max by (cluster, gpu) ({UP})", {"cluster", "gpu"}),
        (f"absent({UP})", set()),
    ],
)
def test_knows_the_labels_of_a_result(query: str, labels: set[str]) -> None:
    assert labels == LINTER.labels(query)
