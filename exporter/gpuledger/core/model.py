"""The values that flow through gpuledger: readings in, evidence beside them, one frozen snapshot out.

Units are Prometheus' base units everywhere: bytes, seconds, ratios from 0 to 1, joules, watts, celsius,
hertz. `None` means unknown; it is never written as 0. Times are Unix seconds unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NewType

GpuUuid = NewType("GpuUuid", str)
"""NVML's identity of a physical GPU, `GPU-<uuid>`; stable across reboots, unlike the index."""

MigUuid = NewType("MigUuid", str)
"""NVML's identity of a MIG device, `MIG-<uuid>`; empty where a GPU is whole."""

PodUid = NewType("PodUid", str)
"""A pod's `metadata.uid`, or for a static pod the 32 hex digits of its configuration hash."""

ContainerId = NewType("ContainerId", str)
"""A container runtime's 64 hex digits, without the `containerd://` before them."""

Values = Mapping[tuple[str, ...], float]
"""Values of one metric: those labels that come after the family's common ones, to the value."""

NOTHING: Mapping[Any, Any] = MappingProxyType({})


# ---- what NVML says ----


@dataclass(frozen=True, slots=True)
class Gpu:
    """A physical GPU: `index` is NVML's, `uuid` is what to join on.

    `minor` is the N of /dev/nvidiaN (nvmlDeviceGetMinorNumber), which need not be the index.
    """

    index: int
    uuid: GpuUuid
    minor: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a GPU or a MIG device, in bytes; `used` excludes `reserved` where told."""

    total: int
    used: int
    free: int
    reserved: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """One process on one GPU (or MIG device), merged over NVML's compute, graphics and MPS lists.

    `memory_used` is None where the driver does not tell (`NVML_VALUE_NOT_AVAILABLE`).
    """

    pid: int
    memory_used: int | None
    mig_uuid: MigUuid = MigUuid("")


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """SM use of `pid` in the period that ends at `time`, from NVML's per-process buffer.

    `sm_ratio` is None where the buffer holds a value that none can be.
    """

    pid: int
    time: float
    sm_ratio: float | None


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A MIG device: one compute instance in a GPU instance, with what is measured for it alone."""

    uuid: MigUuid
    profile: str
    gpu_instance: int
    compute_instance: int
    memory: Memory | None = None
    values: Mapping[str, Values] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class GpuReading:
    """Everything NVML said of one GPU in one cycle.

    `values` maps a metric of the catalogue (without the `gpuledger_` prefix) to its values; a reading that the
    device does not support is absent there and named in `unsupported`. `processes` is None when no process
    list could be read: unknown, not empty. `process_samples` is None where per-process utilisation is not
    available (MIG, old drivers). `listed_at` is when the process lists were asked for, in seconds since boot
    (CLOCK_BOOTTIME), so that a process born later is not taken for the one listed.
    """

    gpu: Gpu
    up: bool
    info: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    memory: Memory | None = None
    values: Mapping[str, Values] = field(default_factory=lambda: NOTHING)
    processes: tuple[ProcessUse, ...] | None = None
    listed_at: float = 0.0
    read_at: float | None = None
    """Unix time at `listed_at`, on the clock that samples are stamped with; None for the time of booking."""
    busy_samples: tuple[tuple[float, float], ...] | None = None
    """New samples of NVML's GPU utilisation buffer: (Unix time, ratio), oldest first."""
    process_samples: tuple[ProcessSample, ...] | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    unsupported: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class XidEvent:
    """A critical error that the driver reported for a GPU, at the time it was received."""

    gpu_uuid: GpuUuid
    xid: int
    time: float


@dataclass(frozen=True, slots=True)
class NvmlReading:
    """One cycle over all GPUs of the node. `dropped` counts implausible values since the start, by reading."""

    gpus: tuple[GpuReading, ...]
    dropped: Mapping[str, int] = field(default_factory=lambda: NOTHING)


# ---- what /proc and the kubelet's folders say ----


@dataclass(frozen=True, slots=True)
class Cgroup:
    """What a process's cgroup path gives away.

    `kind` is `pod` (a pod UID or a Kubernetes container was found), `container` (a container of something
    other than Kubernetes), `host` (neither; `unit` is its systemd unit where there is one) or `hidden` (the
    path leads out of our cgroup namespace and names nothing).
    """

    kind: Literal["pod", "container", "host", "hidden"]
    pod_uid: PodUid | None = None
    container_id: ContainerId | None = None
    qos: str = ""
    unit: str = ""
    outer: Cgroup | None = None
    """The outermost pod, where this is a pod in a pod: a kubelet in a container (kind), or a forged name.

    A process that may make cgroups can give those below its own any name; it can't leave `outer`.
    """


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What /proc says of a PID at one moment; `fault` says why it says nothing."""

    pid: int
    start_ticks: int = 0
    """Clock ticks since boot, field 22 of /proc/<pid>/stat: with the PID it identifies a process."""
    start_time: float | None = None
    name: str = ""
    cgroup: Cgroup | None = None
    cpu_seconds: float | None = None
    resident_bytes: int | None = None
    fault: Literal["", "exited", "permission", "pid-namespace"] = ""


@dataclass(frozen=True, slots=True)
class LoggedContainer:
    """A container as the kubelet's log folders name it; `pod_uid` is empty where the link did not tell."""

    namespace: str
    pod: str
    container: str
    pod_uid: PodUid | None = None


