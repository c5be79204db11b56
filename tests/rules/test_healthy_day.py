"""A day on which all is well, made up: all series that rules look at, which the demo has not, and a restart."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from gpuledger.metrics import catalog
from tools.fetch import binary
from tools.prometheus import VERSIONS
from tools.rulefiles import ALERTS, ALL, PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY = 24 * 60
"""Minutes, and samples."""
RESTART = 12 * 60
"""When the exporter is restarted, and counts from 0 again under another address."""
OWNER = "namespace={0}, pod={1}-0, container=main, workload_kind=StatefulSet, workload={1}"

GPUS = {"0": "GPU-train", "1": "GPU-shared", "2": "GPU-mig", "3": "GPU-free"}
STEADY = {
    "gpu_up": 1,
    "gpu_recovery_action": 0,
    "gpu_row_remap_failed": 0,
    "gpu_row_remap_pending": 0,
    "gpu_retired_pages_pending": 0,
    "gpu_temperature_slowdown_celsius": 89,
    "gpu_temperature_celsius{sensor=gpu}": 71,
    "gpu_pcie_link_width": 16,
    "gpu_pcie_link_width_max": 16,
    "gpu_pcie_link_generation_max": 5,
    "gpu_memory_total_bytes": 80e9,
    "gpu_memory_used_bytes": 60e9,
    "gpu_info{model=H100}": 1,
    "gpu_nvlink_up{link=0}": 1,
    "gpu_nvlink_up{link=1}": 0,
    "gpu_ecc_errors_total{type=uncorrected, scope=volatile}": 0,
    "gpu_throttled_seconds_total{reason=hw_power_brake_slowdown}": 0,
}
"""What each GPU shows all day; its second NVLink was never connected."""
CHANGING = {
    "gpu_pcie_link_generation": "1x30 5x30 " * (DAY // 62),
    "gpu_utilization_ratio": "0x30 0.9x30 " * (DAY // 62),
    "gpu_pcie_replays_total": "0x600 1x840",
    "gpu_throttled_seconds_total{reason=hw_thermal_slowdown}": f"0+2x{DAY}",
}
NODE = {
    "last_cycle_timestamp_seconds": f"0+60x{DAY}",
    "unresolved_allocations": f"0x{DAY}",
    "source_up{source=nvml}": f"1x{DAY}",
    "source_up{source=podresources}": f"1x{DAY}",
    "source_up{source=kube}": f"1x{DAY}",
    "source_duration_seconds{source=nvml}": f"0.02x{DAY}",
    "source_failures_total{source=kube}": "0x300 2x1140",
    "attribution_processes{result=owned}": f"20x{DAY}",
    "attribution_processes{result=host}": f"4x{DAY}",
    "attribution_processes{result=exited}": "0x100 1x3 0x1337",
    "series_dropped_total{family=process_memory_used_bytes}": f"0x{DAY}",
    "web_config_last_reload_successful": f"1x{DAY}",
    "web_certificate_not_after_timestamp_seconds": f"7776000x{DAY}",
    "dropped_readings_total{reading=gpu_temperature_celsius}": "0x700 3x740",
    "kubelet_allocatable_devices{resource=nvidia.com/gpu}": f"8x{DAY}",
    "node_info{product=H100}": f"1x{DAY}",
    "node_resource_capacity{resource=nvidia.com/gpu}": f"8x{DAY}",
    "node_resource_allocatable{resource=nvidia.com/gpu}": f"8x{DAY}",
    "node_resource_placeable{resource=nvidia.com/gpu}": "0x720 8x720",
}
CLUSTER = {
    "quota_used{namespace=team-a, quota=gpus, resource=requests.nvidia.com/gpu}": f"6x{DAY}",
    "quota_hard{namespace=team-a, quota=gpus, resource=requests.nvidia.com/gpu}": f"8x{DAY}",
    "pod_pending_since_timestamp_seconds{namespace=team-a, pod=new-0, reason=queued}": "0x15 stale",
    "pod_pending_since_timestamp_seconds{namespace=team-a, pod=held-0, reason=gated}": f"0x{DAY}",
    "audit_workload_pods_affected{check=image-latest, severity=medium, workload=train}": f"1x{DAY}",
    "audit_last_success_timestamp_seconds": f"0+60x{DAY}",
    "audit_failed_objects": f"0x{DAY}",
    "source_unreadable_objects{source=pods}": f"0x700 1x3 0x{DAY - 703}",
    "source_up{source=nodes}": f"1x{DAY}",
    "source_failures_total{source=nodes}": "0x300 2x1140",
    "dra_pool_devices{node=n1, driver=gpu.nvidia.com, pool=n1}": f"4x{DAY}",
}
HOLDERS: dict[tuple[str, str], list[tuple[str, str, str, int | None]]] = {
    # GPU and MIG device: what is held, by whom, and how many seconds a minute its kernels run (unknown on MIG).
    ("0", ""): [("nvidia.com/gpu", "research", "train", 50)],
    ("1", ""): [
        ("nvidia.com/gpu.shared", "team-a", "chat", 20),
        ("nvidia.com/gpu.shared", "team-b", "rank", 5),
    ],
    ("2", "MIG-1"): [("nvidia.com/mig-1g.10gb", "team-b", "batch", None)],
}


def series(spec: str, **more: str) -> str:
    """A series' name and labels, from `metric{label=value, …}` and further labels."""
    name, _, inside = spec.rstrip("}").partition("{")
    labels = {**dict(pair.split("=", 1) for pair in inside.split(", ") if pair), **more}
    pairs = ", ".join(f'{key}="{value}"' for key, value in labels.items())
    return f"gpuledger_{name}{{{pairs}}}"


