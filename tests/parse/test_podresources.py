"""PodResources replies: a real kubelet's, and what its protocol allows besides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakes.kubelet import allocatable, claim, container, devices, messages, pod, pod_list
from gpuledger.core.model import Allocation, GpuUuid, MigUuid
from gpuledger.parse.podresources import parse_allocatable, parse_list

CAPTURE = Path(__file__).parent.parent / "fixtures" / "kube-1.36"
GPU = GpuUuid("GPU-aaaaaaaa-0000-4000-8000-000000000000")
MIG = MigUuid("MIG-11111111-2222-5333-8444-000000000001")


def test_a_real_kubelets_reply_is_read_whole() -> None:
    told = [
        (pod["namespace"], pod["pod"], container["name"], devices["resource"], device_id)
        for pod in json.loads((CAPTURE / "podresources-list.json").read_text())
        for container in pod["containers"]
        for devices in container["devices"]
        for device_id in devices["ids"]
    ]
    read = parse_list((CAPTURE / "podresources-list.pb").read_bytes())
    assert told == [(a.namespace, a.pod, a.container, a.resource, a.device_id) for a in read]
    assert all(a.gpu_uuid or a.mig_uuid for a in read)


def test_each_device_is_an_allocation_with_the_identity_that_its_id_tells() -> None:
    reply = pod_list(
        pod(
            "ml",
            "train-0",
            container("trainer", devices("nvidia.com/gpu", GPU, "0"), devices("nvidia.com/mig-1g.10gb", MIG)),
            container("logs"),
        ),
    )
    assert (
        Allocation("ml", "train-0", "trainer", "nvidia.com/gpu", GPU, gpu_uuid=GPU),
        Allocation("ml", "train-0", "trainer", "nvidia.com/gpu", "0"),
        Allocation("ml", "train-0", "trainer", "nvidia.com/mig-1g.10gb", MIG, mig_uuid=MIG),
    ) == parse_list(reply)


@pytest.mark.parametrize("resource", ["rdma/hca", "nvidia.com/hostdev", "nvidia.com/gpumem", "cpu"])
def test_what_is_no_gpu_is_left_out(resource: str) -> None:
    held = devices(resource, "a", "b")
    assert parse_list(pod_list(pod("ml", "train-0", container("trainer", held)))) == ()
    assert parse_allocatable(allocatable(held)) == {}


def test_a_claim_that_pods_share_is_an_allocation_of_each() -> None:
    shared = claim("one-gpu", "gpu-0")
    reply = pod_list(pod("ml", "a", container("x", shared)), pod("ml", "b", container("y", shared)))
    assert (
        Allocation("ml", "a", "x", "gpu.nvidia.com", "gpu-0"),
        Allocation("ml", "b", "y", "gpu.nvidia.com", "gpu-0"),
    ) == parse_list(reply)


def test_claims_of_other_drivers_are_left_out() -> None:
    held = claim("channel", "channel-0", driver="compute-domain.nvidia.com")
    assert parse_list(pod_list(pod("ml", "a", container("x", held)))) == ()


@pytest.mark.parametrize(
    ("cdi_names", "device_ids"),
    [
        pytest.param(["k8s.gpu.nvidia.com/device=gpu-0"], ["gpu-0"], id="device"),
        pytest.param(
            [
                "k8s.gpu.nvidia.com/device=gpu-0",
                "k8s.gpu.nvidia.com/claim=0cdb8fb2-5e5a-4f32-a0c3-1a2b3c4d5e6f-gpu-0",
                "k8s.gpu.nvidia.com/device=gpu-0-mig-1g10gb-19-0",
            ],
            ["gpu-0", "gpu-0-mig-1g10gb-19-0"],
            id="device twice, by claim too, and another",
        ),
        pytest.param(["nvidia.com/gpu=all", "k8s.gpu.example.com/device=gpu-0"], [], id="not the driver's"),
    ],
)
def test_an_older_kubelet_tells_claimed_devices_by_cdi_names(
    cdi_names: list[str], device_ids: list[str]
) -> None:
    claimed = messages.ClaimResource(cdi_devices=[messages.CDIDevice(name=name) for name in cdi_names])
    held = messages.DynamicResource(claim_name="c", claim_resources=[claimed])
    read = parse_list(pod_list(pod("ml", "a", container("x", held))))
    assert device_ids == [a.device_id for a in read]


def test_fields_of_a_newer_kubelet_are_passed_over() -> None:
    reply = pod_list(pod("ml", "train-0", container("trainer", devices("nvidia.com/gpu", GPU))))
    number, text = b"\x78\x01", b"\x82\x01\x03new"
    assert parse_list(reply) == parse_list(text + reply + number)


def test_allocatable_counts_a_device_once_however_many_numa_nodes_it_is_near_to() -> None:
    reply = allocatable(
        devices("nvidia.com/gpu", GPU),
        devices("nvidia.com/gpu", GPU),
        devices("nvidia.com/gpu", "GPU-b"),
        devices("nvidia.com/mig-1g.10gb", MIG),
    )
    assert parse_allocatable(reply) == {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": 1}
