"""What NVML tells is shown under dcgm-exporter's names, in its units, with its labels, without its repeats."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from gpuledger.core.model import (
    Gpu,
    GpuReading,
    GpuUuid,
    Memory,
    MigDevice,
    MigUuid,
    Owner,
    Values,
)
from gpuledger.core.snapshot import ContainerUse, GpuState, NodeSnapshot, XidAccount
from gpuledger.metrics.dcgm import FIELDS, XID_ERRORS, render_dcgm
from gpuledger.metrics.exposition import render_openmetrics

ROOT = Path(__file__).parents[2]
DEFAULT_COUNTERS = ROOT / "tests" / "fixtures" / "dcgm" / "default-counters.csv"
PAGE = (ROOT / "docs" / "dcgm.md").read_text()

MIB = 2**20
WHOLE = MigUuid("")
GPU = Gpu(0, GpuUuid("GPU-a"), minor=2)
LOST = Gpu(1, GpuUuid("GPU-b"))
DIVIDED = Gpu(2, GpuUuid("GPU-c"), minor=0)
MIG = MigUuid("MIG-1")
INFO = {"model": "NVIDIA H100", "pci_bus_id": "00000000:1B:00.0", "driver_version": "570.124.06"}
OWNER = Owner("ml", "train-0", "main")

VALUES: dict[str, Values] = {
    "gpu_clock_hertz": {("sm",): 1.755e9, ("memory",): 2.619e9},
    "gpu_temperature_celsius": {("gpu",): 56, ("memory",): 64},
    "gpu_power_watts": {(): 412},
    "gpu_energy_joules_total": {(): 91.5},
    "gpu_utilization_ratio": {(): 0.87},
    "gpu_ecc_errors_total": {("corrected", "volatile"): 3, ("uncorrected", "aggregate"): 1},
    "gpu_tensor_active_ratio": {(): 0.44},
}


def snapshot(*containers: ContainerUse, xids: tuple[XidAccount, ...] = ()) -> NodeSnapshot:
    divided = MigDevice(
        MIG, "1g.10gb", 7, 0, Memory(10 * MIB, 4 * MIB, 6 * MIB), {"mig_sm_active_ratio": {(): 0.5}}
    )
    return NodeSnapshot(
        "gpu-1",
        0.0,
        gpus=(
            GpuState(
                GpuReading(
                    GPU, up=True, info=INFO, memory=Memory(80 * MIB, 50 * MIB, 29 * MIB, MIB), values=VALUES
                )
            ),
            GpuState(GpuReading(LOST, up=False)),
            GpuState(
                GpuReading(
                    DIVIDED,
                    up=True,
                    info=INFO,
                    memory=Memory(80 * MIB, 4 * MIB, 76 * MIB),
                    values={"gpu_power_watts": {(): 100}},
                    mig_devices=(divided,),
                )
            ),
        ),
        containers=containers,
        xids=xids,
    )


def samples(shown: NodeSnapshot) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, labels and value of every series."""
    for family in render_dcgm(shown):
        for values, value in family.rows:
            yield family.spec.full_name, dict(zip(family.spec.labels, values, strict=True)), value


def series(shown: NodeSnapshot) -> dict[tuple[str, str, str], float]:
    """Values by name, GPU and MIG profile."""
    return {(name, found["gpu"], found["GPU_I_PROFILE"]): value for name, found, value in samples(shown)}


def labels(shown: NodeSnapshot, name: str) -> dict[str, str]:
    """The labels of GPU 0's series, without empty ones."""
    [found] = [given for known, given, _ in samples(shown) if known == name and given["gpu"] == "0"]
    return {label: value for label, value in found.items() if value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DCGM_FI_DEV_SM_CLOCK", 1755),
        ("DCGM_FI_DEV_MEM_CLOCK", 2619),
        ("DCGM_FI_DEV_GPU_TEMP", 56),
        ("DCGM_FI_DEV_MEMORY_TEMP", 64),
        ("DCGM_FI_DEV_POWER_USAGE", 412),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 91_500),
        ("DCGM_FI_DEV_GPU_UTIL", 87),
        ("DCGM_FI_DEV_FB_USED", 50),
        ("DCGM_FI_DEV_FB_FREE", 29),
        ("DCGM_FI_DEV_FB_RESERVED", 1),
        ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 3),
        ("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", 1),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.44),
    ],
)
def test_a_reading_has_dcgms_unit(name: str, value: float) -> None:
    assert value == pytest.approx(series(snapshot())[name, "0", ""])


