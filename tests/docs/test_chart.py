"""What the documentation says of the chart: its values, the rights that it grants, what it asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from gpuledger.app.cli import main

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "gpuledger"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
PAGES = ("install.md", "migration.md", "security.md", "sizing.md", "troubleshooting.md", "upgrade.md")


def read(page: str) -> str:
    return (ROOT / "docs" / page).read_text()


def named_values() -> Iterator[tuple[str, str]]:
    """Each name of a value that a page mentions, in a command or in prose."""
    sections = "|".join(name for name, value in VALUES.items() if isinstance(value, dict))
    for page in PAGES:
        for name in re.findall(rf"(?:--set |`)((?:{sections})\.[\w.]+)", read(page)):
            yield page, name


@pytest.mark.parametrize(("page", "name"), sorted(set(named_values())))
def test_a_value_that_is_named_exists(page: str, name: str) -> None:
    value = VALUES
    for part in name.split("."):
        if value == {}:  # free-form: labels, policies
            return
        assert part in value, f"{page}: {name}"
        value = value[part]


def test_the_rights_of_the_security_model_are_those_that_are_granted() -> None:
    rows = re.findall(
        r"^\| (node|cluster|both) \| ([a-z, ]+) \| ([a-z, ]+) \|", read("security.md"), re.MULTILINE
    )
    documented = {
        (role, resource, verb)
        for roles, resources, verbs in rows
        for role in (("node", "cluster") if roles == "both" else (roles,))
        for resource in resources.split(", ")
        for verb in verbs.split(", ")
    }
    granted = {
        (role["metadata"]["name"].removeprefix("gpuledger-"), resource, verb)
        for role in rendered({"web": {"kubernetesAuth": True}}, "ClusterRole")
        for rule in role["rules"]
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }

    assert granted == documented


def test_the_folders_of_the_node_that_are_explained_are_those_that_are_mounted() -> None:
    (daemonset,) = rendered({}, "DaemonSet")
    mounted = {volume["hostPath"]["path"] for volume in daemonset["spec"]["template"]["spec"]["volumes"]}

    assert mounted == set(re.findall(r"`(/var/[\w/-]+)`", read("security.md")))


def test_what_the_audit_excuses_in_our_own_manifests_is_what_is_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["audit", "--all", "--format=json", str(ROOT / "deploy" / "manifests" / "gpuledger.yaml")])
    pods = json.loads(capsys.readouterr().out)["pods"]

    section = read("security.md").partition("## What our own audit says of us")[2]
    assert 0 == code
    assert {each["check"] for pod in pods for each in pod["exempt"]} == set(
        re.findall(r"`([a-z]+(?:-[a-z]+)+)`", section)
    )


@pytest.mark.parametrize(
    ("row", "role"), [("node role", "node"), ("cluster role, up to 10,000 pods", "cluster")]
)
def test_the_sizes_are_the_charts(row: str, role: str) -> None:
    resources = VALUES[role]["resources"]
    (cells,) = re.findall(
        rf"^\| {row} \| (\w+) CPU, (\w+) \| (\w+) CPU, (\w+) \|", read("sizing.md"), re.MULTILINE
    )

    assert cells == tuple(
        resources[bound][what] for bound in ("requests", "limits") for what in ("cpu", "memory")
    )


def test_the_values_that_the_installation_shows_make_scrapes_alerts_and_dashboards() -> None:
    (block,) = re.findall(
        r"^   ```yaml\n(   # values.yaml\n.*?)^   ```", read("install.md"), re.MULTILINE | re.DOTALL
    )
    values = yaml.safe_load(block)

    for kind in ("PodMonitor", "PrometheusRule"):
        objects = rendered(values, kind)
        assert objects
        assert all("kube-prometheus-stack" == each["metadata"]["labels"]["release"] for each in objects)
    assert [] != [
        each for each in rendered(values, "ConfigMap") if "grafana_dashboard" in each["metadata"]["labels"]
    ]


def rendered(values: dict[str, Any], kind: str) -> list[Any]:
    files = helm_python.Chart.load(CHART).render(values, name="gpuledger", namespace="gpuledger")
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    return [each for text in texts for each in yaml.safe_load_all(text) if each and each["kind"] == kind]
