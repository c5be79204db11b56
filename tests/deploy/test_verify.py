"""The check of a GPU stack: manifests that break no rule, and queries that Prometheus would understand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from gpuledger.app.cli import main
from tools.documented import read_queries
from tools.promql import Linter

FOLDER = Path(__file__).parents[2] / "deploy" / "verify"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
QUERIES = read_queries("../deploy/verify/README.md")


def pod_spec(manifest: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = manifest["spec"]
    return pod_spec(spec["template"]) if "template" in spec else spec


def test_the_audit_finds_nothing_however_slight(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["audit", "--fail-if-empty", "--min-severity=info", str(FOLDER / "inspect.yaml")])
    code += main(["audit", "--fail-if-empty", "--min-severity=info", str(FOLDER / "vectoradd.yaml")])

    assert 0 == code, capsys.readouterr().out


@pytest.mark.parametrize("version", ["1.25", "1.37"])
@pytest.mark.parametrize("path", MANIFESTS, ids=[path.name for path in MANIFESTS])
def test_kubernetes_knows_every_field(path: Path, version: str) -> None:
    kubernetes_validate.validate(yaml.safe_load(path.read_text()), version, strict=True)


@pytest.mark.parametrize("name", ["inspect.yaml", "vectoradd.yaml"])
def test_a_check_needs_no_rights_and_ends_by_itself(name: str) -> None:
    manifest = yaml.safe_load((FOLDER / name).read_text())
    spec = pod_spec(manifest)
    (container,) = spec["containers"]

    assert "Never" == spec["restartPolicy"]
    assert manifest["spec"]["activeDeadlineSeconds"] <= 600
    assert not spec["automountServiceAccountToken"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert {"type": "RuntimeDefault"} == spec["securityContext"]["seccompProfile"]
    assert {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    } == container["securityContext"]
    assert {"cpu", "memory", "nvidia.com/gpu"} == container["resources"]["limits"].keys()
    assert not spec.get("volumes")


def test_all_live_in_the_namespace_that_admits_only_restricted_pods() -> None:
    objects = [yaml.safe_load(path.read_text()) for path in MANIFESTS]
    (namespace,) = (each for each in objects if each["kind"] == "Namespace")

    assert "restricted" == namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert {namespace["metadata"]["name"]} == {
        each["metadata"]["namespace"] for each in objects if each is not namespace
    }


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_query_asks_for_what_there_is(query: str) -> None:
    assert [] == Linter().faults(query)


def test_the_page_has_queries() -> None:
    assert len(QUERIES) > 8
