"""The example configuration of Alertmanager: it is valid, routes by audience, and says what a reader needs."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tools.alertmanager import TOOL
from tools.fetch import binary
from tools.rulefiles import ALERTS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / "deploy" / "alertmanager"
CONFIG = FOLDER / "alertmanager.yaml"


def amtool(*arguments: str) -> str:
    """Run amtool and return what it printed; fails where it failed."""
    command = [str(binary(TOOL, "amtool")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_the_configuration_is_valid() -> None:
    assert "SUCCESS" in amtool("check-config", str(CONFIG))


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ({"audience": "platform", "severity": "critical"}, "platform-page"),
        ({"audience": "platform", "severity": "warning"}, "platform"),
        ({"audience": "security", "severity": "critical", "namespace": "team-a"}, "security"),
        ({"audience": "owner", "severity": "warning", "namespace": "team-a"}, "team-a"),
        ({"audience": "owner", "severity": "info", "namespace": "team-a-staging"}, "team-a"),
        ({"audience": "owner", "severity": "info", "namespace": "team-ab"}, "owners"),
        pytest.param({"audience": "owner", "severity": "info"}, "platform", id="owner unknown"),
    ],
)
def test_routes_by_audience(labels: dict[str, str], receiver: str) -> None:
    said = amtool(
        "config", "routes", "test", f"--config.file={CONFIG}", *(f"{k}={v}" for k, v in labels.items())
    )

    assert receiver == said


def test_inhibition_names_alerts_that_exist_and_keeps_to_one_cluster() -> None:
    rules: list[dict[str, Any]] = yaml.safe_load(CONFIG.read_text())["inhibit_rules"]
    matchers = [m for rule in rules for m in (*rule["source_matchers"], *rule["target_matchers"])]
    patterns = [found[1] for m in matchers if (found := re.fullmatch(r'alertname[!=~]+"(Gpu[^"]+)"', m))]

    for pattern in set(patterns) - {"Gpu.+"}:
        assert pattern.count("|") + 1 == len([a for a in ALERTS if re.fullmatch(pattern, a.name)]), pattern
    assert all("cluster" in rule["equal"] for rule in rules)


ALERT = {
    "status": "firing",
    "labels": {
        "alertname": "GpuXidApplication",
        "severity": "info",
        "cluster": "c1",
        "node": "n1",
        "gpu": "3",
        "gpu_uuid": "GPU-1",
        "mig_uuid": "MIG-1",
        "namespace": "team-a",
        "pod": "train-0",
        "workload_kind": "StatefulSet",
        "workload": "train",
    },
    "annotations": {
        "description": "It failed.",
        "pods": "team-a/train-0",
        "dashboard": "/d/gpuledger-pod",
        "runbook_url": "https://runbooks/GpuXidApplication.md",
    },
    "startsAt": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("title", "[FIRING 1] GpuXidApplication in team-a on n1 (c1)"),
        pytest.param(
            "text",
            "*GpuXidApplication* (info): It failed.\n"
            "Namespace: team-a\n"
            "Pod: train-0\n"
            "Workload: StatefulSet train\n"
            "Node: n1\n"
            "GPU: 3 (GPU-1, MIG-1)\n"
            "Pods: team-a/train-0\n"
            "Runbook: https://runbooks/GpuXidApplication.md\n"
            "Dashboard: https://grafana.example.com/d/gpuledger-pod?var-cluster=c1&var-node=n1&var-gpu=GPU-1"
            "&var-namespace=team-a&var-pod=train-0",
            id="text",
        ),
    ],
)
def test_a_message_says_who_where_and_what_to_do(part: str, text: str, tmp_path: Path) -> None:
    common = ALERT["labels"]
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"status": "firing", "alerts": [ALERT], "commonLabels": common}))

    said = amtool(
        "template",
        "render",
        f"--template.glob={FOLDER}/*.tmpl",
        f'--template.text={{{{ template "gpuledger.{part}" . }}}}',
        f"--template.data={data}",
    )

    assert text == said
