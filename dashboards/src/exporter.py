"""How far what the other dashboards show can be trusted, and what it costs to know it."""

from __future__ import annotations

from boards import NODES, board, row
from links import EXPORTER, NODE
from palette import (
    BAD,
    COVERAGE,
    DOUBT_IF_ANY,
    ELSE,
    EXTRA,
    FAULT_IF_ANY,
    FAULT_IF_NONE,
    GOOD,
    LIFETIME_LEFT,
    NOTICE,
    WARNING,
)
from panels import Column, Line, bars, graph, number, rows, timeline

SOURCES = "max by (cluster, node, source) (gpuledger_source_up{NODE})"


def of_exporter(query: str) -> str:
    """What Prometheus knows of a target, with the exporter's node; that of the cluster role is empty."""
    return f"{query} * on (cluster, job, instance) group_left (node) gpuledger_build_info{{NODE}}"


TRUST = row(
    "Can it be trusted?",
    number(
        "Node exporters",
        "Nodes whose exporter answers.",
        'count(group by (cluster, node) (gpuledger_source_up{NODE, source="nvml"}))',
        steps=FAULT_IF_NONE,
    ),
    number(
        "Sources down",
        "Sources of evidence that don't answer: driver, kubelet, API, folders of logs, /proc. What they would "
        "tell is absent.",
        f"sum(1 - {SOURCES})",
        steps=FAULT_IF_ANY,
    ),
    number(
        "Oldest picture",
        "Seconds since the slowest exporter last looked. Above a minute it is stuck: GpuExporterStale.",
        "max(time() - max by (cluster, node) (gpuledger_last_cycle_timestamp_seconds{NODE}))",
        "s",
        steps=((None, GOOD), (60, BAD)),
    ),
    number(
        "Processes attributed",
        "Share of the GPU processes whose pod is known, without those of the host and of other containers.",
        'sum(gpuledger_attribution_processes{NODE, result="owned"}) '
        '/ (sum(gpuledger_attribution_processes{NODE, result!~"host|container"}) > 0)',
        "percentunit",
        steps=COVERAGE,
    ),
    number(
        "Devices not understood",
        "Devices that kubelets have allocated and whose id names no GPU: nobody on the node is accused of use "
        "without a request meanwhile.",
        "sum(max by (cluster, node) (gpuledger_unresolved_allocations{NODE}))",
        steps=DOUBT_IF_ANY,
    ),
    number(
        "Series left out",
        "Series left out in the last hour because their family had reached --series-limit.",
        "sum(increase(gpuledger_series_dropped_total{NODE}[1h])) or 0 * count(gpuledger_build_info{NODE})",
        steps=DOUBT_IF_ANY,
    ),
    number(
        "Readings dropped",
        "Values in the last hour that no real device could show. Single ones come with every reset.",
        "sum(increase(gpuledger_dropped_readings_total{NODE}[1h])) or 0 * count(gpuledger_build_info{NODE})",
        steps=((None, GOOD), (10, WARNING)),
    ),
    number(
        "Failed reads",
        "Failed attempts to read a source in the last hour.",
        "sum(increase(gpuledger_source_failures_total{NODE}[1h]))",
        steps=((None, GOOD), (5, WARNING)),
    ),
)

SOURCE = row(
    "Sources of evidence",
    timeline(
        "Sources that were down",
        "Each source while it did not answer; nothing here is good news. Without a node: the cluster role's.",
        f"{SOURCES} == 0",
        "{{node}} {{source}}",
        {"0": ("down", BAD)},
    ),
    graph(
        "Slowest answers",
        "Seconds that a source's last answer took; the ten slowest. GpuExporterSlow fires above 5 s.",
        Line(
            "topk(10, max by (node, source) (gpuledger_source_duration_seconds{NODE}))", "{{node}} {{source}}"
        ),
        unit="s",
        width=8,
    ),
    graph(
        "Failures by source",
        "Failed attempts a minute to read a source, and objects of the API that could not be read, over all "
        "exporters.",
        Line(
            "sum by (source) (rate(gpuledger_source_failures_total{NODE}[$__rate_interval])) * 60", "{{source}}"
        ),
        Line(
            "sum by (source) (rate(gpuledger_source_malformed_objects_total{NODE}[$__rate_interval])) * 60",
            "{{source}} objects",
        ),
        unit="cpm",
        stack=True,
        width=8,
    ),
    graph(
        "Objects left out",
        "Objects of the API that are left out, because they don't have the shape of their kind, and those on "
        "which a check of the audit failed. The log names them. GpuAuditErrors fires after half an hour.",
        Line(
            "sum by (source) (max by (cluster, node, source) (gpuledger_source_unreadable_objects{NODE}))",
            "{{source}}",
        ),
        Line("sum(gpuledger_audit_failed_objects{CLUSTER})", "audit"),
        stack=True,
        width=8,
    ),
    rows(
        "Since when they are silent",
        "Time since a source last answered; the 50 longest. Pods and devices are asked each second, the "
        "kubelet every 5.",
        {"node": "Node", "source": "Source", "cluster": ""},
        Column(
            "Silent for",
            "topk(50, time() - max by (cluster, node, source) "
            "(gpuledger_source_last_success_timestamp_seconds{NODE}))",
            "s",
            steps=((None, GOOD), (60, WARNING), (300, BAD)),
        ),
        links={"node": [EXPORTER]},
        sort="Silent for",
        width=12,
    ),
    rows(
        "What was thrown away",
        "Readings that no real device could show, and series above --series-limit, in the last hour.",
        {"node": "Node", "reading": "Reading", "family": "Family"},
        Column(
            "Times",
            "topk(50, sum by (node, reading) (increase(gpuledger_dropped_readings_total{NODE}[1h])) > 0 "
            "or sum by (node, family) (increase(gpuledger_series_dropped_total{NODE}[1h])) > 0)",
            steps=DOUBT_IF_ANY,
        ),
        links={"node": [EXPORTER]},
        sort="Times",
        width=12,
    ),
)

