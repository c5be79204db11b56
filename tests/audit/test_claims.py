"""What pods hold, wait for or look at by device claims."""

import json
from pathlib import Path
from typing import Any

import pytest

from audit.clusterdump import GPU, Object, cluster_report, pod_of, report_lines
from audit.command import gpuledger_audit
from gpuledger.core.resources import CLASS_PREFIX


def _claim(results: list[Object] | None = None, mode: str = "ExactCount", count: int = 2) -> Object:
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": mode, "count": count}
    status = {} if results is None else {"allocation": {"devices": {"results": results}}}
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": "gpus", "namespace": "ml"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": status,
    }


def _device(name: str, **fields: Any) -> Object:
    return {"request": "r", "driver": "gpu.nvidia.com", "pool": "n1", "device": name, **fields}


CLAIMING: Object = {"resourceClaims": [{"name": "g", "resourceClaimName": "gpus"}]}


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([], "0 GPU (1 unresolved claim(s))", id="claim is not in the dump"),
        pytest.param([_claim()], "2 GPU", id="not allocated: as requested"),
        pytest.param([_claim([_device("a"), _device("b"), _device("c")])], "3 GPU", id="allocated"),
        pytest.param([_claim([_device("a"), _device("a")])], "1 GPU", id="a device counts once"),
        pytest.param([_claim([_device("a", shareID="1"), _device("a", shareID="2")])], "2 GPU", id="shares"),
        pytest.param(
            [_claim([_device("a"), _device("b", adminAccess=True)])], "1 GPU", id="admin access holds nothing"
        ),
        pytest.param([_claim(mode="All")], "0 GPU (1 unresolved claim(s))", id="all: unknown until allocated"),
    ],
)
def test_devices_by_claim(claims: list[Object], expected: str) -> None:
    (line,) = report_lines(cluster_report(pod_of("a", **CLAIMING), *claims), "ml/a")
    assert line.endswith(expected)


def _admin_claim(results: list[Object] | None = None, name: str = "gpu.nvidia.com") -> Object:
    claim = _claim(results, mode="All")
    claim["spec"]["devices"]["requests"][0]["exactly"] |= {"adminAccess": True, "deviceClassName": name}
    return claim


@pytest.mark.parametrize(
    ("claim", "watches"),
    [
        pytest.param(_admin_claim(), True, id="not allocated"),
        pytest.param(_admin_claim([_device("a", adminAccess=True)]), True, id="allocated"),
        pytest.param(_admin_claim(name="own"), True, id="class that nothing explains"),
        pytest.param(_admin_claim(name="nic.example.com"), False, id="network cards"),
    ],
)
def test_who_has_admin_access_to_gpus_is_audited_and_holds_none(claim: Object, *, watches: bool) -> None:
    report = cluster_report(pod_of("a", **CLAIMING), claim)
    assert [
        line.endswith("   0 GPU (reaches GPUs by admin claim)") for line in report_lines(report, "ml/a")
    ] == ([True] if watches else [])
    assert report.totals().cards == 0


def test_admin_access_by_a_template_makes_a_gpu_pod_too() -> None:
    template = {**_admin_claim(), "kind": "ResourceClaimTemplate"}
    template["spec"] = {"spec": template["spec"]}
    pod = pod_of("a", resourceClaims=[{"name": "g", "resourceClaimTemplateName": "gpus"}])
    (line,) = report_lines(cluster_report(pod, template), "ml/a")
    assert line.endswith("   0 GPU (reaches GPUs by admin claim)")


def _claim_of_class(name: str, driver: str = "") -> Object:
    claim = _claim([{**_device("a"), "driver": driver}] if driver else None, count=1)
    claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = name
    return claim


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(_claim_of_class("h100"), ["1 unresolved claim(s)"], id="class of the cluster's own"),
        pytest.param(_claim_of_class("h100", "gpu.nvidia.com"), ["1 GPU"], id="the driver tells"),
        pytest.param(_claim_of_class("gpu.nvidia.com"), ["1 GPU"], id="class of a driver"),
        pytest.param(_claim_of_class("nic.example.com"), [], id="a network card"),
        pytest.param(_claim_of_class("fast", "nic.example.com"), [], id="a network card by its driver"),
    ],
)
def test_a_pod_is_a_gpu_pod_by_what_it_claims(claim: Object, expected: list[str]) -> None:
    lines = report_lines(cluster_report(pod_of("a", **CLAIMING), claim), "ml/a")
    assert [True] * len(expected) == [words in line for words, line in zip(expected, lines, strict=True)]


def _class(name: str, *expressions: str, resource: str = "") -> Object:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    spec = {"selectors": selectors, **({"extendedResourceName": resource} if resource else {})}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


NVIDIAS = 'device.driver == "gpu.nvidia.com"'
MIG = 'device.attributes["gpu.nvidia.com"].type == "mig"'


