"""The node's page: each GPU with who is on it beneath, then processes, driver errors and sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from gpuledger.app.pages.amounts import UNKNOWN, clock, count, gibibytes, moment
from gpuledger.app.pages.gpu import gpu_section, holder_name, place
from gpuledger.app.pages.markup import Html, Row, bar, document, number, section, sources_section, text
from gpuledger.core.model import Gpu, MigUuid, Owner
from gpuledger.core.snapshot import AttributedProcess, GpuState, NodeSnapshot, SourceHealth, XidAccount
from gpuledger.metrics.xids import read_xids

_LINKS = ("metrics", "healthz")


def render_node_page(node: str, snapshot: NodeSnapshot | None, sources: Sequence[SourceHealth]) -> Html:
    """The page for a node; without a snapshot it shows how the sources are doing, and why."""
    if snapshot is None:
        note = "no reading yet, or none that is fresh"
        return document(node, f"GPUs of {node}", note, [sources_section(sources)], _LINKS)
    readings = {str(state.reading.gpu.uuid): state for state in snapshot.gpus}
    sections = [
        *([gpu_section(snapshot, state) for state in snapshot.gpus] or [_no_gpus(sources)]),
        _processes(snapshot.processes, readings),
        _xids(snapshot.xids),
        sources_section(sources),
    ]
    return document(node, f"GPUs of {node}", moment(snapshot.taken_at), sections, _LINKS)


def _no_gpus(sources: Iterable[SourceHealth]) -> Html:
    answers = any(source.up for source in sources if source.name == "nvml")
    reason = "The driver shows no GPU." if answers else "The driver does not answer; the sources say why."
    return section("GPUs", (), (), reason)


def _processes(processes: Iterable[AttributedProcess], states: Mapping[str, GpuState]) -> Html:
    rows = [
        Row(
            [
                _place(process.gpu, process.use.mig_uuid, states),
                number(process.use.pid, str(process.use.pid)),
                process.facts.name if process.facts and process.facts.name else UNKNOWN,
                text(holder_name(process.holder), "wrap"),
                bar(process.sm_ratio),
                number(process.use.memory_used, gibibytes(process.use.memory_used)),
            ],
            "" if isinstance(process.holder, Owner) else "dim",
        )
        for process in sorted(processes, key=lambda process: (process.gpu.index, process.use.pid))
    ]
    head = ("GPU", "#PID", "Process", "Owner", "#SM", "#Memory")
    return section("Processes", head, rows, "No process is shown.")


def _place(gpu: Gpu, mig_uuid: MigUuid, states: Mapping[str, GpuState]) -> str:
    state = states.get(gpu.uuid)
    return place(gpu, mig_uuid, state.reading if state else None)


def _xids(xids: Iterable[XidAccount]) -> Html:
    rows = [
        Row(
            [
                str(each.gpu.index),
                number(each.xid, str(each.xid)),
                text(_meanings().get(each.xid, UNKNOWN), "wrap"),
                number(each.count, count(each.count)),
                number(each.last_time, clock(each.last_time)),
                text(", ".join(map(holder_name, each.owners)) or UNKNOWN, "wrap"),
            ]
        )
        for each in sorted(xids, key=lambda each: -each.last_time)
    ]
    head = ("GPU", "#XID", "Meaning", "#Times", "#Last", "Who was on it then")
    return section(
        "Driver errors (XID)", head, rows, "The driver has reported no error since the exporter started."
    )


@cache
def _meanings() -> Mapping[int, str]:
    return {code: xid.meaning for code, xid in read_xids().xids.items()}