ATTRIBUTION = row(
    "Attribution",
    graph(
        "Processes by outcome",
        "GPU processes by what attribution made of them: owned by a pod, or the reason why nobody is known.",
        Line(
            "sum by (result) (max by (cluster, node, result) (gpuledger_attribution_processes{NODE}))",
            "{{result}}",
        ),
        stack=True,
        colors={
            "owned": GOOD,
            "host": NOTICE,
            "container": EXTRA,
            "pod-unknown": BAD,
            "exited": ELSE,
            "permission": WARNING,
        },
    ),
    bars(
        "Nodes with the worst coverage",
        "Share of the node's GPU processes whose pod is known; the ten lowest. GpuAttributionDegraded fires "
        "below 90 %.",
        "bottomk(10, max by (node) (node:gpuledger_attribution_processes_owned:ratio{NODE}))",
        "{{node}}",
        "percentunit",
        steps=COVERAGE,
    ),
)

READERS = row(
    "Who may read it",
    rows(
        "Web configurations",
        "What guards each exporter's pages, where --web.config.file does. While a new file can't be used the "
        "one before holds: GpuWebConfigNotLoaded. GpuWebCertificateExpiring fires when a certificate has less "
        "than 3 days left.",
        {"node": "Node", "cluster": ""},
        Column(
            "In force",
            "min by (cluster, node) (gpuledger_web_config_last_reload_successful{NODE})",
            steps=FAULT_IF_NONE,
        ),
        Column(
            "For",
            "time() - max by (cluster, node) "
            "(gpuledger_web_config_last_reload_success_timestamp_seconds{NODE})",
            "s",
        ),
        Column(
            "Certificate left",
            "min by (cluster, node) (gpuledger_web_certificate_not_after_timestamp_seconds{NODE}) - time()",
            "s",
            steps=LIFETIME_LEFT,
        ),
        links={"node": [EXPORTER]},
        sort="In force",
        width=12,
    ),
    graph(
        "Turned away",
        "Connections and requests a minute that were turned away, by reason, over all exporters. Somebody "
        "guesses, or Prometheus has old credentials.",
        Line("sum by (reason) (rate(gpuledger_web_refused_total{NODE}[$__rate_interval])) * 60", "{{reason}}"),
        unit="cpm",
        stack=True,
    ),
)

COST = row(
    "What it costs",
    rows(
        "Exporters",
        "Every exporter with its version and what it costs; the one without a node is the cluster role.",
        {
            "node": "Node",
            "instance": "Target",
            "version": "Version",
            "python_version": "Python",
            "job": "",
            "cluster": "",
        },
        Column("Since start", of_exporter("(time() - process_start_time_seconds)"), "s"),
        Column(
            "", "max by (cluster, job, instance, node, version, python_version) (gpuledger_build_info{NODE})"
        ),
        Column("CPU", of_exporter("rate(process_cpu_seconds_total[5m])"), "percentunit"),
        Column("Memory", of_exporter("process_resident_memory_bytes"), "bytes"),
        Column("Open files", of_exporter("process_open_fds")),
        Column("Scrape", of_exporter("scrape_duration_seconds"), "s", steps=((None, GOOD), (5, WARNING))),
        Column("Samples", of_exporter("scrape_samples_scraped")),
        links={"node": [NODE, EXPORTER]},
        sort="CPU",
    ),
    graph(
        "CPU",
        "Share of a core; the ten exporters that take most.",
        Line(
            f"topk(10, {of_exporter('rate(process_cpu_seconds_total[$__rate_interval])')})",
            "{{node}} {{instance}}",
        ),
        unit="percentunit",
    ),
    graph(
        "Memory",
        "Resident memory; the ten exporters that take most. It should be flat.",
        Line(f"topk(10, {of_exporter('process_resident_memory_bytes')})", "{{node}} {{instance}}"),
        unit="bytes",
    ),
    graph(
        "Scrapes",
        "Seconds that Prometheus waits for an exporter; the ten slowest.",
        Line(f"topk(10, {of_exporter('scrape_duration_seconds')})", "{{node}} {{instance}}"),
        unit="s",
    ),
    graph(
        "Samples",
        "Series of the ten largest exporters.",
        Line(f"topk(10, {of_exporter('scrape_samples_scraped')})", "{{node}} {{instance}}"),
    ),
)

BOARD = board(
    "exporter",
    "Exporter health",
    "gpuledger itself: sources of evidence, attribution, what was left out, and what it costs.",
    variables=(NODES,),
    rows=(TRUST, SOURCE, ATTRIBUTION, READERS, COST),
)
