"""A snapshot as the page that Prometheus scrapes: one golden file in which every metric occurs."""

from __future__ import annotations

import os
from pathlib import Path

from gpuledger.core.model import (
    Gpu,
    GpuReading,
    GpuUuid,
    Memory,
    MigDevice,
    MigUuid,
    Owner,
    Pod,
    PodContainer,
    PodUid,
    ProcessFacts,
    ProcessUse,
    Termination,
    Unattributed,
    Workload,
)
from gpuledger.core.snapshot import (
    AttributedProcess,
    ContainerUse,
    GpuState,
    NodeSnapshot,
    RuntimeFinding,
    SourceHealth,
    UnattributedUse,
    WebHealth,
    XidAccount,
)
from gpuledger.metrics import catalog
from gpuledger.metrics.exposition import Family, render_text
from gpuledger.metrics.render import render_build, render_last_cycle, render_node, render_sources, render_web

GOLDEN = Path(__file__).with_name("node.prom")
GIB = 2**30

GPU = Gpu(0, GpuUuid("GPU-aaaaaaaa-0000-4000-8000-000000000000"))
LOST = Gpu(1, GpuUuid("GPU-bbbbbbbb-0000-4000-8000-000000000001"))
MIG = MigUuid("MIG-11111111-2222-5333-8444-000000000001")
OWNER = Owner("ml", "train-0", "trainer", Workload("StatefulSet", "train"))

DEVICE_LABELS = 3
DEVICE_READINGS = {
    spec.name: {spec.labels[DEVICE_LABELS:]: float(number)}
    for number, spec in enumerate(catalog.SECTIONS[0][1])
    if spec.name
    not in {
        *("gpu_info", "gpu_up", "gpu_unsupported", "gpu_processes", "gpu_busy_seconds_total"),
        *("gpu_memory_total_bytes", "gpu_memory_used_bytes", "gpu_memory_free_bytes"),
        *("gpu_memory_reserved_bytes", "gpu_throttled_seconds_total"),
        *("gpu_xid_errors_total", "gpu_xid_last_timestamp_seconds", "gpu_xid_pod_info"),
    }
}
"""One value for each device reading, its labels' names standing for their values."""

READING = GpuReading(
    GPU,
    up=True,
    info=dict.fromkeys(catalog.GPU_INFO_LABELS, "x") | {"model": "NVIDIA H100 80GB HBM3"},
    memory=Memory(80 * GIB, 50 * GIB, 29 * GIB, GIB),
    values=DEVICE_READINGS,
    processes=(ProcessUse(7, 40 * GIB), ProcessUse(8, None)),
    mig_devices=(
        MigDevice(
            MIG,
            "1g.10gb",
            7,
            0,
            Memory(10 * GIB, 6 * GIB, 3 * GIB, GIB),
            {
                f"mig_{name}_ratio": {(): 0.5}
                for name in ("graphics_active", "sm_active", "sm_occupancy", "tensor_active", "dram_active")
            },
        ),
    ),
    unsupported=frozenset({"gpu_fan_speed_ratio"}),
)

SNAPSHOT = NodeSnapshot(
    node="gpu-1",
    taken_at=1_700_000_000.5,
    gpus=(GpuState(READING, 12.5, {"hw_slowdown": 0.25}), GpuState(GpuReading(LOST, up=False))),
    containers=(
        ContainerUse(
            GPU,
            MigUuid(""),
            OWNER,
            memory_used=40 * GIB,
            sm_ratio=0.75,
            processes=1,
            allocated={"nvidia.com/gpu": 1},
            sm_seconds=9.5,
            energy_joules=1234.5,
            allocated_seconds={"nvidia.com/gpu": 60.0},
        ),
        ContainerUse(GPU, MigUuid(""), Owner("ml", "ended", "c"), active=False, sm_seconds=3.0),
    ),
    processes=(
        AttributedProcess(
            GPU,
            ProcessUse(7, 40 * GIB),
            OWNER,
            ProcessFacts(7, 1, 1_699_999_000.0, 'py"thon', cpu_seconds=8.5, resident_bytes=GIB),
            0.75,
        ),
        AttributedProcess(GPU, ProcessUse(8, None), Unattributed("pid-namespace")),
    ),
    unattributed=(
        UnattributedUse(
            GPU, MigUuid(""), Unattributed("host", "x.service"), memory_used=GIB, processes=1, sm_seconds=0.5
        ),
        UnattributedUse(GPU, MigUuid(""), Unattributed("unmeasured"), memory_used=9 * GIB),
    ),
    pods=(
        Pod(
            PodUid("2fa837fd-7da1-4896-863d-368a4ca73c2d"),
            "ml",
            "train-0",
            phase="Running",
            qos="Burstable",
            ready=True,
            conditions={"Ready": True, "DisruptionTarget": False},
            created_at=1_699_990_000.0,
            workload=OWNER.workload,
            containers=(PodContainer("trainer", restarts=2, last_terminated=Termination("OOMKilled", 137)),),
        ),
    ),
    xids=(XidAccount(GPU, 79, 2, 1_699_999_999.0, (OWNER,)),),
    findings=(
        RuntimeFinding("rt-idle", "medium", OWNER),
        RuntimeFinding("rt-use-without-request", "critical", Owner("gpu", "dcgm-x", "dcgm"), exempt=True),
        RuntimeFinding("rt-host-process", "high"),
    ),
    attribution={"owned": 1, "pid-namespace": 1},
    unresolved_allocations=1,
    allocatable={"nvidia.com/gpu": 1},
    dropped={"gpu_temperature_celsius": 3},
)


def page() -> str:
    health = [
        SourceHealth("kube", up=True, malformed=2, unreadable=1),
        SourceHealth("nvml", up=True, last_success=1_700_000_000.0, duration_seconds=0.004, failures=1),
        SourceHealth("podresources", up=False, failures=7, error="no such file"),
    ]
    web = WebHealth(
        {"credentials": 2, "handshake": 0},
        config_healthy=True,
        config_loaded_at=1_700_000_000.0,
        certificate_not_after=1_707_776_000.0,
    )
    dropped = Family(catalog.BY_NAME["series_dropped_total"], [(("gpu-1", "process_memory_used_bytes"), 5.0)])
    return render_text(
        [
            *render_node(SNAPSHOT),
            *render_build("gpu-1", "0.1.0", "3.11.7"),
            *render_last_cycle("gpu-1", SNAPSHOT.taken_at),
            *render_sources("gpu-1", health),
            *render_web("gpu-1", web),
            dropped,
        ]
    )


def test_a_node_as_prometheus_sees_it() -> None:
    """UPDATE_GOLDEN=1 writes the file anew; read the difference before you commit it."""
    written = page()
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(written, encoding="utf-8")

    assert GOLDEN.read_text(encoding="utf-8") == written


def test_every_metric_occurs_in_it() -> None:
    written = page()

    specs = [spec for spec in catalog.SPECS if spec not in catalog.CLUSTER]
    assert [spec.full_name for spec in specs if f"# TYPE {spec.full_name} " not in written] == []


def test_a_lost_gpu_shows_that_it_is_down_and_nothing_else() -> None:
    about_lost = [line for line in page().splitlines() if LOST.uuid in line]

    assert about_lost == [f'gpuledger_gpu_up{{node="gpu-1",gpu="1",gpu_uuid="{LOST.uuid}"}} 0.0']


def test_what_is_unknown_is_absent() -> None:
    written = page()

    assert 'pid="7"' in written
    assert 'pid="8"' not in written
    assert 'pod="ended"' in written
    assert not [line for line in written.splitlines() if 'pod="ended"' in line and "_total{" not in line]
