"""A dump that holds nodes, quotas, claims and the GPU stack answers what a cluster's people ask."""

import json
from pathlib import Path
from typing import Any

import pytest

from audit.auditing import audited
from gpuledger.audit.posture import Posture
from gpuledger.audit.report.model import Report
from gpuledger.audit.report.text import TextStyle, render_text
from gpuledger.parse.manifests import PodManifest, parse_plain_object

FIXTURES = Path(__file__).parents[1] / "fixtures/kube-1.36"
CAPTURES = ("kubectl-get-pods-A.json", "api-nodes.json", "api-resourcequotas.json")

Object = dict[str, Any]

GPU = "nvidia.com/gpu"


def _report(*objects: Object) -> Report:
    return audited(json.dumps({"items": list(objects)}), "gpu-pending")


def _lines(report: Report, *starts: str) -> list[str]:
    lines = (line.rstrip("\n") for line in render_text(report, TextStyle()))
    return [line for line in lines if line.startswith(starts)]


def _pod(name: str, gpus: int = 0, phase: str = "Running", node: str = "n1", **spec: Any) -> Object:
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


def _node(capacity: str, allocatable: str, labels: Object | None = None, **spec: Any) -> Object:
    return {
        "kind": "Node",
        "metadata": {"name": "n1", "labels": labels or {}},
        "spec": spec,
        "status": {
            "capacity": {GPU: capacity, "cpu": "8"},
            "allocatable": {GPU: allocatable},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


# ---- nodes, quotas, who waits ----


def test_inventory_of_a_real_cluster() -> None:
    report = audited(b"\n".join((FIXTURES / name).read_bytes() for name in CAPTURES), "gpu-pending")
    assert _lines(report, "node ", "quota ") == [
        "node node1: nvidia.com/gpu: 7 capacity, 7 allocatable, 5 requested, 2 free",
        "node node1: nvidia.com/gpu.shared: 4 capacity, 4 allocatable, 2 requested, 2 free",
        "node node1: nvidia.com/mig-1g.10gb: 2 capacity, 2 allocatable, 1 requested, 1 free",
        "quota research/gpu-budget: requests.nvidia.com/gpu: 2 hard, 2 used, 0 left",
        "quota research/gpu-budget: requests.nvidia.com/gpu.shared: 2 hard, 0 used, 2 left",
    ]
    (pending,) = _lines(report, "pending ")
    assert pending.startswith("pending ml-training/too-big: Unschedulable: 0/1 nodes are available")


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([_node("8", "8"), _pod("a", 3)], "3 requested, 5 free", id="running"),
        pytest.param([_pod("a", 3), _node("8", "8")], "3 requested, 5 free", id="pods first"),
        pytest.param([_node("8", "8"), _pod("a", 3, "Succeeded")], "0 requested, 8 free", id="ended"),
        pytest.param(
            [_node("8", "8"), _pod("a", 3, "Pending")], "3 requested, 5 free", id="bound, not started"
        ),
        pytest.param(
            [_node("8", "8"), _pod("a", 3, "Pending", "")], "0 requested, 8 free", id="without a node"
        ),
        pytest.param(
            [_node("8", "2"), _pod("a", 3)], "3 requested, -1 free, 6 unhealthy", id="devices fell ill"
        ),
        pytest.param([_node("8", "8", unschedulable=True)], "8 free (unschedulable)", id="cordoned"),
        pytest.param(
            [_node("8", "8", {"nvidia.com/gpu.product": "H100", "nvidia.com/gpu.sharing-strategy": "mps"})],
            "8 free (H100, mps)",
            id="labels of GPU feature discovery",
        ),
    ],
)
def test_what_a_node_has_free(objects: list[Object], expected: str) -> None:
    (line,) = _lines(_report(*objects), "node ")
    assert line.endswith(expected)


