"""Series of devices and series of their users are kept apart: who comes or goes changes no device's."""

from __future__ import annotations

import pytest

from gpuledger.app.node.bookkeeper import Bookkeeper, Findings
from gpuledger.core.meter import Moment
from gpuledger.core.model import (
    Allocation,
    Cgroup,
    ContainerId,
    Gpu,
    GpuReading,
    GpuUuid,
    LoggedContainer,
    Memory,
    NvmlReading,
    PodLogs,
    ProcessFacts,
    ProcessUse,
)
from gpuledger.core.spec import MetricSpec
from gpuledger.metrics import catalog
from gpuledger.metrics.render import render_node

GPUS = tuple(Gpu(index, GpuUuid(f"GPU-{index}")) for index in range(3))
CID = ContainerId("a" * 64)
LOGS = PodLogs({CID: LoggedContainer("ml", "train-0", "main")})
FACTS = {1: ProcessFacts(1, cgroup=Cgroup("pod", container_id=CID))}
SHARES = tuple(
    Allocation("ml", "train-0", "main", "nvidia.com/gpu.shared", f"GPU-0::{slot}", GpuUuid("GPU-0"))
    for slot in (0, 1)
)
PUZZLE = Allocation("ml", "claimer", "main", "gpu.nvidia.com", "gpu-0-mig-1g5gb-0")
"""What a DRA driver may call a device; NVML knows nothing of it."""

MOST_LABELS = 30
"""What Mimir takes of a series by default (`-validation.max-label-names-per-series`)."""

ADDED_BY_PROMETHEUS = ("__name__", "job", "instance", "cluster", "endpoint", "service", "prometheus")

MEMORY = Memory(100, 60, 40)

Shown = dict[tuple[str, tuple[str, ...]], float]


def shown(
    *processes: ProcessUse,
    allocations: tuple[Allocation, ...] = (),
    memory: Memory | None = MEMORY,
) -> Shown:
    """Every series of a node where these use the first GPU."""
    readings = tuple(
        GpuReading(gpu, up=True, memory=memory, processes=processes if gpu is GPUS[0] else ()) for gpu in GPUS
    )
    found = Findings(nvml=NvmlReading(readings), facts=FACTS, logs=LOGS, allocations=allocations)
    snapshot = Bookkeeper("node1", retention=1.0, process_metrics=True).book(found, Moment(1.0, 1.0))
    return {
        (family.spec.name, labels): value for family in render_node(snapshot) for labels, value in family.rows
    }


def devices(series: Shown) -> dict[str, set[tuple[str, ...]]]:
    """The labels of each series of a device, by its name."""
    names = {name for name, _ in series if name.startswith("gpu_")}
    return {name: {labels for each, labels in series if each == name} for name in names}


def values(series: Shown, name: str) -> list[float]:
    return [value for (each, _), value in series.items() if each == name]


USED = ProcessUse(1, 50)


@pytest.mark.parametrize(
    "users",
    [
        pytest.param(shown(), id="nobody"),
        pytest.param(shown(USED), id="a process"),
        pytest.param(shown(allocations=SHARES), id="shares of one GPU"),
        pytest.param(shown(USED, allocations=(*SHARES, PUZZLE)), id="shares and a claim"),
    ],
)
def test_every_gpu_is_shown_under_its_own_name_whoever_is_on_it(users: Shown) -> None:
    assert devices(shown()) == devices(users)
    assert {("node1", str(gpu.index), gpu.uuid) for gpu in GPUS} == devices(users)["gpu_up"]


def test_no_device_carries_the_name_of_a_pod() -> None:
    devices = [
        spec for spec in catalog.SPECS if spec.name.startswith(("gpu_", "mig_")) and "pod" in spec.labels
    ]

    assert ["gpu_xid_pod_info"] == [spec.name for spec in devices]


def test_a_container_with_two_shares_of_a_gpu_is_one_series() -> None:
    series = shown(USED, allocations=SHARES)

    assert [50.0] == values(series, "container_memory_used_bytes")
    assert [2.0] == values(series, "container_allocated")


def test_a_claim_that_is_not_understood_costs_no_process_its_owner_and_is_told() -> None:
    series = shown(USED, allocations=(PUZZLE,))

    assert [50.0] == values(series, "container_memory_used_bytes")
    assert [1.0] == values(series, "unresolved_allocations")


def test_a_gpu_without_memory_of_its_own_still_shows_what_its_processes_use() -> None:
    series = shown(USED, memory=None)

    assert [50.0] == values(series, "container_memory_used_bytes")
    assert not {name for name, _ in series if name.startswith(("gpu_memory", "unattributed_memory"))}


@pytest.mark.parametrize("spec", catalog.SPECS, ids=lambda spec: spec.name)
def test_a_series_has_no_more_labels_than_long_term_stores_take(spec: MetricSpec) -> None:
    assert len(spec.labels) + len(ADDED_BY_PROMETHEUS) <= MOST_LABELS
