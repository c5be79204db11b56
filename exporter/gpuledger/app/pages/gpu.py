"""A GPU on the node's page: how it is doing, and beneath it everybody who holds or uses it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from gpuledger.app.pages.amounts import UNKNOWN, age, count, gibibytes, measure
from gpuledger.app.pages.markup import Cell, Html, Row, badges, bar, meter, number, table, text
from gpuledger.core.model import Gpu, GpuReading, MigUuid, Owner, Pod, Workload
from gpuledger.core.snapshot import GpuState, Holder, NodeSnapshot

_HEAD = (
    "Namespace", "Pod", "#SM", "#Memory", "Ready", "Status", "#Restarts", "~#Age", "~#Processes", "~Allocated",
    "~Container", "~Workload",
)  # fmt: skip
"""What fits in first is what people look for first."""

_HARMLESS = ("idle", "applications_clocks_setting", "display_clock_setting", "sync_boost")
"""Reasons for lower clocks that are no fault."""
_LIMITS = ("sw_power_cap",)
"""Reasons that tell of hard work."""
_RECOVERY = {1: "reset it", 2: "reboot the node", 3: "drain peer-to-peer", 4: "drain and reset it"}


def gpu_section(snapshot: NodeSnapshot, state: GpuState) -> Html:
    """The GPU and who is on it, part by part where it is divided."""
    reading = state.reading
    parts = [*(mig.uuid for mig in reading.mig_devices), MigUuid("")]
    rows = [row for part in parts for row in _rows(snapshot, reading, part)]
    if reading.mig_devices:
        holders = table(("MIG device", *_HEAD), rows, kind="holders of parts")
    else:
        holders = table(_HEAD, rows, kind="holders")
    model, uuid = escape(reading.info.get("model", "")), escape(reading.gpu.uuid)
    heading = f"GPU {reading.gpu.index} <small>{model}</small> {badges(_remarks(reading))}"
    return Html(
        f'<section class="gpu"><h2>{heading} <small class="wide uuid">{uuid}</small></h2>'
        f"{_gauges(reading)}{holders if rows else ''}</section>"
    )


def place(gpu: Gpu, mig_uuid: MigUuid, reading: GpuReading | None) -> str:
    """A GPU by its index; a MIG device as `3 · 1g.10gb (GI 7)`, for its UUID says nothing to people."""
    if not mig_uuid:
        return str(gpu.index)
    for mig in reading.mig_devices if reading else ():
        if mig.uuid == mig_uuid:
            return f"{gpu.index} · {mig.profile} (GI {mig.gpu_instance})"
    return f"{gpu.index} · {mig_uuid}"


def holder_name(holder: Holder) -> str:
    """Whose use it is, in one line."""
    if isinstance(holder, Owner):
        return f"{holder.namespace}/{holder.pod} {holder.container}"
    return f"{holder.reason} {holder.unit}"


def _value(reading: GpuReading, name: str, *labels: str) -> float | None:
    return reading.values.get(name, {}).get(labels)


def _gauges(reading: GpuReading) -> str:
    memory, limit = reading.memory, _value(reading, "gpu_power_limit_watts")
    full = f"{gibibytes(memory.used)} of {gibibytes(memory.total)}" if memory else None
    power = measure(_value(reading, "gpu_power_watts"), "W") + (f" of {limit:,.0f}" if limit else "")
    clock = _value(reading, "gpu_clock_hertz", "sm")
    shown = {
        "Busy": meter(_value(reading, "gpu_utilization_ratio")),
        "Memory": meter(memory.used / memory.total if memory and memory.total else None, full),
        "Temperature": measure(_value(reading, "gpu_temperature_celsius", "gpu"), "°C"),
        "Power": power,
        "SM clock": measure(None if clock is None else clock / 1e6, "MHz"),
    }
    gauges = "".join(f"<span><b>{name}</b>{value}</span>" for name, value in shown.items())
    return f'<p class="gauges">{gauges}</p>'


def _remarks(reading: GpuReading) -> Iterator[tuple[str, str]]:
    """What has to be known of it at once, with its severity."""
    if not reading.up:
        yield "lost: the driver doesn't reach it", "critical"
    for (reason,), holds in reading.values.get("gpu_throttled", {}).items():
        if holds and reason not in _HARMLESS:
            yield f"clocks held down: {reason.replace('_', ' ')}", "info" if reason in _LIMITS else "high"
    if action := _RECOVERY.get(int(_value(reading, "gpu_recovery_action") or 0)):
        yield f"the driver asks: {action}", "critical"
    if _value(reading, "gpu_row_remap_pending"):
        yield "a memory row waits to be replaced", "high"
    if _value(reading, "gpu_row_remap_failed"):
        yield "memory rows can't be replaced any more", "critical"
    if _value(reading, "gpu_mig_enabled"):
        yield "MIG", "info"


def _rows(snapshot: NodeSnapshot, reading: GpuReading, part: MigUuid) -> Iterator[Row]:
    """Who is on a MIG device, or on the GPU as a whole where `part` is empty."""
    rows = [
        *_container_rows(snapshot, reading, part),
        *_unattributed_rows(snapshot, reading, part),
    ]
    if not rows and part:
        rows = [Row(["free", "", "", bar(0.0, gibibytes(0)), *[""] * 8], "dim")]
    if not reading.mig_devices:
        yield from rows
        return
    where = place(reading.gpu, part, reading) if part else "all"
    yield from (Row([where, *row.cells], row.style) for row in rows)


def _container_rows(snapshot: NodeSnapshot, reading: GpuReading, part: MigUuid) -> Iterator[Row]:
    pods = {(pod.namespace, pod.name): pod for pod in snapshot.pods}
    here = (reading.gpu.uuid, part)
    mine = [use for use in snapshot.containers if use.active and (use.gpu.uuid, use.mig_uuid) == here]
    for use in sorted(mine, key=lambda use: (use.owner.namespace, use.owner.pod, use.owner.container)):
        owner = use.owner
        allocated = ", ".join(f"{number} {_short(resource)}" for resource, number in use.allocated.items())
        found = badges(_findings(snapshot, owner))
        yield Row(
            [
                owner.namespace,
                Cell(Html(f"{escape(owner.pod)} {found}")) if found else owner.pod,
                bar(use.sm_ratio),
                _memory(reading, part, use.memory_used),
                *_pod_cells(pods.get((owner.namespace, owner.pod)), snapshot.taken_at),
                number(use.processes, count(use.processes)),
                allocated or text("not allocated", "high"),
                owner.container or UNKNOWN,
                _workload(owner.workload),
            ]
        )


def _short(resource: str) -> str:
    """A resource without its domain: which vendor's GPU it is, the heading says."""
    return resource.rpartition("/")[2]


