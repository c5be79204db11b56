"""What a pod asks for is what the scheduler books for it."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from gpuledger.parse.podrequests import requests_of
from gpuledger.parse.podspec import PodSpec, PodStatus

GPU = "nvidia.com/gpu"


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


def test_what_a_claim_stands_in_for_is_the_claims() -> None:
    status = {
        "extendedResourceClaimStatus": {
            "resourceClaimName": "pod-gpu",
            "requestMappings": [{"containerName": "c", "resourceName": GPU, "requestName": "container-0"}],
        }
    }
    spec = msgspec.convert({"containers": [asking(gpu=1, cpu=2)]}, PodSpec)
    assert {"cpu": 2, "pods": 1} == requests_of(spec, msgspec.convert(status, PodStatus))
