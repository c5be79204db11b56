"""Writes what the NVML stand-in shall say, for the library to read and to re-read on each change.

The library reads the file that `NVML_STANDIN_SCENARIO` names; no file means that no driver is loaded. A reading
that a scenario leaves out is `NVML_ERROR_NOT_SUPPORTED`, as on a device that lacks it. The classes below take
NVML's own units (milliwatts, millijoules, megahertz, percent, microseconds since 1970). GPUs with every reading
are in `presets.py`.

The file has one statement a line, words separated by one space; a line that is not understood ends the process
with a message. `-` stands for "not available", `*` for all. The node comes first:

    driver VERSION | nvml VERSION | cuda NUMBER
    fault CALL|* GPU|* error CODE | hang 0 | delay MILLISECONDS | latency MICROSECONDS
    event SERIAL GPU TYPE DATA GPU_INSTANCE|- COMPUTE_INSTANCE|-

Then, for each GPU in the order of its index, `gpu UUID` and:

    text NAME TEXT...                     a text (TEXTS in standin.h)
    value READING I[.J[.K]] NUMBER        a number (READINGS in standin.h) by link, sensor, type, location, ...
    field ID SCOPE TYPE NUMBER            a field value (NVML_FI_*), or `field ID SCOPE error CODE`
    energy MILLIJOULES MILLIWATTS SINCE   a counter that grows from SINCE on
    process LIST PID BYTES|- GPU_INSTANCE|- COMPUTE_INSTANCE|-
    sample TYPE TIME|live VALUE           an entry of a sample buffer; live: a new one every sixth of a second
    process_sample TIME|live PID SM MEMORY ENCODER DECODER
    retired_page CAUSE ADDRESS TIME
    gpm                                   GPM is supported
    metric GPU_INSTANCE|- ID VALUE        a GPM metric
    lost                                  every call for it says NVML_ERROR_GPU_IS_LOST
    mig UUID                              a MIG device; `text`, `value` and `field` lines after it are its own

The last line is `end`.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

import pynvml

By1 = dict[int, int]
By2 = dict[tuple[int, int], int]
By3 = dict[tuple[int, int, int], int]
"""Numbers by NVML's indices of them: one, two or three."""


@dataclass(kw_only=True)
class Readings:
    """The texts and numbers of a GPU or a MIG device, by the names that standin.h has for them."""

    name: str | None = None
    serial: str | None = None
    vbios: str | None = None
    part_number: str | None = None
    pci_bus_id: str | None = None
    inforom_image: str | None = None
    gsp_firmware: str | None = None

    architecture: int | None = None
    board_id: int | None = None
    brand: int | None = None
    bus_type: int | None = None
    compute_capability: By1 = field(default_factory=dict)
    """0: major, 1: minor."""
    compute_mode: int | None = None
    cores: int | None = None
    memory_bus_width: int | None = None
    minor_number: int | None = None
    pci_device_id: int | None = None
    pci_subsystem_id: int | None = None
    persistence_mode: int | None = None
    supported_events: int | None = None

    utilization_gpu: int | None = None
    utilization_memory: int | None = None
    utilization_encoder: int | None = None
    utilization_decoder: int | None = None
    utilization_jpeg: int | None = None
    utilization_ofa: int | None = None

    memory_total: int | None = None
    memory_used: int | None = None
    """Without what is reserved, as in version 2 of NVML's structure; in version 1 the library adds it."""
    memory_free: int | None = None
    memory_reserved: int | None = None
    bar1_total: int | None = None
    bar1_used: int | None = None
    bar1_free: int | None = None

    temperature: By1 = field(default_factory=dict)
    """By `NVML_TEMPERATURE_*`, °C. The memory's is a field value."""
    temperature_threshold: By1 = field(default_factory=dict)
    """By `NVML_TEMPERATURE_THRESHOLD_*`, °C."""
    power: int | None = None
    power_limit: int | None = None
    power_limit_enforced: int | None = None
    power_limit_default: int | None = None
    power_limit_min: int | None = None
    power_limit_max: int | None = None
    clock: By1 = field(default_factory=dict)
    """By `NVML_CLOCK_*`, MHz."""
    clock_max: By1 = field(default_factory=dict)
    clock_event_reasons: int | None = None
    clock_event_reasons_supported: int | None = None
    performance_state: int | None = None
    fans: int | None = None
    fan_speed: By1 = field(default_factory=dict)

    ecc_mode_current: int | None = None
    ecc_mode_pending: int | None = None
    ecc_errors: By2 = field(default_factory=dict)
    """By `NVML_MEMORY_ERROR_TYPE_*` and `NVML_*_ECC`."""
    memory_errors: By3 = field(default_factory=dict)
    """By `NVML_MEMORY_ERROR_TYPE_*`, `NVML_*_ECC` and `NVML_MEMORY_LOCATION_*`."""
    remapped_rows: By1 = field(default_factory=dict)
    """0: correctable, 1: uncorrectable, 2: pending, 3: failed."""
    retired_pages_pending: int | None = None
    """None also means that the device retires no pages."""

    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_generation_device_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_replays: int | None = None
    pcie_throughput: By1 = field(default_factory=dict)
    nvlink_active: By1 = field(default_factory=dict)
    """By link."""
    nvlink_version: By1 = field(default_factory=dict)
    nvlink_errors: By2 = field(default_factory=dict)
    """By link and `NVML_NVLINK_ERROR_DL_*`."""

    mig_mode_current: int | None = None
    mig_mode_pending: int | None = None
    mig_devices_max: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    multiprocessors: int | None = None
    gpu_slices: int | None = None
    compute_slices: int | None = None


