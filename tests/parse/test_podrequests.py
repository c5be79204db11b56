"""What a pod asks for is what the scheduler books for it."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuledger.parse.manifests import PodManifest, parse_objects
from gpuledger.parse.podrequests import gpu_requests_of, requests_of
from gpuledger.parse.podspec import PodSpec, PodStatus

GPU = "nvidia.com/gpu"
CAPTURE = Path(__file__).parents[1] / "fixtures/kube-1.36/kubectl-get-pods-A.json"


def asking(*, always: bool = False, **requests: str | int) -> dict[str, Any]:
    """A container that asks for `gpu`, `cpu` or `memory`."""
    named = {GPU if name == "gpu" else name: amount for name, amount in requests.items()}
    policy = {"restartPolicy": "Always"} if always else {}
    return {"name": "c", "resources": {"requests": named}, **policy}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {
                "initContainers": [asking(gpu=1), asking(gpu=1, always=True), asking(gpu=2)],
                "containers": [asking(gpu=1)],
            },
            {GPU: 3},
            id="kubernetes/kubernetes#134880",
        ),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {GPU: 2, "cpu": "500m"}}}]},
            {GPU: 2, "cpu": Decimal("0.5")},
            id="limits stand for requests",
        ),
        pytest.param(
            {"containers": [asking(cpu=1, memory="1Gi")], "overhead": {"cpu": "250m"}},
            {"cpu": Decimal("1.25"), "memory": 2**30},
            id="a sandbox takes its overhead",
        ),
        pytest.param(
            {"containers": [asking(cpu=1, gpu=1)], "resources": {"requests": {"cpu": 4, GPU: 4}}},
            {"cpu": 4, GPU: 1},
            id="the pod's own level counts for CPU, never for GPUs",
        ),
        pytest.param({"containers": [asking(gpu="a lot", cpu=1)]}, {"cpu": 1}, id="no number"),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/nic": 1, "x.org/gpu": 2}}}]},
            {"x.org/gpu": 2},
            id="only what is a GPU, or was said to be one",
        ),
    ],
)
def test_effective_requests(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    also = re.compile("x.org/gpu")
    assert {**expected, "pods": 1} == requests_of(msgspec.convert(spec, PodSpec), PodStatus(), also)


def grown(cpu: str, **status: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A container that was made with 1 CPU and a GPU, and now wants `cpu`; `status` is what it has of that."""
    has = {GPU: 1, "cpu": 1}
    known = {
        "allocatedResources": has | status.get("allowed", {}),
        "resources": {"requests": has | status.get("given", {})},
    }
    return asking(cpu=cpu, gpu=1), {"name": "c", **known}


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


@pytest.mark.parametrize(
    ("resized", "conditions", "cpu"),
    [
        pytest.param(grown("4"), [], "4", id="wanted, and not looked at yet"),
        pytest.param(grown("4"), [DEFERRED], "4", id="wanted until there is room"),
        pytest.param(grown("400"), [INFEASIBLE], "1", id="wanted in vain"),
        pytest.param(grown("4", allowed={"cpu": 4}), [], "4", id="allowed, and not given yet"),
        pytest.param(grown("500m", allowed={"cpu": "500m"}), [], "1", id="shrinks, and still has it"),
        pytest.param(grown("500m", allowed={"cpu": "500m"}, given={"cpu": "500m"}), [], "0.5", id="has shrunk"),
    ],
)
def test_a_container_is_booked_for_the_largest_of_what_it_wants_and_has_while_it_is_resized(
    resized: tuple[dict[str, Any], dict[str, Any]], conditions: list[dict[str, str]], cpu: str
) -> None:
    container, known = resized
    status = {"conditions": conditions, "containerStatuses": [known]}
    expected = {"cpu": Decimal(cpu), GPU: 1, "pods": 1}
    asked = requests_of(
        msgspec.convert({"containers": [container]}, PodSpec), msgspec.convert(status, PodStatus)
    )
    assert expected == asked


def test_a_kubelet_that_knows_of_resizing_says_nothing_new_of_pods_that_are_not_resized() -> None:
    items = msgspec.json.decode(CAPTURE.read_bytes())["items"]
    pods = [each for each in parse_objects(msgspec.json.encode(items)) if isinstance(each, PodManifest)]
    assert any(status.allocated_resources for pod in pods for status in pod.status.container_statuses)
    for pod in pods:
        assert requests_of(pod.spec, PodStatus()) == requests_of(pod.spec, pod.status)


@pytest.mark.parametrize(
    ("conditions", "cpu"), [([], "4.25"), ([INFEASIBLE], "2.25")], ids=["wanted", "wanted in vain"]
)
def test_a_pod_is_resized_as_a_whole_beside_its_overhead(conditions: list[dict[str, str]], cpu: str) -> None:
    spec = {"containers": [asking(cpu=1)], "resources": {"requests": {"cpu": 4}}, "overhead": {"cpu": "250m"}}
    has = {"cpu": "2250m"}
    status = {"conditions": conditions, "allocatedResources": has, "resources": {"requests": has}}
    asked = requests_of(msgspec.convert(spec, PodSpec), msgspec.convert(status, PodStatus))
    assert {"cpu": Decimal(cpu), "pods": 1} == asked


def test_a_sidecar_is_resized_like_any_container() -> None:
    status = {"initContainerStatuses": [{"name": "c", "allocatedResources": {"cpu": 3}}]}
    spec = msgspec.convert({"initContainers": [asking(cpu=1, always=True)], "containers": []}, PodSpec)
    assert {"cpu": 3, "pods": 1} == requests_of(spec, msgspec.convert(status, PodStatus))


def test_what_a_claim_stands_in_for_is_the_claims() -> None:
    status = {
        "extendedResourceClaimStatus": {
            "resourceClaimName": "pod-gpu",
            "requestMappings": [{"containerName": "c", "resourceName": GPU, "requestName": "container-0"}],
        }
    }
    spec = msgspec.convert({"containers": [asking(gpu=1, cpu=2)]}, PodSpec)
    assert {"cpu": 2, "pods": 1} == requests_of(spec, msgspec.convert(status, PodStatus))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": [asking(gpu=1, cpu=2), asking(gpu=2)]}, id="containers"),
        pytest.param({"containers": [asking(gpu=1)], "initContainers": [asking(gpu=2)]}, id="init container"),
        pytest.param(
            {"containers": [asking(gpu=1)], "initContainers": [asking(gpu=2, always=True), asking(gpu=1)]},
            id="sidecar",
        ),
        pytest.param({"containers": [asking(gpu="a lot")], "overhead": {GPU: 1}}, id="overhead alone"),
        pytest.param({"containers": [asking(cpu=1)], "resources": {"requests": {GPU: 4}}}, id="none"),
    ],
)
def test_gpus_alone_are_counted_as_beside_the_rest(spec: dict[str, Any]) -> None:
    pod = msgspec.convert(spec, PodSpec)
    expected = {name: amount for name, amount in requests_of(pod, PodStatus()).items() if name == GPU}
    assert expected == gpu_requests_of(pod, PodStatus())
