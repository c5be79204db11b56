"""What a metric is before it has values: name, kind, help and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "gpuledger_"

DEVICE = ("node", "gpu", "gpu_uuid")
OWNER = (*DEVICE, "mig_uuid", "namespace", "pod", "container", "workload_kind", "workload")


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric family. `name` stands without the prefix; a counter's name ends in `_total`.

    `source` names where the fact comes from: an NVML call, a file, an API field. `prefix` is another where the
    name is not ours.
    """

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: tuple[str, ...]
    source: str = ""
    prefix: str = PREFIX

    @property
    def full_name(self) -> str:
        """The name as Prometheus sees it."""
        return self.prefix + self.name


def gauge(name: str, labels: tuple[str, ...], text: str, source: str = "") -> MetricSpec:
    """Declare a gauge."""
    return MetricSpec(name, "gauge", text, labels, source)


def counter(name: str, labels: tuple[str, ...], text: str, source: str = "") -> MetricSpec:
    """Declare a counter."""
    return MetricSpec(name, "counter", text, labels, source)