@pytest.mark.parametrize(
    ("definition", "claimed", "expected"),
    [
        pytest.param(_class("h100", f"{NVIDIAS} && x"), "h100", "1 GPU", id="its selector names the driver"),
        pytest.param(_class("small", NVIDIAS, MIG), "small", "0 GPU (1 mig.nvidia.com)", id="of MIG devices"),
        pytest.param(_class("h100", "x", resource=GPU), "h100", "1 GPU", id="it stands in for a GPU resource"),
        pytest.param(_class("h100", "x"), "h100", "1 unresolved claim(s)", id="its selector tells nothing"),
        pytest.param(_class("all"), "all", "1 unresolved claim(s)", id="it has no selector"),
        pytest.param(
            _class("fast.example.com", "x"), "fast.example.com", "1 unresolved claim(s)", id="it is no driver's"
        ),
        pytest.param(
            _class("any", "device.driver in ['gpu.nvidia.com', 'gpu.amd.com']"),
            "any",
            "1 unresolved claim(s)",
            id="of several drivers",
        ),
        pytest.param(_class("fast", "device.driver == 'dra.net'"), "fast", "", id="a network card's"),
        pytest.param(
            _class("fast", "x", resource="example.com/nic"), "fast", "1 unresolved claim(s)", id="no GPU"
        ),
    ],
)
def test_a_class_of_the_clusters_own_means_what_it_selects(
    definition: Object, claimed: str, expected: str
) -> None:
    lines = report_lines(cluster_report(pod_of("a", **CLAIMING), _claim_of_class(claimed), definition), "ml/a")
    assert [expected] == [words for words in [expected] if words in "".join(lines)]
    assert bool(expected) == bool(lines)


def _asking(resource: str) -> Object:
    pod = pod_of("a")
    pod["spec"]["containers"][0]["resources"] = {"limits": {resource: "2", "memory": "1Gi"}}
    return pod


@pytest.mark.parametrize("class_first", [True, False], ids=["after the class", "before the class"])
@pytest.mark.parametrize(
    ("resource", "definition", "expected"),
    [
        pytest.param("example.com/h100", NVIDIAS, "2 GPU", id="a name of its own"),
        pytest.param(f"{CLASS_PREFIX}own", NVIDIAS, "2 GPU", id="its implicit name"),
        pytest.param("example.com/h100", f"{NVIDIAS} && {MIG}", "0 GPU (2 example.com/h100)", id="MIG"),
        pytest.param("example.com/h100", "device.driver == 'dra.net'", "", id="no GPU"),
        pytest.param("example.com/other", NVIDIAS, "", id="another resource"),
    ],
)
def test_who_asks_for_what_a_class_of_gpus_stands_in_for_is_a_gpu_pod(
    resource: str,
    definition: str,
    expected: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    class_first: bool,
) -> None:
    objects = [_class("own", definition, resource="example.com/h100"), _asking(resource)]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"items": objects if class_first else objects[::-1]}))
    assert gpuledger_audit(str(path)) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ml/a ")]
    assert [line.removeprefix("ml/a").lstrip() for line in lines] == ([expected] if expected else [])


def test_a_quota_on_a_class_of_the_clusters_own_is_one_on_gpus() -> None:
    resource = "h100.deviceclass.resource.k8s.io/devices"
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "ml"},
        "status": {"hard": {resource: "4"}, "used": {resource: "1"}},
    }
    assert report_lines(cluster_report(quota), "quota ") == []
    assert report_lines(cluster_report(quota, _class("h100", NVIDIAS)), "quota ") == [
        f"quota ml/q: {resource}: 4 hard, 1 used, 3 left"
    ]


def test_a_pod_whose_resource_a_claim_stands_in_for_is_a_gpu_pod_by_that() -> None:
    pod = pod_of("a")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"example.com/h100": "1"}}
    mapping = {"resourceName": "example.com/h100"}
    bridge = {"resourceClaimName": "gpus", "requestMappings": [mapping]}
    pod["status"]["extendedResourceClaimStatus"] = bridge
    (line,) = report_lines(cluster_report(pod, _claim([_device("a")])), "ml/a")
    assert line.endswith("1 GPU")


def test_a_claim_that_pods_share_counts_once() -> None:
    assert cluster_report(pod_of("a", **CLAIMING), pod_of("b", **CLAIMING), _claim()).totals().cards == 2


def test_a_claim_of_a_pods_own_is_found_by_its_status() -> None:
    pod = pod_of("a", resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    pod["status"]["resourceClaimStatuses"] = [{"name": "g", "resourceClaimName": "gpus"}]
    assert cluster_report(pod, _claim()).totals().cards == 2


def test_a_claim_to_come_is_counted_by_its_template() -> None:
    template = {**_claim(), "kind": "ResourceClaimTemplate"}
    template["spec"] = {"spec": template["spec"]}
    pods = [pod_of(name, resourceClaims=[{"name": "g", "resourceClaimTemplateName": "gpus"}]) for name in "ab"]
    assert cluster_report(*pods, template).totals().cards == 4


def test_an_extended_resource_that_a_claim_stands_in_for_counts_once() -> None:
    pod = pod_of("a", 2)
    mapping = {"containerName": "c", "resourceName": GPU, "requestName": "r"}
    pod["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "gpus", "requestMappings": [mapping]}
    assert cluster_report(pod, _claim([_device("a"), _device("b")])).totals().cards == 2