def test_what_is_not_known_is_absent() -> None:
    shown = series(snapshot())

    assert ("DCGM_FI_DEV_FAN_SPEED", "0", "") not in shown
    assert ("DCGM_FI_DEV_ENC_UTIL", "0", "") not in shown
    assert not [name for name, gpu, _ in shown if gpu == "1"]


def test_a_divided_gpu_shows_each_reading_once() -> None:
    shown = {(name, profile): value for (name, gpu, profile), value in series(snapshot()).items() if gpu == "2"}

    assert {
        ("DCGM_FI_DEV_POWER_USAGE", ""): 100,
        ("DCGM_FI_DEV_XID_ERRORS", ""): 0,
        ("DCGM_FI_DEV_FB_USED", "1g.10gb"): 4,
        ("DCGM_FI_DEV_FB_FREE", "1g.10gb"): 6,
        ("DCGM_FI_PROF_SM_ACTIVE", "1g.10gb"): 0.5,
    } == shown


def test_labels_are_those_of_dcgm_exporter() -> None:
    alone = snapshot(ContainerUse(GPU, WHOLE, OWNER, allocated={"nvidia.com/gpu": 1}))

    assert {
        "gpu": "0",
        "UUID": "GPU-a",
        "pci_bus_id": "00000000:1B:00.0",
        "device": "nvidia2",
        "modelName": "NVIDIA H100",
        "hostname": "gpu-1",
        "Hostname": "gpu-1",
        "DCGM_FI_DRIVER_VERSION": "570.124.06",
        "pod": "train-0",
        "namespace": "ml",
        "container": "main",
    } == labels(alone, "DCGM_FI_DEV_GPU_TEMP")


def test_no_pod_is_given_what_several_share_or_what_it_only_uses() -> None:
    shared = {"nvidia.com/gpu.shared": 1}
    sharing = snapshot(
        ContainerUse(GPU, WHOLE, OWNER, allocated=shared),
        ContainerUse(GPU, WHOLE, Owner("ml", "other", "main"), allocated=shared),
    )
    using = snapshot(ContainerUse(GPU, WHOLE, OWNER, memory_used=1))

    for shown in (sharing, using):
        assert "pod" not in labels(shown, "DCGM_FI_DEV_GPU_TEMP")


def test_the_last_error_is_shown_with_its_meaning() -> None:
    shown = snapshot(xids=(XidAccount(GPU, 79, 1, 10.0), XidAccount(GPU, 31, 5, 20.0)))
    other = labels(snapshot(), "DCGM_FI_DEV_XID_ERRORS")

    assert 31 == series(shown)["DCGM_FI_DEV_XID_ERRORS", "0", ""]
    found = labels(shown, "DCGM_FI_DEV_XID_ERRORS")
    assert "31" == found["err_code"]
    assert found["err_msg"]
    assert ("0", "No Error") == (other["err_code"], other["err_msg"])


def test_openmetrics_reads_it_though_its_counters_lack_their_suffix() -> None:
    page = render_openmetrics(render_dcgm(snapshot())) + "# EOF\n"
    families = list(parse_openmetrics(page))  # type: ignore[no-untyped-call]

    kinds = {family.name: family.type for family in families}
    assert "unknown" == kinds["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]
    assert "gauge" == kinds["DCGM_FI_DEV_GPU_TEMP"]


def counters() -> dict[str, tuple[str, str]]:
    """dcgm-exporter's list, what is commented out included: type and help by name."""
    lines = [line.removeprefix("# ") for line in DEFAULT_COUNTERS.read_text().splitlines()]
    found = csv.reader(line for line in lines if re.match(r"DCGM_\w+ *,", line))
    return {name.strip(): (kind.strip(), ",".join(text).strip()) for name, kind, *text in found}


def test_names_types_and_help_are_those_of_its_list() -> None:
    listed = counters()
    for spec in (*(field.spec for field in FIELDS), XID_ERRORS):
        kind, text = listed[spec.full_name]
        assert (kind, text.rstrip(".")) == (spec.kind, spec.help.rstrip("."))


def test_the_page_names_what_is_there_and_what_is_not() -> None:
    there, missing = PAGE.partition("## What is there")[2].split("## What is not there")
    given = {spec.full_name for spec in (*(field.spec for field in FIELDS), XID_ERRORS)}

    assert given == set(re.findall(r"^\| `(DCGM_\w+)`", there, flags=re.MULTILINE))
    assert counters().keys() - given - {"DCGM_FI_DRIVER_VERSION"} == set(re.findall(r"`(DCGM_\w+)`", missing))