def healthy() -> Iterator[tuple[str, str]]:
    """All series of the day, each with its values."""
    for index, uuid in GPUS.items():
        device = {"node": "n1", "gpu": index, "gpu_uuid": uuid}
        yield from ((series(spec, **device), f"{value}x{DAY}") for spec, value in STEADY.items())
        yield from ((series(spec, **device), values) for spec, values in CHANGING.items())
        yield series("gpu_mig_enabled", **device), f"{int(uuid == 'GPU-mig')}x{DAY}"
        yield series("gpu_sm_active_ratio", **device), f"0.6x{DAY}"
        yield series("unattributed_processes{reason=host, unit=nvidia-dcgm.service}", **device), f"1x{DAY}"
        yield series("unattributed_sm_busy_seconds_total{reason=exited}", **device), f"0+0.01x{DAY}"
    mig = {"node": "n1", "gpu": "2", "gpu_uuid": "GPU-mig", "mig_uuid": "MIG-1"}
    yield series("mig_memory_total_bytes", **mig), f"10e9x{DAY}"
    yield series("mig_memory_used_bytes", **mig), f"6e9x{DAY}"
    yield series("mig_sm_active_ratio", **mig), "0x20 0.5x20 " * (DAY // 42)
    yield from ((series(spec, node="n1"), values) for spec, values in NODE.items())
    yield from ((series(spec), values) for spec, values in CLUSTER.items())
    for (index, mig_uuid), holders in HOLDERS.items():
        for resource, namespace, name, seconds in holders:
            device = {"node": "n1", "gpu": index, "gpu_uuid": GPUS[index], "mig_uuid": mig_uuid}
            yield from _holder({**device, **_owner(namespace, name)}, resource, seconds)


def _owner(namespace: str, name: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in OWNER.format(namespace, name).split(", "))


def _holder(owner: dict[str, str], resource: str, seconds: int | None) -> Iterator[tuple[str, str]]:
    """A container's series, which go on under another address after the restart."""
    rest = DAY - RESTART - 2
    for instance, start, length in (("before", "", RESTART), ("after", f"_x{RESTART + 2} ", rest)):
        labels = {**owner, "instance": instance}
        end = " stale" if not start else ""
        yield series("container_allocated", **labels, resource=resource), f"{start}1x{length}{end}"
        yield (
            series("container_allocated_seconds_total", **labels, resource=resource),
            f"{start}0+60x{length}{end}",
        )
        yield series("container_processes", **labels), f"{start}2x{length}{end}"
        yield series("container_memory_used_bytes", **labels), f"{start}5e9x{length}{end}"
        yield series("container_energy_joules_total", **labels), f"{start}0+9000x{length}{end}"
        if seconds is not None:
            yield series("container_sm_busy_seconds_total", **labels), f"{start}0+{seconds}x{length}{end}"
    pod = {key: owner[key] for key in ("node", "namespace", "pod")}
    yield series("pod_created_timestamp_seconds", **pod), f"-9000x{DAY}"
    yield series("pod_info{workload_kind=StatefulSet}", **pod), f"1x{DAY}"


ONLY_ON_BAD_DAYS = {
    "gpuledger_gpu_xid_last_timestamp_seconds",
    "gpuledger_gpu_xid_pod_info",
    "gpuledger_audit_finding",
}
"""Series that are there only when something has happened."""


def test_the_day_has_every_series_that_rules_look_at() -> None:
    looked_at = set(re.findall(r"gpuledger_\w+", " ".join(rule.expr for rule in ALL)))
    used = looked_at & {spec.full_name for spec in catalog.SPECS}
    shown = {name.partition("{")[0] for name, _ in healthy()}

    assert used <= shown | ONLY_ON_BAD_DAYS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", VERSIONS)
def test_nobody_is_told_of_anything(version: str, tmp_path: Path) -> None:
    looks = [
        {"eval_time": f"{minutes}m", "alertname": alert.name}
        for alert in ALERTS
        for minutes in range(20, DAY, 20)
    ]
    document: dict[str, Any] = {
        "rule_files": [str(path) for path in PLAIN.rglob("*.yaml")],
        "evaluation_interval": "5m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values.strip()} for name, values in healthy()],
                "alert_rule_test": looks,
            }
        ],
    }
    case = tmp_path / "healthy.json"  # JSON is YAML
    case.write_text(json.dumps(document))

    command = [str(binary(version, "promtool")), "test", "rules", str(case)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, (done.stdout + done.stderr)[:5000]
