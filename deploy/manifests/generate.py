# ruff: noqa: INP001 - a program beside its data, no package
"""Writes the manifests for those without Helm, from the chart: `python deploy/manifests/generate.py`.

With --check it only compares, and fails where a file differs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from helm_python import Chart

HERE = Path(__file__).resolve().parent
CHART = HERE.parent / "helm" / "gpuledger"

HELMS_OWN = ("app.kubernetes.io/managed-by:", "helm.sh/chart:")
"""Labels that would not be true of what Helm has not installed."""

HEAD = "# Made from deploy/helm/gpuledger by `python deploy/manifests/generate.py`; change that.\n"

NAMESPACE = """\
# Privileged: the node role's pod has hostPID and mounts folders of the node, which the other levels refuse.
# The cluster role's pod keeps to the level restricted.
apiVersion: v1
kind: Namespace
metadata:
  name: gpuledger
  labels:
    pod-security.kubernetes.io/enforce: privileged
"""


def render_outputs() -> dict[Path, str]:
    """Every file that this program keeps, with the text that it should have."""
    values = {"monitor": {"kind": "PodMonitor"}}
    with Chart.load(CHART) as chart:
        rendered = chart.render(values, name="gpuledger", namespace="gpuledger")
    monitors = rendered.pop("gpuledger/templates/monitors.yaml")
    objects = [text for path, text in sorted(rendered.items()) if path.endswith(".yaml")]
    return {
        HERE / "gpuledger.yaml": _stream([NAMESPACE, *objects]),
        HERE / "podmonitors.yaml": _stream([monitors]),
    }


def _stream(texts: Sequence[str]) -> str:
    """The texts as one stream of objects."""
    objects = [each.strip("\n") for text in texts for each in f"\n{text}".split("\n---\n")]
    lines = [line for each in objects if each.strip() for line in ("---", *each.splitlines())]
    kept = [line for line in lines if not line.strip().startswith(HELMS_OWN)]
    return HEAD + "\n".join(kept) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write all, or with --check name what differs; 1 when something does."""
    outputs = render_outputs()
    differing = [path for path, text in outputs.items() if not path.exists() or path.read_text() != text]
    for path in differing:
        if arguments == ["--check"]:
            sys.stderr.write(f"{path.name} is out of date; run python deploy/manifests/generate.py\n")
        else:
            path.write_text(outputs[path])
    return 1 if arguments and differing else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