@dataclass(kw_only=True)
class FieldValue:
    """A field value by NVML's type of it, or the error that NVML has in its place."""

    value: float
    type: Literal["double", "uint", "ulong", "ulonglong", "longlong", "int", "ushort", "error"] = "ulonglong"


@dataclass(kw_only=True)
class Process:
    """A process in one of NVML's lists; with `sm` (percent) it makes live samples of its use.

    Of these NVML gives one for each process: the average of those newer than the caller saw.
    """

    pid: int
    memory: int | None = None
    list: Literal["compute", "graphics", "mps"] = "compute"
    gpu_instance: int | None = None
    compute_instance: int | None = None
    sm: int | None = None
    memory_use: int = 0
    encoder: int = 0
    decoder: int = 0


@dataclass(kw_only=True)
class ProcessSample:
    """An entry of the buffer of per-process utilisation, given to callers as it stands here."""

    pid: int
    time: int
    sm: int
    memory: int = 0
    encoder: int = 0
    decoder: int = 0


@dataclass(kw_only=True)
class Energy:
    """A counter in millijoules that grows by `rate` milliwatts from `since` on (microseconds since 1970)."""

    millijoules: int
    rate: int = 0
    since: int = field(default_factory=lambda: time.time_ns() // 1000)


@dataclass(kw_only=True)
class RetiredPage:
    """A page of memory that is no longer used, by `NVML_PAGE_RETIREMENT_CAUSE_*`."""

    cause: int
    address: int
    time: int


@dataclass(kw_only=True)
class MigDevice(Readings):
    """A MIG device; `metrics` are the GPM metrics of its GPU instance."""

    uuid: str
    fields: dict[int | tuple[int, int], FieldValue] = field(default_factory=dict)
    metrics: dict[int, float] = field(default_factory=dict)


@dataclass(kw_only=True)
class Gpu(Readings):
    """A physical GPU: field values by id (or id and scope), samples by `NVML_*_SAMPLES`, GPM metrics by id.

    `live` makes samples of `utilization_gpu` as time goes by. `gpm` None means that GPM is not supported.
    """

    uuid: str
    energy: Energy | None = None
    fields: dict[int | tuple[int, int], FieldValue] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    process_samples: list[ProcessSample] = field(default_factory=list)
    samples: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By sampling type: (microseconds since 1970, value), oldest first."""
    live: bool = False
    retired_pages: list[RetiredPage] = field(default_factory=list)
    gpm: dict[int, float] | None = None
    migs: list[MigDevice] = field(default_factory=list)
    lost: bool = False


@dataclass(kw_only=True)
class Event:
    """A critical error, given once to every event set that registered for its type before it appeared."""

    serial: int
    gpu: str
    xid: int
    type: int = pynvml.nvmlEventTypeXidCriticalError
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(kw_only=True)
class Fault:
    """What goes wrong in a call: `hang` for as long as the scenario says so, the others by `number`.

    `call` is a function's name, or its name before `_v<n>` for all its versions, or `*` for every call but
    `nvmlInit…` (pynvml calls `nvmlInitWithFlags`) and `nvmlShutdown`. `error` returns a code, `latency` waits
    microseconds before NVML answers, `delay` milliseconds between its answer and the caller's next step.
    """

    call: str
    kind: Literal["error", "hang", "delay", "latency"]
    number: int = 0
    gpu: str = "*"


@dataclass(kw_only=True)
class Scenario:
    """A node's driver and GPUs. Change it and `write` again: the library follows."""

    gpus: list[Gpu] = field(default_factory=list)
    driver: str = "570.124.06"
    nvml: str = "12.570.124.06"
    cuda: int = 12080
    events: list[Event] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def add_event(self, gpu: Gpu, xid: int) -> None:
        """Appends an XID of `gpu` with the next serial number."""
        last = max((event.serial for event in self.events), default=0)
        self.events.append(Event(serial=last + 1, gpu=gpu.uuid, xid=xid))

    def write(self, path: Path) -> None:
        """Replaces the file at once, with a time of its own so that no change goes unseen."""
        text = render_scenario(self)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        written, now = Path(file.name), time.time_ns()
        written.chmod(0o644)  # for exporters that run as another user
        os.utime(written, ns=(now, now))
        written.replace(path)


def render_scenario(scenario: Scenario) -> str:
    """The scenario in the library's format."""
    lines = [
        f"driver {scenario.driver}",
        f"nvml {scenario.nvml}",
        f"cuda {scenario.cuda}",
        *(f"fault {fault.call} {fault.gpu} {fault.kind} {fault.number}" for fault in scenario.faults),
        *(
            f"event {event.serial} {event.gpu} {event.type} {event.xid} {_instances(event)}"
            for event in scenario.events
        ),
        *(line for gpu in scenario.gpus for line in _gpu_lines(gpu)),
        "end",
    ]
    return "".join(f"{line}\n" for line in lines)


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)


