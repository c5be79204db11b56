"""What one cycle of the node role ends in: a frozen picture from which every scrape is rendered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuledger.core.model import (
    NOTHING,
    Gpu,
    GpuReading,
    MigUuid,
    Owner,
    Pod,
    ProcessFacts,
    ProcessUse,
    Unattributed,
)

Holder = Owner | Unattributed
"""Who a process's use of a device is booked on."""


@dataclass(frozen=True, slots=True)
class AttributedProcess:
    """A process on a GPU, with its holder; `facts` is None where /proc must not be asked."""

    gpu: Gpu
    use: ProcessUse
    holder: Holder
    facts: ProcessFacts | None = None
    sm_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class GpuState:
    """A GPU's reading with what was accumulated for it; None where it can't be accumulated."""

    reading: GpuReading
    busy_seconds: float | None = None
    throttled_seconds: Mapping[str, float] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """A container on a GPU: what it uses now (absent once it has ended) and what it has used so far.

    `active` is False in the retention period: then only the counters are shown. `memory_used` is None where
    the memory of one of its processes is unknown; `sm_ratio` and `sm_seconds` where the device does not tell.
    """

    gpu: Gpu
    mig_uuid: MigUuid
    owner: Owner
    active: bool = True
    memory_used: int | None = None
    sm_ratio: float | None = None
    processes: int | None = None
    allocated: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    """Devices (or shares of this device) allocated to it, by resource name."""
    sm_seconds: float | None = None
    energy_joules: float | None = None
    allocated_seconds: Mapping[str, float] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class UnattributedUse:
    """Use of a GPU that nobody owns, for one reason."""

    gpu: Gpu
    mig_uuid: MigUuid
    holder: Unattributed
    active: bool = True
    memory_used: int | None = None
    processes: int | None = None
    sm_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class XidAccount:
    """Errors of one code on one GPU since the exporter started, and who was on it at the last."""

    gpu: Gpu
    xid: int
    count: int
    last_time: float
    owners: tuple[Owner, ...] = ()


@dataclass(frozen=True, slots=True)
class RuntimeFinding:
    """A rule of the audit's catalogue that is broken while pods run; `owner` is None for the node itself.

    `exempt` marks what GPU infrastructure is expected to do.
    """

    check: str
    severity: str
    owner: Owner | None = None
    exempt: bool = False


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """Everything that a scrape of a node shows but the health of its sources."""

    node: str
    taken_at: float
    gpus: tuple[GpuState, ...] = ()
    containers: tuple[ContainerUse, ...] = ()
    processes: tuple[AttributedProcess, ...] = ()
    unattributed: tuple[UnattributedUse, ...] = ()
    pods: tuple[Pod, ...] = ()
    """The node's pods that use, hold or ask for a GPU."""
    xids: tuple[XidAccount, ...] = ()
    findings: tuple[RuntimeFinding, ...] = ()
    attribution: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    """Processes on GPUs by outcome: `owned`, or the reason why not."""
    api_knows_node: bool = True
    """False when the API, asked for this node's pods, lists none of those that the kubelet runs."""
    unresolved_allocations: int | None = None
    """Allocated devices whose id names no GPU of this node."""
    allocatable: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    """Devices, slices or shares that the kubelet could give, by resource."""
    dropped: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    """Implausible readings since the start, by metric."""


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """How a source of evidence is doing, as of one moment."""

    name: str
    up: bool
    last_success: float | None = None
    duration_seconds: float | None = None
    failures: int = 0
    malformed: int | None = None
    """Objects left out since the start for want of their kind's shape; None where a source has no objects."""
    unreadable: int | None = None
    """Those that are left out now."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class WebHealth:
    """Whom the web server has turned away since the start, by reason, and whether its file is in force.

    `config_healthy` is False while an older one is in force than the file holds, None where there is no file;
    `config_loaded_at` is the Unix time of the last change, `certificate_not_after` when its certificate ends.
    """

    refused: Mapping[str, int]
    config_healthy: bool | None = None
    config_loaded_at: float | None = None
    certificate_not_after: float | None = None
