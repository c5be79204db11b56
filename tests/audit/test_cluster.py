"""A dump that holds nodes, quotas, claims and the GPU stack answers what a cluster's people ask."""

import json
from pathlib import Path
from typing import Any

import pytest

from audit.auditing import audited
from audit.clusterdump import GPU, Object, cluster_report, pod_of, report_lines
from gpuledger.audit.posture import Posture
from gpuledger.parse.manifests import PodManifest, parse_plain_object

FIXTURES = Path(__file__).parents[1] / "fixtures/kube-1.36"
CAPTURES = ("kubectl-get-pods-A.json", "api-nodes.json", "api-resourcequotas.json")


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
    assert report_lines(report, "node ", "quota ") == [
        "node node1: nvidia.com/gpu: 7 capacity, 7 allocatable, 5 requested, 2 free",
        "node node1: nvidia.com/gpu.shared: 4 capacity, 4 allocatable, 2 requested, 2 free",
        "node node1: nvidia.com/mig-1g.10gb: 2 capacity, 2 allocatable, 1 requested, 1 free",
        "quota research/gpu-budget: requests.nvidia.com/gpu: 2 hard, 2 used, 0 left",
        "quota research/gpu-budget: requests.nvidia.com/gpu.shared: 2 hard, 0 used, 2 left",
    ]
    (pending,) = report_lines(report, "pending ")
    assert pending.startswith("pending ml-training/too-big: Unschedulable: 0/1 nodes are available")


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([_node("8", "8"), pod_of("a", 3)], "3 requested, 5 free", id="running"),
        pytest.param([pod_of("a", 3), _node("8", "8")], "3 requested, 5 free", id="pods first"),
        pytest.param([_node("8", "8"), pod_of("a", 3, "Succeeded")], "0 requested, 8 free", id="ended"),
        pytest.param(
            [_node("8", "8"), pod_of("a", 3, "Pending")], "3 requested, 5 free", id="bound, not started"
        ),
        pytest.param(
            [_node("8", "8"), pod_of("a", 3, "Pending", "")], "0 requested, 8 free", id="without a node"
        ),
        pytest.param(
            [_node("8", "2"), pod_of("a", 3)], "3 requested, -1 free, 6 unhealthy", id="devices fell ill"
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
    (line,) = report_lines(cluster_report(*objects), "node ")
    assert line.endswith(expected)


def test_pods_of_other_namespaces_count_against_a_node() -> None:
    report = audited(json.dumps({"items": [_node("8", "8"), pod_of("a", 3)]}), "gpu-pending")
    assert "3 requested" in report_lines(report, "node ")[0]


def test_a_resource_that_a_node_does_not_name_is_unknown() -> None:
    node = _node("8", "8")
    del node["status"]["allocatable"][GPU]
    assert report_lines(cluster_report(node), "node ") == [
        "node n1: nvidia.com/gpu: 8 capacity, ? allocatable, 0 requested, ? free"
    ]


def test_a_gated_pod_waits_on_purpose() -> None:
    gate = [{"name": "kueue.x-k8s.io/admission"}]
    assert report_lines(cluster_report(pod_of("a", 1, "Pending", "", schedulingGates=gate)), "pending ") == [
        "pending ml/a: gated by kueue.x-k8s.io/admission"
    ]


def test_a_quota_that_the_cluster_has_not_counted_yet() -> None:
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "ml"},
        "spec": {"hard": {f"requests.{GPU}": 4}},
    }
    assert report_lines(cluster_report(quota), "quota ") == [
        "quota ml/q: requests.nvidia.com/gpu: 4 hard, ? used, ? left"
    ]


# ---- amounts ----


@pytest.mark.parametrize(
    ("uid", "expected", "cards"),
    [
        pytest.param("u", "0 GPU (template of 2 nvidia.com/gpu, counted by its pods)", 0, id="in a cluster"),
        pytest.param("", "2 GPU", 2, id="in a manifest"),
    ],
)
def test_a_controller_in_a_cluster_holds_nothing_itself(uid: str, expected: str, cards: int) -> None:
    job = {
        "kind": "Job",
        "metadata": {"name": "finetune", "namespace": "ml", "uid": uid},
        "spec": {"template": {"spec": pod_of("a", 2)["spec"]}},
    }
    report = cluster_report(job)
    (line,) = report_lines(report, "ml/finetune")
    assert line.removeprefix("ml/finetune").lstrip() == expected
    assert report.totals().cards == cards


def test_an_amount_that_can_not_be_read_is_unknown() -> None:
    pod = pod_of("a")
    pod["spec"]["containers"][0]["resources"] = {"limits": {GPU: "two"}}
    (line,) = report_lines(cluster_report(pod), "ml/a")
    assert line.endswith("   ? GPU (unknown amount of nvidia.com/gpu)")


def test_an_amount_that_can_not_be_read_is_told_once() -> None:
    pod = pod_of("a")
    pod["spec"]["containers"][0]["resources"] = {"limits": {GPU: "two"}, "requests": {GPU: "two"}}
    assert 1 == audited(json.dumps(pod), "invalid-quantity").totals().findings.total()


def test_fractions_of_gpus_are_in_the_inventory() -> None:
    pod = pod_of("a")
    pod["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    (line,) = report_lines(cluster_report(pod), "ml/a")
    assert line.endswith("(gpu-fraction 0.5)")


def test_who_asks_for_no_gpu_at_all_is_left_out() -> None:
    pod = pod_of("a")
    pod["spec"]["containers"][0]["resources"] = {"limits": {GPU: "0"}}
    assert report_lines(cluster_report(pod), "ml/a") == []


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
    assert [f"ways past the device plugin: {verdicts} ({', '.join(evidence)})"] == report_lines(
        cluster_report(pod), "ways "
    )
