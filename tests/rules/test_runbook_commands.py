"""kubectl in runbooks: what it names of gpuledger's own is what the manifests make."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tools.rulefiles import ROOT, RUNBOOKS

OBJECTS: list[Any] = [
    thing
    for thing in yaml.safe_load_all((ROOT / "deploy" / "manifests" / "gpuledger.yaml").read_text())
    if thing
]
NAMESPACED = {(thing["kind"].lower(), thing["metadata"]["name"]) for thing in OBJECTS}
PODS = [
    thing["spec"]["template"]["metadata"]["labels"]
    for thing in OBJECTS
    if thing["kind"] in {"DaemonSet", "Deployment"}
]
PORTS = {
    port["containerPort"]
    for thing in OBJECTS
    if thing["kind"] in {"DaemonSet", "Deployment"}
    for container in thing["spec"]["template"]["spec"]["containers"]
    for port in container["ports"]
}

each_page = pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("Gpu*.md")), ids=lambda path: path.stem)


def found(pattern: str, text: str) -> set[Any]:
    """Every match; a set of tuples where the pattern has several groups."""
    return set(re.findall(pattern, text))


@each_page
def test_what_a_runbook_names_of_gpuledger_is_there(page: Any) -> None:
    text = page.read_text()

    assert found(r"(daemonset|deployment|networkpolicy)/(gpuledger[\w-]*)", text) <= NAMESPACED
    assert {
        ("serviceaccount", name) for name in found(r"serviceaccount:gpuledger:([\w-]+)", text)
    } <= NAMESPACED
    assert {("clusterrole", name) for name in found(r"ClusterRole `([\w-]+)`", text)} <= NAMESPACED
    assert found(r"kubectl (?:-n|--namespace) (gpuledger[\w-]*)", text) <= {
        thing["metadata"].get("namespace") for thing in OBJECTS
    }
    assert {int(port) for port in found(r":(\d{4})/", text)} <= PORTS


@each_page
def test_a_selector_of_gpuledgers_pods_selects_some(page: Any) -> None:
    for selector in found(r"-n gpuledger .*-l (\S+)", page.read_text()):
        wanted = dict(pair.split("=") for pair in selector.split(","))

        assert [labels for labels in PODS if wanted.items() <= labels.items()], selector


def test_some_runbook_names_each_workload() -> None:
    pages = "".join(page.read_text() for page in RUNBOOKS.glob("Gpu*.md"))

    assert "daemonset/gpuledger-node" in pages
    assert "deployment/gpuledger-cluster" in pages