def test_pods_of_other_namespaces_count_against_a_node() -> None:
    report = audited(json.dumps({"items": [_node("8", "8"), _pod("a", 3)]}), "gpu-pending")
    assert "3 requested" in _lines(report, "node ")[0]


def test_a_resource_that_a_node_does_not_name_is_unknown() -> None:
    node = _node("8", "8")
    del node["status"]["allocatable"][GPU]
    assert _lines(_report(node), "node ") == [
        "node n1: nvidia.com/gpu: 8 capacity, ? allocatable, 0 requested, ? free"
    ]


def test_a_gated_pod_waits_on_purpose() -> None:
    gate = [{"name": "kueue.x-k8s.io/admission"}]
    assert _lines(_report(_pod("a", 1, "Pending", "", schedulingGates=gate)), "pending ") == [
        "pending ml/a: gated by kueue.x-k8s.io/admission"
    ]


def test_a_quota_that_the_cluster_has_not_counted_yet() -> None:
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "ml"},
        "spec": {"hard": {f"requests.{GPU}": 4}},
    }
    assert _lines(_report(quota), "quota ") == ["quota ml/q: requests.nvidia.com/gpu: 4 hard, ? used, ? left"]


# ---- claims ----


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
    (line,) = _lines(_report(_pod("a", **CLAIMING), *claims), "ml/a")
    assert line.endswith(expected)


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
    lines = _lines(_report(_pod("a", **CLAIMING), claim), "ml/a")
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
    lines = _lines(_report(_pod("a", **CLAIMING), _claim_of_class(claimed), definition), "ml/a")
    assert [expected] == [words for words in [expected] if words in "".join(lines)]
    assert bool(expected) == bool(lines)


def test_a_quota_on_a_class_of_the_clusters_own_is_one_on_gpus() -> None:
    resource = "h100.deviceclass.resource.k8s.io/devices"
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "ml"},
        "status": {"hard": {resource: "4"}, "used": {resource: "1"}},
    }
    assert _lines(_report(quota), "quota ") == []
    assert _lines(_report(quota, _class("h100", NVIDIAS)), "quota ") == [
        f"quota ml/q: {resource}: 4 hard, 1 used, 3 left"
    ]


def test_a_pod_whose_resource_a_claim_stands_in_for_is_a_gpu_pod_by_that() -> None:
    pod = _pod("a")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"example.com/h100": "1"}}
    mapping = {"resourceName": "example.com/h100"}
    bridge = {"resourceClaimName": "gpus", "requestMappings": [mapping]}
    pod["status"]["extendedResourceClaimStatus"] = bridge
    (line,) = _lines(_report(pod, _claim([_device("a")])), "ml/a")
    assert line.endswith("1 GPU")


def test_an_amount_that_can_not_be_read_is_unknown() -> None:
    pod = _pod("a")
    pod["spec"]["containers"][0]["resources"] = {"limits": {GPU: "two"}}
    (line,) = _lines(_report(pod), "ml/a")
    assert line.endswith("   ? GPU (unknown amount of nvidia.com/gpu)")


def test_an_amount_that_can_not_be_read_is_told_once() -> None:
    pod = _pod("a")
    pod["spec"]["containers"][0]["resources"] = {"limits": {GPU: "two"}, "requests": {GPU: "two"}}
    assert 1 == audited(json.dumps(pod), "invalid-quantity").totals().findings.total()


