"""A snapshot rendered as metric families: pure, so that a scrape touches no device, file or API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from gpuledger.core.model import Gpu, Memory, MigDevice, Owner, Pod, Workload
from gpuledger.core.snapshot import (
    AttributedProcess,
    ContainerUse,
    GpuState,
    NodeSnapshot,
    RuntimeFinding,
    SourceHealth,
    UnattributedUse,
    WebHealth,
)
from gpuledger.metrics import catalog
from gpuledger.metrics.exposition import Family, Row

POD_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")

Rows = dict[str, list[Row]]
"""Rows by metric name, gathered until every series of a family is there."""


def render_node(snapshot: NodeSnapshot) -> Iterator[Family]:
    """All families of a node but its sources' health, in the catalogue's order; empty ones are left out."""
    rows: Rows = {}
    for state in snapshot.gpus:
        _gpu(rows, snapshot.node, state)
    for xid in snapshot.xids:
        labels = (*_device(snapshot.node, xid.gpu), str(xid.xid))
        add(rows, "gpu_xid_errors_total", labels, xid.count)
        add(rows, "gpu_xid_last_timestamp_seconds", labels, xid.last_time)
        for owner in xid.owners:
            add(rows, "gpu_xid_pod_info", (*labels, *_owner(owner)), 1)
    for container in snapshot.containers:
        _container(rows, snapshot.node, container)
    for process in snapshot.processes:
        _process(rows, snapshot.node, process)
    for use in snapshot.unattributed:
        _unattributed(rows, snapshot.node, use)
    _findings(rows, snapshot.node, snapshot.findings)
    for pod in snapshot.pods:
        add_pod_facts(rows, snapshot.node, pod)
    _cycle(rows, snapshot)
    return _families(rows)


def render_sources(node: str, sources: Iterable[SourceHealth]) -> Iterator[Family]:
    """How each source of evidence is doing."""
    rows: Rows = {}
    for source in sources:
        labels = (node, source.name)
        add(rows, "source_up", labels, source.up)
        add(rows, "source_last_success_timestamp_seconds", labels, source.last_success)
        add(rows, "source_duration_seconds", labels, source.duration_seconds)
        add(rows, "source_failures_total", labels, source.failures)
        add(rows, "source_malformed_objects_total", labels, source.malformed)
        add(rows, "source_unreadable_objects", labels, source.unreadable)
    return _families(rows)


def render_web(node: str, health: WebHealth | None) -> Iterator[Family]:
    """Whom the web server turned away, and by which configuration; nothing where there is no guard."""
    rows: Rows = {}
    if health is not None:
        add(rows, "web_config_last_reload_successful", (node,), health.config_healthy)
        add(rows, "web_config_last_reload_success_timestamp_seconds", (node,), health.config_loaded_at)
        add(rows, "web_certificate_not_after_timestamp_seconds", (node,), health.certificate_not_after)
        for reason, count in health.refused.items():
            add(rows, "web_refused_total", (node, reason), count)
    return _families(rows)


def render_last_cycle(node: str, taken_at: float | None) -> Iterator[Family]:
    """When the books were last written, also when that is too long ago for them to be shown."""
    return _families({} if taken_at is None else {"last_cycle_timestamp_seconds": [((node,), taken_at)]})


def render_build(node: str, version: str, python_version: str) -> Iterator[Family]:
    """Which exporter this is."""
    return _families({"build_info": [((node, version, python_version), 1)]})


def _families(rows: Rows) -> Iterator[Family]:
    return (Family(spec, rows[spec.name]) for spec in catalog.SPECS if spec.name in rows)


def add(rows: Rows, name: str, labels: tuple[str, ...], value: float | Decimal | None) -> None:
    """Add a series, unless its value is unknown."""
    if value is not None:
        rows.setdefault(name, []).append((labels, float(value)))


def _device(node: str, gpu: Gpu) -> tuple[str, str, str]:
    return (node, str(gpu.index), gpu.uuid)


def _owner(owner: Owner) -> tuple[str, ...]:
    return (owner.namespace, owner.pod, owner.container, owner.workload.kind, owner.workload.name)


def _gpu(rows: Rows, node: str, state: GpuState) -> None:
    reading = state.reading
    device = _device(node, reading.gpu)
    add(rows, "gpu_up", device, reading.up)
    info = reading.info
    if info:
        add(rows, "gpu_info", (*device, *(info.get(label, "") for label in catalog.GPU_INFO_LABELS)), 1)
    _memory(rows, "gpu_memory", device, reading.memory)
    _values(rows, device, reading.values)
    add(rows, "gpu_busy_seconds_total", device, state.busy_seconds)
    for reason, seconds in state.throttled_seconds.items():
        add(rows, "gpu_throttled_seconds_total", (*device, reason), seconds)
    if reading.processes is not None:
        add(rows, "gpu_processes", device, len({process.pid for process in reading.processes}))
    for name in sorted(reading.unsupported):
        add(rows, "gpu_unsupported", (*device, name), 1)
    for mig in reading.mig_devices:
        _mig(rows, device, mig)


def _memory(rows: Rows, prefix: str, labels: tuple[str, ...], memory: Memory | None) -> None:
    if memory is not None:
        add(rows, f"{prefix}_total_bytes", labels, memory.total)
        add(rows, f"{prefix}_used_bytes", labels, memory.used)
        add(rows, f"{prefix}_free_bytes", labels, memory.free)
        add(rows, f"{prefix}_reserved_bytes", labels, memory.reserved)


def _values(rows: Rows, labels: tuple[str, ...], values: Mapping[str, Mapping[tuple[str, ...], float]]) -> None:
    for name, series in values.items():
        rows.setdefault(name, []).extend(((*labels, *more), value) for more, value in series.items())


def _mig(rows: Rows, device: tuple[str, ...], mig: MigDevice) -> None:
    labels = (*device, mig.uuid)
    add(rows, "mig_info", (*labels, mig.profile, str(mig.gpu_instance), str(mig.compute_instance)), 1)
    _memory(rows, "mig_memory", labels, mig.memory)
    _values(rows, labels, mig.values)


def _container(rows: Rows, node: str, use: ContainerUse) -> None:
    labels = (*_device(node, use.gpu), use.mig_uuid, *_owner(use.owner))
    for resource, count in use.allocated.items():
        add(rows, "container_allocated", (*labels, resource), count)
    for resource, seconds in use.allocated_seconds.items():
        add(rows, "container_allocated_seconds_total", (*labels, resource), seconds)
    add(rows, "container_memory_used_bytes", labels, use.memory_used)
    add(rows, "container_sm_utilization_ratio", labels, use.sm_ratio)
    add(rows, "container_sm_busy_seconds_total", labels, use.sm_seconds)
    add(rows, "container_processes", labels, use.processes)
    add(rows, "container_energy_joules_total", labels, use.energy_joules)


def _process(rows: Rows, node: str, process: AttributedProcess) -> None:
    holder, facts = process.holder, process.facts
    owner, reason = (_owner(holder), "") if isinstance(holder, Owner) else (("",) * 5, holder.reason)
    device = (*_device(node, process.gpu), process.use.mig_uuid)
    labels = (*device, *owner, str(process.use.pid), facts.name if facts else "", reason)
    add(rows, "process_memory_used_bytes", labels, process.use.memory_used)
    add(rows, "process_sm_utilization_ratio", labels, process.sm_ratio)
    if facts is not None:
        add(rows, "process_start_time_seconds", labels, facts.start_time)
        add(rows, "process_cpu_seconds_total", labels, facts.cpu_seconds)
        add(rows, "process_resident_memory_bytes", labels, facts.resident_bytes)


def _unattributed(rows: Rows, node: str, use: UnattributedUse) -> None:
    labels = (*_device(node, use.gpu), use.mig_uuid, use.holder.reason, use.holder.unit)
    add(rows, "unattributed_memory_used_bytes", labels, use.memory_used)
    add(rows, "unattributed_processes", labels, use.processes)
    add(rows, "unattributed_sm_busy_seconds_total", labels, use.sm_seconds)


def add_pod_facts(rows: Rows, node: str, pod: Pod) -> None:
    """What `kubectl get pods` shows of a pod."""
    labels = (node, pod.namespace, pod.name)
    workload = (pod.workload.kind, pod.workload.name, str(pod.workload.inferred).lower())
    add(rows, "pod_info", (*labels, pod.uid, pod.qos, *workload), 1)
    for phase in POD_PHASES if pod.phase else ():
        add(rows, "pod_status_phase", (*labels, phase), phase == pod.phase)
    add(rows, "pod_ready", labels, pod.ready)
    for condition, holds in pod.conditions.items():
        add(rows, "pod_condition", (*labels, condition), holds)
    add(rows, "pod_created_timestamp_seconds", labels, pod.created_at)
    for container in pod.containers:
        add(rows, "pod_container_restarts_total", (*labels, container.name), container.restarts)
        ended = container.last_terminated
        if ended is not None:
            terminated = (*labels, container.name, ended.reason, str(ended.exit_code))
            add(rows, "pod_last_terminated_info", terminated, 1)


def _findings(rows: Rows, node: str, findings: Iterable[RuntimeFinding]) -> None:
    """Findings with the labels that the cluster role's have; what the node itself does is its own workload."""
    of_node = Owner("", "", "", Workload("Node", node))
    pods: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for found in findings:
        owner = found.owner or of_node
        rule = (owner.workload.kind, owner.workload.name, found.check, found.severity)
        family = "audit_exempted" if found.exempt else "audit_workload_pods_affected"
        pods.setdefault((family, (owner.namespace, *rule)), set()).add(owner.pod)
        row = ((owner.namespace, owner.pod, owner.container, *rule), 1.0)
        if not found.exempt and row not in rows.get("audit_finding", ()):
            rows.setdefault("audit_finding", []).append(row)
    for (family, labels), names in pods.items():
        add(rows, family, labels, len(names))


def _cycle(rows: Rows, snapshot: NodeSnapshot) -> None:
    node = snapshot.node
    for result, count in snapshot.attribution.items():
        add(rows, "attribution_processes", (node, result), count)
    add(rows, "unresolved_allocations", (node,), snapshot.unresolved_allocations)
    for resource, count in snapshot.allocatable.items():
        add(rows, "kubelet_allocatable_devices", (node, resource), count)
    for name, count in snapshot.dropped.items():
        add(rows, "dropped_readings_total", (node, name), count)
