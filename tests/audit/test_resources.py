"""One registry says what each accelerator resource is."""

import re

import pytest

from gpuledger.core.resources import ResourceKind, gpu_device_class_kind, gpu_resource_kind


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvidia.com/gpu", "whole"),
        ("amd.com/gpu", "whole"),
        ("gpu.intel.com/i915", "whole"),
        ("gpu.intel.com/xe", "whole"),
        ("aws.amazon.com/neuron", "whole"),
        ("habana.ai/gaudi", "whole"),
        ("google.com/tpu", "whole"),
        ("huawei.com/Ascend910", "whole"),
        ("nvidia.com/mig-1g.10gb", "slice"),
        ("nvidia.com/mig-1g.5gb.me", "slice"),
        ("amd.com/cpx_nps4", "slice"),
        ("nvidia.com/gpu.shared", "shared"),
        ("nvidia.com/mig-1g.10gb.shared", "shared"),
        ("cambricon.com/vmlu", "shared"),
        ("hygon.com/dcunum", "shared"),
        ("metax-tech.com/sgpu", "shared"),
        ("volcano.sh/vgpu-number", "shared"),
        ("nvidia.com/pgpu", "passthrough"),
        ("nvidia.com/GH100_H100_PCIE", "passthrough"),
        ("nvidia.com/GRID_T4-1Q", "passthrough"),
        ("nvidia.com/gpumem", "attribute"),
        ("nvidia.com/gpumem-percentage", "attribute"),
        ("nvidia.com/gpucores", "attribute"),
        ("nvidia.com/priority", "attribute"),
        ("gpu.intel.com/i915_monitoring", "attribute"),
        ("aws.amazon.com/neuroncore", "attribute"),
        ("tke.cloud.tencent.com/qgpu-core", "attribute"),
        ("volcano.sh/gpu-mem.128Mi", "attribute"),
        ("volcano.sh/vgpu-memory", "attribute"),
        ("aliyun.com/gpu-mem", "attribute"),
        ("huawei.com/Ascend910-memory", "attribute"),
        ("deviceclass.resource.kubernetes.io/gpu.nvidia.com", "whole"),
        ("deviceclass.resource.kubernetes.io/mig.nvidia.com", "slice"),
        ("nvidia.com/hostdev", None),
        ("nvidia.com/nvswitch", None),
        ("cpu", None),
        ("example.com/gpu", None),
        ("deviceclass.resource.kubernetes.io/nic.example.com", None),
    ],
)
def test_kind_of_a_resource(name: str, expected: ResourceKind | None) -> None:
    assert expected == gpu_resource_kind(name)


def test_a_pattern_adds_whole_devices_and_never_changes_a_known_name() -> None:
    also = re.compile(r"example\.com/.+|nvidia\.com/gpumem")
    assert [
        gpu_resource_kind(name, also) for name in ("example.com/npu", "nvidia.com/gpumem", "xexample.com/npu")
    ] == [
        "whole",
        "attribute",
        None,
    ]


def test_device_classes_of_dynamic_resource_allocation() -> None:
    assert [
        gpu_device_class_kind(name)
        for name in ("gpu.nvidia.com", "mig.nvidia.com", "compute-domain.nvidia.com")
    ] == [
        "whole",
        "slice",
        None,
    ]
