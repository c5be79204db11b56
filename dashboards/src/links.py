"""Where the dashboards are, and links between them that carry the time and the variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Name = Literal["fleet", "gpu", "workloads", "pod", "audit", "exporter"]
NAMES: tuple[Name, ...] = get_args(Name)


def uid(name: Name) -> str:
    """The dashboard's fixed identity: alerts, runbooks and bookmarks use it."""
    return f"gpuledger-{name}"


@dataclass(frozen=True, slots=True)
class Link:
    """From a cell to a dashboard; each of `fields` of its row becomes the variable named beside it."""

    title: str
    to: Name
    fields: dict[str, str]

    @property
    def url(self) -> str:
        """The address, relative to Grafana's root."""
        given = [f"var-{variable}=${{__data.fields.{field}}}" for field, variable in self.fields.items()]
        carried = ["${datasource:queryparam}", "${cluster:queryparam}", "${__url_time_range}"]
        return f"/d/{uid(self.to)}?" + "&".join([*carried, *given])


NODE = Link("GPUs of this node", "gpu", {"node": "node"})
GPU = Link("This GPU", "gpu", {"node": "node", "gpu_uuid": "gpu"})
NAMESPACE = Link("This namespace", "workloads", {"namespace": "namespace"})
WORKLOAD = Link("This workload", "workloads", {"namespace": "namespace", "workload": "workload"})
POD = Link("This pod", "pod", {"namespace": "namespace", "pod": "pod"})
FINDINGS = Link("Findings of this namespace", "audit", {"namespace": "namespace"})
EXPORTER = Link("Exporter of this node", "exporter", {"node": "node"})