def _workload(workload: Workload) -> str:
    """Kind and name; what was inferred from a name is marked."""
    if not workload.name:
        return UNKNOWN
    return f"{workload.kind}/{workload.name}" + (" (inferred)" if workload.inferred else "")


def _pod_cells(pod: Pod | None, now: float) -> list[Cell | str]:
    """What `kubectl get pods` shows of it: ready, status, restarts with the last reason, age."""
    if pod is None:
        return [UNKNOWN, UNKNOWN, number(None, UNKNOWN), number(None, UNKNOWN)]
    regular = [each for each in pod.containers if each.kind in ("regular", "sidecar")]
    ready = sum(each.ready for each in regular)
    restarts = sum(each.restarts for each in pod.containers)
    ends = [each.last_terminated for each in pod.containers if each.last_terminated]
    last = f" ({ends[0].reason} {ends[0].exit_code})" if ends else ""
    since = None if pod.created_at is None else now - pod.created_at
    return [
        text(f"{ready}/{len(regular)}", "" if ready == len(regular) else "high"),
        pod.phase or UNKNOWN,
        number(restarts, f"{restarts}{last}"),
        number(since, age(since)),
    ]


def _findings(snapshot: NodeSnapshot, owner: Owner) -> Iterator[tuple[str, str]]:
    for finding in snapshot.findings:
        of = finding.owner
        if of is not None and (of.namespace, of.pod, of.container) == (
            owner.namespace,
            owner.pod,
            owner.container,
        ):
            yield finding.check, "info" if finding.exempt else finding.severity


def _unattributed_rows(snapshot: NodeSnapshot, reading: GpuReading, part: MigUuid) -> Iterator[Row]:
    """Use that no pod owns, by reason."""
    here = (reading.gpu.uuid, part)
    mine = [use for use in snapshot.unattributed if use.active and (use.gpu.uuid, use.mig_uuid) == here]
    for use in sorted(mine, key=lambda use: (use.holder.reason, use.holder.unit)):
        who = f"{use.holder.reason}: {use.holder.unit}" if use.holder.unit else use.holder.reason
        memory, processes = _memory(reading, part, use.memory_used), number(use.processes, count(use.processes))
        yield Row(["no pod", who, "", memory, *[""] * 4, processes, *[""] * 3], "dim")


def _memory(reading: GpuReading, part: MigUuid, used: int | None) -> Cell:
    """Memory in use, as a share of what the device has."""
    parts = {mig.uuid: mig.memory for mig in reading.mig_devices}
    memory = parts.get(part) if part else reading.memory
    share = used / memory.total if used is not None and memory and memory.total else None
    return bar(share, gibibytes(used))
