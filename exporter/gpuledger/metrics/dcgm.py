"""What NVML tells, under the names, units and labels of NVIDIA's dcgm-exporter: for dashboards made for that.

One table; docs/dcgm.md lists it, and what of dcgm-exporter's default list is missing and why. Two things differ
on purpose. A series names a pod only where that pod alone holds the device, since a device's value is nobody's
share of it. And what is measured for a whole GPU is not repeated for each of its MIG devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from gpuledger.core.model import Gpu, GpuReading, Memory, MigDevice, MigUuid, Values
from gpuledger.core.snapshot import GpuState, NodeSnapshot, XidAccount
from gpuledger.core.spec import MetricSpec
from gpuledger.metrics.exposition import Family, Row
from gpuledger.metrics.xids import read_xids

LABELS = (
    *("gpu", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE", "GPU_I_ID", "hostname", "Hostname"),
    *("DCGM_FI_DRIVER_VERSION", "pod", "namespace", "container"),
)
"""Both names of the host: dcgm-exporter renamed `Hostname` in 2026, and dashboards of both ages are in use."""

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of a GPU, or of a MIG device, in one cycle."""

    values: Mapping[str, Values]
    memory: Memory | None

    def value(self, metric: str, *labels: str) -> float | None:
        """A reading of the catalogue, by the name that it has for a whole GPU."""
        return self.values.get(metric, {}).get(labels)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of DCGM: its `factor` makes DCGM's unit of ours; None from `read` leaves the series out."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    read: Callable[[Measured], float | None]
    factor: float = 1

    @property
    def spec(self) -> MetricSpec:
        """As it is exposed."""
        return MetricSpec(self.name, self.kind, self.help, LABELS, prefix="")


def _of(metric: str, *labels: str) -> Callable[[Measured], float | None]:
    return lambda measured: measured.value(metric, *labels)


def _memory(part: Literal["free", "used", "reserved"]) -> Callable[[Measured], float | None]:
    return lambda measured: None if measured.memory is None else getattr(measured.memory, part)


def _ecc(bits: str, kind: str, span: str, scope: str) -> Field:
    text = f"Total number of {bits}-bit {'volatile' if scope == 'volatile' else 'persistent'} ECC errors."
    return Field(
        f"DCGM_FI_DEV_ECC_{'SBE' if bits == 'single' else 'DBE'}_{span}_TOTAL",
        "counter",
        text,
        _of("gpu_ecc_errors_total", kind, scope),
    )


FIELDS = (
    Field("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", _of("gpu_clock_hertz", "sm"), 1e-6),
    Field(
        "DCGM_FI_DEV_MEM_CLOCK",
        "gauge",
        "Memory clock frequency (in MHz).",
        _of("gpu_clock_hertz", "memory"),
        1e-6,
    ),
    Field(
        "DCGM_FI_DEV_MEMORY_TEMP",
        "gauge",
        "Memory temperature (in C).",
        _of("gpu_temperature_celsius", "memory"),
    ),
    Field("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", _of("gpu_temperature_celsius", "gpu")),
    Field("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", _of("gpu_power_watts")),
    Field(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "Total energy consumption since boot (in mJ).",
        _of("gpu_energy_joules_total"),
        1000,
    ),
    Field(
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "counter",
        "Total number of PCIe retries.",
        _of("gpu_pcie_replays_total"),
    ),
    Field("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", _of("gpu_utilization_ratio"), 100),
    Field(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "gauge",
        "Memory utilization (in %).",
        _of("gpu_memory_utilization_ratio"),
        100,
    ),
    Field(
        "DCGM_FI_DEV_ENC_UTIL",
        "gauge",
        "Encoder utilization (in %).",
        _of("gpu_encoder_utilization_ratio"),
        100,
    ),
    Field(
        "DCGM_FI_DEV_DEC_UTIL",
        "gauge",
        "Decoder utilization (in %).",
        _of("gpu_decoder_utilization_ratio"),
        100,
    ),
    Field("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", _memory("free"), 1 / _MIB),
    Field("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", _memory("used"), 1 / _MIB),
    Field(
        "DCGM_FI_DEV_FB_RESERVED",
        "gauge",
        "Framebuffer memory reserved (in MiB).",
        _memory("reserved"),
        1 / _MIB,
    ),
    *(
        _ecc(bits, kind, span, scope)
        for bits, kind in (("single", "corrected"), ("double", "uncorrected"))
        for span, scope in (("VOL", "volatile"), ("AGG", "aggregate"))
    ),
    Field(
        "DCGM_FI_DEV_RETIRED_SBE",
        "counter",
        "Total number of retired pages due to single-bit errors.",
        _of("gpu_retired_pages", "single_bit_ecc"),
    ),
    Field(
        "DCGM_FI_DEV_RETIRED_DBE",
        "counter",
        "Total number of retired pages due to double-bit errors.",
        _of("gpu_retired_pages", "double_bit_ecc"),
    ),
    Field(
        "DCGM_FI_DEV_RETIRED_PENDING",
        "counter",
        "Total number of pages pending retirement.",
        _of("gpu_retired_pages_pending"),
    ),
    *(
        Field(
            f"DCGM_FI_DEV_NVLINK_{name}_ERROR_COUNT_TOTAL",
            "counter",
            f"Total number of NVLink {text}.",
            _of("gpu_nvlink_errors_total", name.lower()),
        )
        for name, text in (
            ("CRC_FLIT", "flow-control CRC errors"),
            ("CRC_DATA", "data CRC errors"),
            ("REPLAY", "retries"),
            ("RECOVERY", "recovery errors"),
        )
    ),
    *(
        Field(
            f"DCGM_FI_DEV_{cause.upper()}_REMAPPED_ROWS",
            "counter",
            f"Number of remapped rows for {cause} errors.",
            _of("gpu_remapped_rows", cause),
        )
        for cause in ("uncorrectable", "correctable")
    ),
    Field(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "gauge",
        "Whether remapping of rows has failed.",
        _of("gpu_row_remap_failed"),
    ),
    *(
        Field(f"DCGM_FI_PROF_{name}", "gauge", text, _of(f"gpu_{metric}_ratio"))
        for name, metric, text in (
            ("GR_ENGINE_ACTIVE", "graphics_active", "Ratio of time the graphics engine is active."),
            ("SM_ACTIVE", "sm_active", "The ratio of cycles an SM has at least 1 warp assigned."),
            ("SM_OCCUPANCY", "sm_occupancy", "The ratio of number of warps resident on an SM."),
            ("PIPE_TENSOR_ACTIVE", "tensor_active", "Ratio of cycles the tensor (HMMA) pipe is active."),
            (
                "DRAM_ACTIVE",
                "dram_active",
                "Ratio of cycles the device memory interface is active sending or receiving data.",
            ),
        )
    ),
)

