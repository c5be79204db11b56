"""`--live` audits what the API server holds, page by page, as a dump of it would be."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.command import gpuledger_audit
from fakes.apiserver import ApiServer, Asked, Fault, a_list

FIXTURES = Path(__file__).parents[1] / "fixtures/kube-1.36"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as api:
        for pod in json.loads((FIXTURES / "kubectl-get-pods-A.json").read_text())["items"]:
            api.add(pod)
        for name, kind in (("api-nodes", "Node"), ("api-resourcequotas", "ResourceQuota")):
            for item in json.loads((FIXTURES / f"{name}.json").read_text())["items"]:
                api.add({"apiVersion": "v1", "kind": kind, **item})
        yield api


@pytest.fixture
def live(server: ApiServer, tmp_path: Path) -> list[str]:
    return ["--live", "--kubeconfig", str(server.kubeconfig(tmp_path / "kubeconfig"))]


def _lists_pods(asked: Asked) -> bool:
    return asked.path.endswith("/pods")


def _lists_nodes(asked: Asked) -> bool:
    return asked.path.endswith("/nodes")


def test_a_cluster_is_audited_as_its_dump(live: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    files = [FIXTURES / f"{name}.json" for name in ("kubectl-get-pods-A", "api-nodes", "api-resourcequotas")]
    assert 1 == gpuledger_audit(*map(str, files))
    dump = capsys.readouterr().out
    assert 1 == gpuledger_audit(*live)
    assert sorted(dump.splitlines()) == sorted(capsys.readouterr().out.splitlines())


def test_lists_come_in_pages(server: ApiServer, live: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(700):
        server.add(_pod(f"p{number}"))
    gpuledger_audit(*live, "--json")
    assert 709 == json.loads(capsys.readouterr().out)["pods"]
    assert [False, True] == ["continue" in asked.query for asked in server.requests if _lists_pods(asked)]


def test_a_list_that_expires_begins_again(
    server: ApiServer, live: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(700):
        server.add(_pod(f"p{number}"))
    server.faults = [Fault(lambda asked: "continue" in asked.query, status=410)]
    gpuledger_audit(*live, "--json")
    assert 709 == json.loads(capsys.readouterr().out)["pods"]


def test_a_busy_server_is_asked_again(server: ApiServer, live: list[str]) -> None:
    server.faults = [Fault(a_list, status=429)]
    assert 1 == gpuledger_audit(*live)


def test_pods_that_may_not_be_seen_are_exit_2(
    server: ApiServer, live: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults = [Fault(_lists_pods, times=9, status=403)]
    assert 2 == gpuledger_audit(*live)
    assert "403" in capsys.readouterr().err


def test_nodes_that_may_not_be_seen_leave_out_the_inventory(
    server: ApiServer, live: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults = [Fault(_lists_nodes, times=9, status=403)]
    assert 1 == gpuledger_audit(*live)
    assert "node node1" not in capsys.readouterr().out


def test_one_namespace_is_all_that_is_asked_for(server: ApiServer, live: list[str]) -> None:
    gpuledger_audit(*live, "-n", "research")
    assert all("/namespaces/research/" in asked.path for asked in server.requests)


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_claims_are_read_in_the_version_that_the_server_has(
    server: ApiServer, live: list[str], capsys: pytest.CaptureFixture[str], version: str
) -> None:
    pod = _pod("claims", resources={"claims": [{"name": "gpu"}]})
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "mine"}]
    server.add(pod)
    request = {"deviceClassName": "gpu.nvidia.com", "count": 2}
    server.add(
        {
            "apiVersion": f"resource.k8s.io/{version}",
            "kind": "ResourceClaim",
            "metadata": {"name": "mine", "namespace": "ml"},
            "spec": {
                "devices": {
                    "requests": [{"name": "g", **({"exactly": request} if version == "v1" else request)}]
                }
            },
        }
    )

    gpuledger_audit(*live, "-n", "ml", "--format=json")

    (held,) = [pod for pod in json.loads(capsys.readouterr().out)["pods"] if pod["name"] == "claims"]
    assert (0, {"gpu.nvidia.com": 2}) == (held["unresolvedClaims"], held["requests"])


def test_annotations_of_a_live_object_excuse_nothing(
    server: ApiServer, live: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pod = _pod("sly", securityContext={"privileged": True})
    pod["metadata"]["annotations"] = {"ignore.gpuledger.io/gpu-privileged": "because"}
    server.add(pod)
    gpuledger_audit(*live, "--check", "gpu-privileged")
    assert "[FINDING] ml/sly c: privileged container sees every GPU" in capsys.readouterr().out


def test_no_server_is_exit_2(server: ApiServer, live: list[str]) -> None:
    server.refuse()
    assert 2 == gpuledger_audit(*live)


def test_no_kubeconfig_is_exit_2(tmp_path: Path) -> None:
    assert 2 == gpuledger_audit("--live", "--kubeconfig", str(tmp_path / "none"))


def _pod(name: str, **fields: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}, **fields}
    meta = {"name": name, "namespace": "ml"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


def test_an_error_in_place_of_a_list_is_exit_2(
    server: ApiServer, live: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults = [Fault(_lists_pods, status=200, body=b'{"kind": "Status", "message": "no"}')]
    assert 2 == gpuledger_audit(*live)
    assert "Status without items: no" in capsys.readouterr().err