def _instances(of: Event | Process) -> str:
    return f"{_or_dash(of.gpu_instance)} {_or_dash(of.compute_instance)}"


def _state_lines(device: Gpu | MigDevice) -> Iterator[str]:
    for reading in fields(Readings):
        value = getattr(device, reading.name)
        if isinstance(value, str):
            yield f"text {reading.name} {value}"
        elif isinstance(value, int):
            yield f"value {reading.name} 0 {value}"
        elif isinstance(value, dict):
            for key, number in value.items():
                index = ".".join(map(str, key)) if isinstance(key, tuple) else key
                yield f"value {reading.name} {index} {number}"
    for key, found in device.fields.items():
        identity, scope = key if isinstance(key, tuple) else (key, 0)
        number = found.value if found.type == "double" else int(found.value)
        yield f"field {identity} {scope} {found.type} {number}"


def _gpu_lines(gpu: Gpu) -> Iterator[str]:
    yield f"gpu {gpu.uuid}"
    yield from _state_lines(gpu)
    if gpu.energy is not None:
        yield f"energy {gpu.energy.millijoules} {gpu.energy.rate} {gpu.energy.since}"
    yield from _use_lines(gpu)
    for page in gpu.retired_pages:
        yield f"retired_page {page.cause} {page.address} {page.time}"
    if gpu.gpm is not None:
        yield "gpm"
        yield from (f"metric - {metric} {value}" for metric, value in gpu.gpm.items())
    for mig in gpu.migs:
        yield from (f"metric {mig.gpu_instance} {metric} {value}" for metric, value in mig.metrics.items())
    if gpu.lost:
        yield "lost"
    for mig in gpu.migs:
        yield f"mig {mig.uuid}"
        yield from _state_lines(mig)


def _use_lines(gpu: Gpu) -> Iterator[str]:
    for process in gpu.processes:
        yield f"process {process.list} {process.pid} {_or_dash(process.memory)} {_instances(process)}"
        if process.sm is not None:
            yield _process_sample(
                "live", process.pid, process.sm, process.memory_use, process.encoder, process.decoder
            )
    for sample in gpu.process_samples:
        yield _process_sample(sample.time, sample.pid, sample.sm, sample.memory, sample.encoder, sample.decoder)
    if gpu.live and gpu.utilization_gpu is not None:
        yield f"sample {pynvml.NVML_GPU_UTILIZATION_SAMPLES} live {gpu.utilization_gpu}"
    for kind, samples in gpu.samples.items():
        yield from (f"sample {kind} {at} {value}" for at, value in samples)


def _process_sample(*words: object) -> str:
    return " ".join(map(str, ("process_sample", *words)))