def test_fractions_of_gpus_are_in_the_inventory() -> None:
    pod = _pod("a")
    pod["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    (line,) = _lines(_report(pod), "ml/a")
    assert line.endswith("(gpu-fraction 0.5)")


def test_who_asks_for_no_gpu_at_all_is_left_out() -> None:
    pod = _pod("a")
    pod["spec"]["containers"][0]["resources"] = {"limits": {GPU: "0"}}
    assert _lines(_report(pod), "ml/a") == []


def test_a_claim_that_pods_share_counts_once() -> None:
    assert _report(_pod("a", **CLAIMING), _pod("b", **CLAIMING), _claim()).totals().cards == 2


def test_a_claim_of_a_pods_own_is_found_by_its_status() -> None:
    pod = _pod("a", resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    pod["status"]["resourceClaimStatuses"] = [{"name": "g", "resourceClaimName": "gpus"}]
    assert _report(pod, _claim()).totals().cards == 2


def test_a_claim_to_come_is_counted_by_its_template() -> None:
    template = {**_claim(), "kind": "ResourceClaimTemplate"}
    template["spec"] = {"spec": template["spec"]}
    pods = [_pod(name, resourceClaims=[{"name": "g", "resourceClaimTemplateName": "gpus"}]) for name in "ab"]
    assert _report(*pods, template).totals().cards == 4


def test_an_extended_resource_that_a_claim_stands_in_for_counts_once() -> None:
    pod = _pod("a", 2)
    mapping = {"containerName": "c", "resourceName": GPU, "requestName": "r"}
    pod["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "gpus", "requestMappings": [mapping]}
    assert _report(pod, _claim([_device("a"), _device("b")])).totals().cards == 2


# ---- posture ----

OWNER = {"kind": "DaemonSet", "name": "t", "uid": "d", "controller": True}
ENVVAR = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"


def _toolkit(*env: Object, **fields: Any) -> PodManifest:
    container = {
        "name": "t",
        "image": "nvcr.io/nvidia/k8s/container-toolkit:v1.19.0",
        "env": list(env),
        **fields,
    }
    value = {
        "kind": "Pod",
        "metadata": {"name": "t", "namespace": "gpu-operator", "ownerReferences": [OWNER]},
        "spec": {"containers": [container]},
    }
    (found,) = parse_plain_object(value)
    assert isinstance(found, PodManifest)
    return found


OPEN = _toolkit()
CLOSED = _toolkit({"name": ENVVAR, "value": "false"})
ELSEWHERE = _toolkit({"name": ENVVAR, "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}})


@pytest.mark.parametrize(
    ("toolkits", "expected"),
    [
        pytest.param([], ("unknown", "unknown", "unknown"), id="no toolkit in the dump"),
        pytest.param([OPEN], ("open", "closed", "closed"), id="defaults"),
        pytest.param([CLOSED], ("closed", "closed", "closed"), id="hardened"),
        pytest.param([CLOSED, OPEN], ("open", "closed", "closed"), id="one node is open"),
        pytest.param([ELSEWHERE], ("unknown", "closed", "closed"), id="set by a ConfigMap"),
        pytest.param([CLOSED, ELSEWHERE], ("unknown", "closed", "closed"), id="one node is unknown"),
        pytest.param([_toolkit(envFrom=[{}])], ("unknown", "unknown", "unknown"), id="anything may be set"),
        pytest.param(
            [_toolkit(args=[f"--{ENVVAR.lower().replace('_', '-')}=false"])], ("closed",) * 3, id="flag"
        ),
        pytest.param([_toolkit(args=["--enable-nri-plugin"])], ("open", "closed", "open"), id="NRI plugin"),
    ],
)
def test_posture(toolkits: list[PodManifest], expected: tuple[str, str, str]) -> None:
    posture = Posture()
    for toolkit in toolkits:
        posture.observe(toolkit)
    assert expected == (posture.environment, posture.volume_mount, posture.annotation)


def test_the_posture_is_told_with_its_evidence() -> None:
    toolkit = {"name": "t", "image": "nvcr.io/nvidia/k8s/container-toolkit:v1.19.0"}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "t", "namespace": "gpu-operator", "ownerReferences": [OWNER]},
        "spec": {"containers": [toolkit]},
    }
    evidence = (
        "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS=false",
        "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED=true",
        "ENABLE_NRI_PLUGIN=false",
    )
    verdicts = "environment open, volume mount closed, annotation closed"
    assert [f"ways past the device plugin: {verdicts} ({', '.join(evidence)})"] == _lines(_report(pod), "ways ")
