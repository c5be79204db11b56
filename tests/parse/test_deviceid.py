"""Device ids of every plugin and driver that names NVIDIA's GPUs, and what NVML makes of them."""

from __future__ import annotations

import pytest

from gpuledger.core.model import Allocation, Gpu, GpuReading, GpuUuid, MigDevice, MigUuid
from gpuledger.parse.deviceid import DeviceRef, parse_device_id, resolve

GPU = GpuUuid("GPU-aaaaaaaa-0000-4000-8000-000000000000")
OTHER_GPU = GpuUuid("GPU-bbbbbbbb-0000-4000-8000-000000000001")
MIG = MigUuid("MIG-11111111-2222-5333-8444-000000000001")
OTHER_MIG = MigUuid("MIG-11111111-2222-5333-8444-000000000002")
OLD_MIG = MigUuid(f"MIG-{GPU}/3/0")
NOTHING = DeviceRef()


@pytest.mark.parametrize(
    ("resource", "device_id", "expected"),
    [
        pytest.param("nvidia.com/gpu", GPU, DeviceRef(gpu_uuid=GPU), id="GPU"),
        pytest.param("nvidia.com/gpu.shared", f"{GPU}::12", DeviceRef(gpu_uuid=GPU), id="time slice or MPS"),
        pytest.param("nvidia.com/mig-1g.10gb", MIG, DeviceRef(mig_uuid=MIG), id="MIG"),
        pytest.param("nvidia.com/mig-1g.10gb", f"{MIG}::0", DeviceRef(mig_uuid=MIG), id="replicated MIG"),
        pytest.param(
            "nvidia.com/mig-1g.5gb",
            OLD_MIG,
            DeviceRef(gpu_uuid=GPU, mig_uuid=OLD_MIG, gpu_instance=3, compute_instance=0),
            id="MIG of old drivers",
        ),
        pytest.param("nvidia.com/gpu", "nvidia1", DeviceRef(minor=1), id="GKE"),
        pytest.param("nvidia.com/gpu", "nvidia1/gi3", DeviceRef(minor=1, gpu_instance=3), id="GKE MIG"),
        pytest.param("nvidia.com/gpu", "nvidia1/vgpu2", DeviceRef(minor=1), id="GKE time slice"),
        pytest.param(
            "nvidia.com/gpu", "nvidia1/gi3/vgpu2", DeviceRef(minor=1, gpu_instance=3), id="GKE MIG time slice"
        ),
        pytest.param("nvidia.com/gpu", "0", DeviceRef(index=0), id="index"),
        pytest.param("nvidia.com/gpu.shared", "1::3", DeviceRef(index=1), id="index time slice"),
        pytest.param("gpu.nvidia.com", "gpu-1", DeviceRef(minor=1), id="DRA"),
        pytest.param("gpu.nvidia.com", "gpu-1-mig-1g10gb-19-0", NOTHING, id="DRA MIG, named by placement"),
        pytest.param("gpu.nvidia.com", "gpu-vfio-1", NOTHING, id="DRA passthrough"),
        pytest.param("nvidia.com/GA102GL_A10", "1", NOTHING, id="IOMMU group"),
        pytest.param("amd.com/gpu", "0", NOTHING, id="another vendor's number"),
        pytest.param("amd.com/gpu", "0000:03:00.0", NOTHING, id="PCI address"),
        pytest.param("nvidia.com/gpu", f"{GPU}-3", NOTHING, id="HAMi, whose scheduler picks another GPU"),
        pytest.param("nvidia.com/gpu", "", NOTHING, id="empty"),
    ],
)
def test_a_device_id_means_what_its_form_says(resource: str, device_id: str, expected: DeviceRef) -> None:
    assert expected == parse_device_id(resource, device_id)


NODE = (
    GpuReading(Gpu(0, GPU, minor=1), up=True, mig_devices=(MigDevice(MIG, "1g.10gb", 3, 0),)),
    GpuReading(
        Gpu(1, OTHER_GPU, minor=0),
        up=True,
        mig_devices=(MigDevice(OTHER_MIG, "1c.2g.20gb", 3, 0), MigDevice(MigUuid("MIG-x"), "1c.2g.20gb", 3, 1)),
    ),
)


@pytest.mark.parametrize(
    ("device_id", "gpu_uuid", "mig_uuid"),
    [
        pytest.param(GPU, GPU, None, id="GPU"),
        pytest.param(f"{OTHER_GPU}::1", OTHER_GPU, None, id="time slice"),
        pytest.param("1", OTHER_GPU, None, id="index"),
        pytest.param("nvidia1", GPU, None, id="minor, which is not the index"),
        pytest.param(OTHER_MIG, OTHER_GPU, OTHER_MIG, id="MIG"),
        pytest.param(OLD_MIG, GPU, MIG, id="MIG of old drivers by its place"),
        pytest.param("nvidia1/gi3", GPU, MIG, id="GPU instance"),
        pytest.param("nvidia0/gi3", None, None, id="GPU instance of several compute instances"),
        pytest.param("nvidia1/gi9", None, None, id="GPU instance that is not there"),
        pytest.param("nvidia7", None, None, id="minor that is not there"),
        pytest.param("tegra", None, None, id="unknown form"),
    ],
)
def test_nvml_names_the_device_at_the_place(
    device_id: str, gpu_uuid: GpuUuid | None, mig_uuid: MigUuid | None
) -> None:
    found = resolve(Allocation("ns", "pod", "main", "nvidia.com/gpu", device_id), NODE)
    assert (gpu_uuid, mig_uuid) == (found.gpu_uuid, found.mig_uuid)


def test_an_identity_holds_without_nvml() -> None:
    allocation = Allocation("ns", "pod", "main", "nvidia.com/gpu", GPU, gpu_uuid=GPU)
    assert allocation == resolve(allocation, ())


def test_a_gpu_of_unknown_minor_is_not_taken_for_another() -> None:
    allocation = Allocation("ns", "pod", "main", "nvidia.com/gpu", "nvidia0")
    assert allocation == resolve(allocation, (GpuReading(Gpu(0, GPU), up=True),))
