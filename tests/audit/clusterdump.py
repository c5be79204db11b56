"""Dumps of a cluster made of a few objects, and the lines of their report."""

import json
from typing import Any

from audit.auditing import audited
from gpuledger.audit.report.model import Report
from gpuledger.audit.report.text import TextStyle, render_text

Object = dict[str, Any]

GPU = "nvidia.com/gpu"


def cluster_report(*objects: Object) -> Report:
    """The report on these objects by a check that finds nothing in them."""
    return audited(json.dumps({"items": list(objects)}), "gpu-pending")


def report_lines(report: Report, *starts: str) -> list[str]:
    """The lines of the report for people that start so."""
    lines = (line.rstrip("\n") for line in render_text(report, TextStyle()))
    return [line for line in lines if line.startswith(starts)]


def pod_of(name: str, gpus: int = 0, phase: str = "Running", node: str = "n1", **spec: Any) -> Object:
    """A pod of the namespace `ml`."""
    resources = {"limits": {GPU: gpus}} if gpus else {}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "image": "a:1", "resources": resources}],
            **spec,
        },
        "status": {"phase": phase},
    }