XID_ERRORS = MetricSpec(
    "DCGM_FI_DEV_XID_ERRORS",
    "gauge",
    "Value of the last XID error encountered.",
    (*LABELS, "err_code", "err_msg"),
    prefix="",
)


def render_dcgm(snapshot: NodeSnapshot) -> Iterator[Family]:
    """The snapshot's GPUs as dcgm-exporter would show them; families that nothing is known for are left out."""
    holders = _only_holders(snapshot)
    devices = [
        (_labels(snapshot.node, state.reading, mig, holders), measured)
        for state in snapshot.gpus
        for mig, measured in _measured(state)
    ]
    for field in FIELDS:
        rows = [
            (labels, value * field.factor)
            for labels, measured in devices
            if (value := field.read(measured)) is not None
        ]
        if rows:
            yield Family(field.spec, rows)
    errors = [
        (_labels(snapshot.node, state.reading, None, holders), state.reading.gpu)
        for state in snapshot.gpus
        if state.reading.up
    ]
    if errors:
        yield Family(XID_ERRORS, [_last_error(labels, gpu, snapshot.xids) for labels, gpu in errors])


def _measured(state: GpuState) -> Iterator[tuple[MigDevice | None, Measured]]:
    """The GPU, and each of its MIG devices; the memory of a divided GPU is told of its parts alone."""
    reading = state.reading
    yield None, Measured(reading.values, None if reading.mig_devices else reading.memory)
    for mig in reading.mig_devices:
        values = {f"gpu_{name.removeprefix('mig_')}": values for name, values in mig.values.items()}
        yield mig, Measured(values, mig.memory)


_Device = tuple[Gpu, MigUuid]
_Holder = tuple[str, str, str]
"""Pod, namespace and container."""


def _only_holders(snapshot: NodeSnapshot) -> dict[_Device, _Holder]:
    """Who holds a device, where one pod alone does."""
    holders: dict[_Device, set[_Holder]] = {}
    for use in snapshot.containers:
        if use.allocated:
            holder = (use.owner.pod, use.owner.namespace, use.owner.container)
            holders.setdefault((use.gpu, use.mig_uuid), set()).add(holder)
    return {device: next(iter(found)) for device, found in holders.items() if len(found) == 1}


def _labels(
    node: str, reading: GpuReading, mig: MigDevice | None, holders: Mapping[_Device, _Holder]
) -> tuple[str, ...]:
    gpu, info = reading.gpu, reading.info
    return (
        str(gpu.index),
        gpu.uuid,
        info.get("pci_bus_id", ""),
        "" if gpu.minor is None else f"nvidia{gpu.minor}",
        info.get("model", ""),
        mig.profile if mig else "",
        str(mig.gpu_instance) if mig else "",
        node,
        node,
        info.get("driver_version", ""),
        *holders.get((gpu, mig.uuid if mig else MigUuid("")), ("", "", "")),
    )


def _last_error(labels: tuple[str, ...], gpu: Gpu, xids: Iterable[XidAccount]) -> Row:
    """The code of the GPU's last error, 0 before there is one."""
    last = max((xid for xid in xids if xid.gpu == gpu), key=lambda xid: xid.last_time, default=None)
    if last is None:
        return (*labels, "0", "No Error"), 0.0
    known = read_xids().xids.get(last.xid)
    return (*labels, str(last.xid), known.meaning if known else ""), float(last.xid)
