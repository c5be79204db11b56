"""What can be set: one class a command, one field a setting."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpuledger.app.config import (
    boolean,
    choice,
    duration,
    file_path,
    listen_address,
    option,
    pattern,
    port_number,
    positive_duration,
    positive_integer,
    shard,
)
from gpuledger.audit.check import Severity
from gpuledger.core.sharding import Shard


def severity(text: str) -> Severity:
    """How bad a finding is."""
    return Severity[choice(*map(str, Severity))(text).upper()]


@dataclass(frozen=True, kw_only=True)
class CommonSettings:
    """What every long-running command takes."""

    config_file: str = option(
        "config.file", "", "YAML file with the same settings as these flags.", metavar="FILE"
    )
    log_level: str = option(
        "log.level",
        "info",
        "Least severe messages to log: debug, info, warning or error.",
        parse=choice("debug", "info", "warning", "error"),
        metavar="LEVEL",
    )
    log_format: str = option(
        "log.format",
        "text",
        "How to write the log: text or json.",
        parse=choice("text", "json"),
        metavar="FORMAT",
    )


@dataclass(frozen=True, kw_only=True)
class WebSettings(CommonSettings):
    """Who may ask the roles that are scraped."""

    web_config_file: Path | None = option(
        "web.config.file",
        None,
        "YAML file of exporter-toolkit's format: certificates, users, headers; read again when it changes.",
        parse=file_path,
        metavar="FILE",
    )
    web_kubernetes_auth: bool = option(
        "web.kubernetes-auth",
        "false",
        "Whether to let in those whose bearer token Kubernetes knows, and who may get the path: true or false.",
        parse=boolean,
        metavar="BOOL",
    )


@dataclass(frozen=True, kw_only=True)
class NodeSettings(WebSettings):
    """Settings of `gpuledger node`; durations are in seconds."""

    web_listen_address: tuple[str, int] = option(
        "web.listen-address",
        ":9440",
        "Address to serve /metrics, the page, /healthz and /readyz on.",
        parse=listen_address,
        metavar="ADDRESS",
    )
    node_name: str = option(
        "node-name",
        "",
        "Name of this node in the API and in the label `node`; without it NODE_NAME, else the host name.",
        metavar="NAME",
    )
    interval: float = option(
        "interval", "1s", "How often to read the GPUs and their processes.", parse=positive_duration
    )
    retention: float = option(
        "retention",
        "2m",
        "How long the counters of an ended container are shown, so that its last use is scraped.",
        parse=duration,
    )
    idle_window: float = option(
        "idle-window",
        "1h",
        "How long a GPU may be held without being used before that is a finding.",
        parse=positive_duration,
        metavar="TIME",
    )
    stall_timeout: float = option(
        "stall-timeout",
        "1m",
        "How long the driver may leave a call unanswered before /healthz fails.",
        parse=positive_duration,
        metavar="TIME",
    )
    path_procfs: Path = option(
        "path.procfs", "/proc", "Where the host's processes are seen.", parse=Path, metavar="DIR"
    )
    path_pod_logs: Path = option(
        "path.pod-logs", "/var/log/pods", "The kubelet's folders of pod logs.", parse=Path, metavar="DIR"
    )
    path_container_logs: Path = option(
        "path.container-logs",
        "/var/log/containers",
        "The kubelet's links to container logs: names of containers without the API.",
        parse=Path,
        metavar="DIR",
    )
    path_podresources: Path = option(
        "path.podresources",
        "/var/lib/kubelet/pod-resources/kubelet.sock",
        "The kubelet's PodResources socket: which container was allocated which device.",
        parse=Path,
        metavar="SOCKET",
    )
    kube: str = option(
        "kube",
        "auto",
        "Where to find the Kubernetes API: auto, off, in-cluster or kubeconfig.",
        parse=choice("auto", "off", "in-cluster", "kubeconfig"),
        metavar="MODE",
    )
    kubeconfig: str = option(
        "kubeconfig", "", "Kubeconfig file; without it KUBECONFIG, else ~/.kube/config.", metavar="FILE"
    )
    kube_context: str = option(
        "kube-context", "", "Context of the kubeconfig; without it the current one.", metavar="NAME"
    )
    process_metrics: bool = option(
        "process-metrics",
        "true",
        "Whether to show each process (the only series that carry a pid): true or false.",
        parse=boolean,
        metavar="BOOL",
    )
    metrics_dcgm_compatible: bool = option(
        "metrics.dcgm-compatible",
        "false",
        "Whether to show the metrics of dcgm-exporter beside, as far as NVML tells them: true or false.",
        parse=boolean,
        metavar="BOOL",
    )
    series_limit: int = option(
        "series-limit",
        "10000",
        "Most series of one metric; what is over is left out and counted in gpuledger_series_dropped_total.",
        parse=positive_integer,
        metavar="N",
    )


@dataclass(frozen=True, kw_only=True)
class ClusterSettings(WebSettings):
    """Settings of `gpuledger cluster`."""

    web_listen_address: tuple[str, int] = option(
        "web.listen-address",
        ":9441",
        "Address to serve /metrics, the page, /healthz and /readyz on.",
        parse=listen_address,
        metavar="ADDRESS",
    )
    kubeconfig: str = option(
        "kubeconfig",
        "",
        "Kubeconfig file; without it the pod's service account, else KUBECONFIG, else ~/.kube/config.",
        metavar="FILE",
    )
    kube_context: str = option(
        "kube-context", "", "Context of the kubeconfig; without it the current one.", metavar="NAME"
    )
    shard: Shard = option(
        "shard",
        "0/1",
        "Which of how many exporters this is, from 0; the index may end a name, as in $(POD_NAME)/3.",
        parse=shard,
        metavar="INDEX/COUNT",
    )
    policy: Path | None = option(
        "policy",
        None,
        "File of exceptions to the rules, with reason, owner and expiry; read again when it changes.",
        parse=file_path,
        metavar="FILE",
    )
    min_severity: Severity = option(
        "min-severity",
        "medium",
        "Least severe findings to show: info, low, medium, high or critical.",
        parse=severity,
        metavar="LEVEL",
    )
    gpu_resource: re.Pattern[str] | None = option(
        "gpu-resource", "", "More resources that are GPUs.", parse=pattern, metavar="REGEX"
    )
    series_limit: int = option(
        "series-limit",
        "200000",
        "Most series of one metric; what is over is left out and counted in gpuledger_series_dropped_total.",
        parse=positive_integer,
        metavar="N",
    )


@dataclass(frozen=True, kw_only=True)
class DemoSettings(CommonSettings):
    """Settings of `gpuledger demo`."""

    address: str = option("address", "127.0.0.1", "Address to serve on; 0.0.0.0 in a container.")
    port: int = option("port", "9440", "Port to serve on.", parse=port_number)
    seed: int = option(
        "seed",
        "1",
        "Number that names, phases and UUIDs of the simulated cluster follow from.",
        parse=positive_integer,
        metavar="N",
    )
    faults: bool = option(
        "faults",
        "true",
        "Whether things go wrong in the simulated cluster: true or false.",
        parse=boolean,
        metavar="BOOL",
    )
