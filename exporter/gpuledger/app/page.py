"""The page at `/`: who is on which GPU, for people, in one self-contained document without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from time import gmtime, strftime

from gpuledger.core.model import Gpu, Owner
from gpuledger.core.snapshot import (
    AttributedProcess,
    ContainerUse,
    GpuState,
    Holder,
    NodeSnapshot,
    SourceHealth,
    UnattributedUse,
)

UNKNOWN = "n/a"

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:76rem;padding:0 1rem}
body{color:#1b1f24;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.05rem;margin:1.8rem 0 .4rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .7rem .3rem 0;border-bottom:1px solid #d5d9de;white-space:nowrap}
th{font-weight:600;color:#57606a}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.bad{color:#b3261e;font-weight:600}.dim{color:#57606a}code{font-size:.9em}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,.dim{color:#9198a1}
th,td{border-color:#30363d}.bad{color:#ff8a80}a{color:#79b8ff}}
"""

Cell = str | tuple[str, str]
"""Text, or (text, CSS class); escaped when it is written."""


def render_page(node: str, snapshot: NodeSnapshot | None, sources: Sequence[SourceHealth]) -> str:
    """The page for a node; without a snapshot it shows how the sources are doing, and why."""
    sections = [render_sources_table(sources)]
    if snapshot is not None:
        sections = [
            _gpus(snapshot.gpus),
            _containers(snapshot.containers),
            _unattributed(snapshot.unattributed),
            _processes(snapshot.processes),
            render_sources_table(sources),
        ]
    taken = strftime("%Y-%m-%d %H:%M:%S UTC", gmtime(snapshot.taken_at)) if snapshot else "no reading yet"
    return render_document(node, f"GPUs of {node}", taken, sections)


def render_document(title: str, heading: str, note: str, sections: Iterable[str]) -> str:
    """A whole page around sections that are HTML already."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="refresh" content="5">'
        f"<title>{escape(title)} · gpuledger</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(heading)}</h1>"
        f'<p class="dim">{escape(note)} · <a href="metrics">metrics</a> · <a href="healthz">health</a></p>'
        + "".join(sections)
        + "</body></html>"
    )


def _gpus(gpus: Iterable[GpuState]) -> str:
    head = ("GPU", "Model", "#Busy", "#Memory", "#Temperature", "#Power", "UUID")
    return render_table("GPUs", head, [_gpu_row(state) for state in gpus], "The driver shows no GPU.")


def _gpu_row(state: GpuState) -> list[Cell]:
    reading = state.reading
    gpu, memory = reading.gpu, reading.memory

    def value(name: str, *labels: str) -> float | None:
        return reading.values.get(name, {}).get(labels)

    used = f"{_size(memory.used)} of {_size(memory.total)}" if memory else UNKNOWN
    return [
        str(gpu.index),
        reading.info.get("model", UNKNOWN) if reading.up else ("lost", "bad"),
        (_percent(value("gpu_utilization_ratio")), "n"),
        (used, "n"),
        (_unit(value("gpu_temperature_celsius", "gpu"), "°C"), "n"),
        (_unit(value("gpu_power_watts"), "W"), "n"),
        (gpu.uuid, "dim"),
    ]


def _containers(containers: Iterable[ContainerUse]) -> str:
    rows: list[list[Cell]] = [
        [
            _place(use.gpu, use.mig_uuid),
            use.owner.namespace,
            use.owner.pod,
            use.owner.container or UNKNOWN,
            _workload(use.owner),
            (_percent(use.sm_ratio), "n"),
            (_size(use.memory_used), "n"),
            (_count(use.processes), "n"),
            ", ".join(f"{count} of {resource}" for resource, count in use.allocated.items()) or "not allocated",
        ]
        for use in sorted(containers, key=lambda use: (use.gpu.index, use.owner.namespace, use.owner.pod))
        if use.active
    ]
    head = ("GPU", "Namespace", "Pod", "Container", "Workload", "#SM", "#Memory", "#Processes", "Allocated")
    return render_table("Containers", head, rows, "No container uses or holds a GPU.")


def _unattributed(uses: Iterable[UnattributedUse]) -> str:
    rows: list[list[Cell]] = [
        [
            _place(use.gpu, use.mig_uuid),
            use.holder.reason,
            use.holder.unit,
            (_size(use.memory_used), "n"),
            (_count(use.processes), "n"),
        ]
        for use in sorted(uses, key=lambda use: (use.gpu.index, use.holder.reason))
        if use.active
    ]
    head = ("GPU", "Reason", "Unit", "#Memory", "#Processes")
    return render_table("Used by nobody known", head, rows, "Everything in use has an owner.")


def _processes(processes: Iterable[AttributedProcess]) -> str:
    rows: list[list[Cell]] = [
        [
            _place(process.gpu, process.use.mig_uuid),
            (str(process.use.pid), "n"),
            process.facts.name if process.facts else UNKNOWN,
            _holder(process.holder),
            (_percent(process.sm_ratio), "n"),
            (_size(process.use.memory_used), "n"),
        ]
        for process in sorted(processes, key=lambda process: (process.gpu.index, process.use.pid))
    ]
    head = ("GPU", "#PID", "Process", "Owner", "#SM", "#Memory")
    return render_table("Processes", head, rows, "No process is shown.")


def render_sources_table(sources: Iterable[SourceHealth]) -> str:
    """How each source is doing."""
    rows: list[list[Cell]] = [
        [
            source.name,
            "up" if source.up else ("down", "bad"),
            strftime("%H:%M:%S", gmtime(source.last_success)) if source.last_success else UNKNOWN,
            (str(source.failures), "n"),
            (source.error, "dim"),
        ]
        for source in sources
    ]
    return render_table(
        "Sources of evidence", ("Source", "State", "Last answer", "#Failures", ""), rows, "None."
    )


def render_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], empty: str) -> str:
    """A table under a heading; a `#` before a column's name aligns it as numbers."""
    if not rows:
        return f'<h2>{escape(title)}</h2><p class="dim">{escape(empty)}</p>'
    heads = "".join(
        f'<th class="n">{escape(name[1:])}</th>' if name.startswith("#") else f"<th>{escape(name)}</th>"
        for name in head
    )
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    return (
        f'<h2>{escape(title)}</h2><div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    text, style = (cell, "") if isinstance(cell, str) else cell
    return f'<td class="{style}">{escape(text)}</td>' if style else f"<td>{escape(text)}</td>"


def _place(gpu: Gpu, mig_uuid: str) -> str:
    return f"{gpu.index} {mig_uuid}" if mig_uuid else str(gpu.index)


def _holder(holder: Holder) -> str:
    if isinstance(holder, Owner):
        return f"{holder.namespace}/{holder.pod} {holder.container}"
    return f"{holder.reason} {holder.unit}"


def _workload(owner: Owner) -> str:
    workload = owner.workload
    if not workload.name:
        return UNKNOWN
    return f"{workload.kind}/{workload.name}" + (" (inferred)" if workload.inferred else "")


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


def _percent(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{ratio:.0%}"


def _unit(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else f"{value:.0f} {unit}"


def _size(size: int | None) -> str:
    return UNKNOWN if size is None else f"{size / 2**30:.1f} GiB"
