"""The exporter itself: how far what it shows can be trusted."""

from __future__ import annotations

from gpuledger.core.spec import counter, gauge

SOURCE = ("node", "source")

SELF = (
    gauge("build_info", ("node", "version", "python_version"), "The exporter's version, with value 1."),
    gauge(
        "last_cycle_timestamp_seconds",
        ("node",),
        "Unix time of the cycle that this page shows; an old one means a stuck exporter.",
    ),
    gauge("source_up", SOURCE, "1 while the source of evidence answers in time."),
    gauge("source_last_success_timestamp_seconds", SOURCE, "Unix time at which the source last answered."),
    gauge("source_duration_seconds", SOURCE, "Seconds that the source's last answer took."),
    counter("source_failures_total", SOURCE, "Failed attempts to read the source."),
    counter(
        "source_malformed_objects_total",
        SOURCE,
        "Objects of the API left out because they don't have the shape of their kind.",
    ),
    gauge(
        "source_unreadable_objects",
        SOURCE,
        "Objects of the API that are left out now, because they don't have the shape of their kind.",
    ),
    gauge(
        "attribution_processes",
        ("node", "result"),
        "Processes on GPUs by what attribution made of them: owned, or the reason why not.",
    ),
    gauge(
        "unresolved_allocations",
        ("node",),
        "Devices that the kubelet has allocated and whose id names no GPU that the driver shows.",
        "kubelet PodResources",
    ),
    counter(
        "dropped_readings_total",
        ("node", "reading"),
        "Readings thrown away because no real device could show them, by metric.",
    ),
    counter(
        "series_dropped_total",
        ("node", "family"),
        "Series left out because their family had reached --series-limit.",
    ),
    gauge(
        "web_config_last_reload_successful",
        ("node",),
        "1 if --web.config.file could be used when last read, with its certificates; 0 while older ones hold.",
    ),
    gauge(
        "web_config_last_reload_success_timestamp_seconds",
        ("node",),
        "Unix time of the last change to --web.config.file or its certificates that is in force.",
    ),
    gauge(
        "web_certificate_not_after_timestamp_seconds",
        ("node",),
        "Unix time at which the server's certificate, of --web.config.file, expires.",
    ),
    counter(
        "web_refused_total",
        ("node", "reason"),
        "Connections and requests that --web.config.file or --web.kubernetes-auth turned away.",
    ),
)