@dataclass(frozen=True, slots=True)
class LoggedPod:
    """A pod as /var/log/pods names it, with the container folders below it."""

    namespace: str
    pod: str
    containers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodLogs:
    """The kubelet's log folders: names of containers and pods without the API."""

    containers: Mapping[ContainerId, LoggedContainer] = field(default_factory=lambda: NOTHING)
    pods: Mapping[PodUid, LoggedPod] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class Allocation:
    """A device (or slice, or share of it) that the kubelet allocated to a container.

    `device_id` is the device plugin's or DRA driver's own name. `gpu_uuid` and `mig_uuid` are what it means;
    both None where it could not be told.
    """

    namespace: str
    pod: str
    container: str
    resource: str
    device_id: str
    gpu_uuid: GpuUuid | None = None
    mig_uuid: MigUuid | None = None


@dataclass(frozen=True, slots=True)
class AllocationsReading:
    """What the kubelet has allocated, and how many GPUs (slices, shares) it could give of each resource.

    A resource is missing where no device of it is healthy, where its device plugin is gone, and where the
    kubelet does not tell (before Kubernetes 1.21).
    """

    allocations: tuple[Allocation, ...]
    allocatable: Mapping[str, int] = field(default_factory=lambda: NOTHING)


# ---- what the API says ----


@dataclass(frozen=True, slots=True)
class Workload:
    """The controller that a pod belongs to; `inferred` marks a guess from the pod's name."""

    kind: str
    name: str
    inferred: bool = False


@dataclass(frozen=True, slots=True)
class Controller:
    """The object that a controller ownerReference names; `group` is its API group, empty for the core one."""

    kind: str
    name: str
    uid: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class Termination:
    """How a container last ended."""

    reason: str
    exit_code: int
    finished_at: float | None = None


@dataclass(frozen=True, slots=True)
class PodContainer:
    """A container of a pod: its spec's name and kind, and its status where the kubelet has written one."""

    name: str
    kind: Literal["regular", "init", "sidecar", "ephemeral"] = "regular"
    container_id: ContainerId | None = None
    past_container_ids: tuple[ContainerId, ...] = ()
    """IDs of earlier runs that the status still names (lastState)."""
    ready: bool = False
    restarts: int = 0
    last_terminated: Termination | None = None
    image: str = ""
    requests: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    """Extended resources asked for (`nvidia.com/gpu`, …); a request without number is absent."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as the API tells it; `config_hash` is a static pod's cgroup UID (`kubernetes.io/config.hash`)."""

    uid: PodUid
    namespace: str
    name: str
    node: str = ""
    phase: str = ""
    qos: str = ""
    ready: bool | None = None
    conditions: Mapping[str, bool] = field(default_factory=lambda: NOTHING)
    """Which of its conditions are true; one that is unknown is absent."""
    created_at: float | None = None
    deleted_at: float | None = None
    config_hash: PodUid | None = None
    controller: Controller | None = None
    """What created the pod and manages it: the first hop to `workload`."""
    workload: Workload = Workload("", "")
    containers: tuple[PodContainer, ...] = ()
    requests: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    """The pod's effective request per extended resource (scheduler's arithmetic)."""
    asks_otherwise: bool = False
    """Whether it asks for GPUs by claim or by a scheduler's annotation, of which a kubelet need not tell."""
    gpu_fraction: float | None = None
    """The part of one GPU's memory that it agreed to use, by KAI Scheduler's annotation `gpu-fraction`."""

    @property
    def terminal(self) -> bool:
        """A pod that has ended for good: it holds no device."""
        return self.phase in ("Succeeded", "Failed")


# ---- attribution ----

Reason = Literal[
    "host", "container", "pod-unknown", "exited", "pid-namespace", "permission", "driver", "unmeasured"
]
"""Why use of a GPU has no owner.

`host`: a process of the host; `container`: of a container that is not Kubernetes'; `pod-unknown`: of a pod
that nothing names; `exited`: gone before it could be looked up; `pid-namespace`: the exporter does not share
the host's PID namespace; `permission`: /proc refused; `driver`: device total minus all rows; `unmeasured`:
the same remainder when some row's memory is not told by the driver, so that it holds that too.
"""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who uses a device; `container` is empty when the container cannot be told."""

    namespace: str
    pod: str
    container: str
    workload: Workload = Workload("", "")
    pod_uid: PodUid | None = None


@dataclass(frozen=True, slots=True)
class Unattributed:
    """Use without an owner; `unit` is the systemd unit of a host process, empty otherwise."""

    reason: Reason
    unit: str = ""
