"""Every metric of gpuledger, declared once.

HELP lines, docs/metrics.md, name checks and the selectors that rules and dashboards may use derive from here.
To add a device reading: its spec in gpu.py and its row in sources/nvml/readings.py; nothing else.
"""

from __future__ import annotations

from gpuledger.core.spec import MetricSpec
from gpuledger.metrics.catalog.audit import AUDIT, AUDIT_SELF
from gpuledger.metrics.catalog.exporter import SELF
from gpuledger.metrics.catalog.gpu import GPU, GPU_INFO_LABELS, MIG_DEVICE
from gpuledger.metrics.catalog.inventory import ASKED, DRA, NODE_STOCK, WARNINGS
from gpuledger.metrics.catalog.pods import POD_FACTS
from gpuledger.metrics.catalog.use import CONTAINER, KUBELET, PROCESS_ROW, UNATTRIBUTED

__all__ = ["BY_NAME", "CLUSTER", "GPU_INFO_LABELS", "SECTIONS", "SPECS"]

SECTIONS: tuple[tuple[str, tuple[MetricSpec, ...]], ...] = (
    ("GPUs", GPU),
    ("MIG devices", MIG_DEVICE),
    ("Containers", CONTAINER),
    ("Processes", PROCESS_ROW),
    ("Use without an owner", UNATTRIBUTED),
    ("Devices that the kubelet has to give", KUBELET),
    ("Pods that use, hold or ask for a GPU", POD_FACTS),
    ("Nodes with GPUs, as the API has them", NODE_STOCK),
    ("What is asked for, and who waits", ASKED),
    ("Devices by claim", DRA),
    ("Warnings about pods", WARNINGS),
    ("Findings", (*AUDIT, *AUDIT_SELF)),
    ("The exporter itself", SELF),
)

CLUSTER: tuple[MetricSpec, ...] = (*NODE_STOCK, *ASKED, *DRA, *WARNINGS, *AUDIT_SELF)
"""What the cluster role alone has."""

SPECS: tuple[MetricSpec, ...] = tuple(spec for _, specs in SECTIONS for spec in specs)

BY_NAME: dict[str, MetricSpec] = {spec.name: spec for spec in SPECS}
