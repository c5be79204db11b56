"""The registry of resource names that stand for a GPU or another accelerator."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

ResourceKind = Literal["whole", "slice", "shared", "passthrough", "attribute"]
"""What one unit of a resource is.

`whole`: a device; `slice`: a hardware partition (MIG, AMD compute partitions); `shared`: a place on a device
that others use too; `passthrough`: a device or vGPU handed to a virtual machine; `attribute`: no device but a
property of one (memory, cores, monitoring), which selects a pod and never counts.
"""

_PATTERNS: tuple[tuple[ResourceKind, str], ...] = (
    ("shared", r".+/(?:gpu|mig-[^/]+)\.shared"),
    # NVIDIA's and KubeVirt's device plugins, HAMi. `nvidia.com/*` would be wrong: the Network Operator
    # advertises network cards under the same domain.
    ("whole", r"nvidia\.com/gpu"),
    ("slice", r"nvidia\.com/mig-.+"),
    ("passthrough", r"nvidia\.com/(?:pgpu|[A-Z]{1,2}\d{2,3}[A-Z]*_.+|GRID_.+|NVIDIA_.+)"),
    ("attribute", r"nvidia\.com/(?:gpumem|gpumem-percentage|gpucores|priority)"),
    ("whole", r"amd\.com/gpu"),
    ("slice", r"amd\.com/[sdtqc]px_nps\d"),
    ("whole", r"gpu\.intel\.com/(?:i915|xe)"),
    ("attribute", r"gpu\.intel\.com/.+"),
    ("whole", r"aws\.amazon\.com/neuron(?:device)?"),
    ("attribute", r"aws\.amazon\.com/neuroncore"),
    ("whole", r"habana\.ai/gaudi"),
    ("whole", r"google\.com/tpu"),
    ("whole", r"huawei\.com/Ascend\w+"),
    ("attribute", r"huawei\.com/Ascend[\w-]+-memory"),
    ("whole", r"(?:cambricon\.com/mlu|hygon\.com/dcu|metax-tech\.com/gpu|mthreads\.com/gpu|iluvatar\.com/gpu)"),
    ("whole", r"(?:enflame\.com/gcu|kunlunxin\.com/xpu)"),
    ("shared", r"(?:cambricon\.com/vmlu|hygon\.com/dcunum|metax-tech\.com/sgpu|mthreads\.com/vgpu)"),
    ("shared", r"(?:iluvatar\.ai/vgpu|enflame\.com/vgcu|kunlunxin\.com/vxpu|volcano\.sh/vgpu-number)"),
    ("attribute", r"cambricon\.com/mlu\..+|hygon\.com/dcu(?:mem|cores)|metax-tech\.com/v(?:core|memory)"),
    ("attribute", r"volcano\.sh/(?:vgpu-(?:memory|memory-percentage|cores)|gpu-mem(?:ory)?(?:\..+)?)"),
    ("attribute", r"aliyun\.com/gpu-(?:mem|core\.percentage)|tke\.cloud\.tencent\.com/qgpu-(?:core|memory)"),
)

_DEVICE_CLASSES: tuple[tuple[ResourceKind, str], ...] = (
    ("whole", r"gpu\.(?:nvidia|amd|intel)\.com"),
    ("slice", r"mig\.nvidia\.com"),
    ("passthrough", r"vfio\.gpu\.nvidia\.com"),
)

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Before the name of a device class in the implicit extended resource for it (KEP-5004)."""


@lru_cache(maxsize=4096)
def gpu_resource_kind(name: str, also: re.Pattern[str] | None = None) -> ResourceKind | None:
    """What a unit of the extended resource `name` is, or None where it is no accelerator.

    Names that `also` matches entirely count as whole devices; the registry goes first. Kubernetes' implicit
    name for a device class (KEP-5004) means what the class means.
    """
    if name.startswith(CLASS_PREFIX):
        return gpu_device_class_kind(name.removeprefix(CLASS_PREFIX), also)
    for kind, pattern in _PATTERNS:
        if re.fullmatch(pattern, name):
            return kind
    return "whole" if also is not None and also.fullmatch(name) else None


def gpu_device_class_kind(name: str, also: re.Pattern[str] | None = None) -> ResourceKind | None:
    """What a device of the DRA DeviceClass `name` is, or None where it is no accelerator.

    A class may also be known by the extended resource that it is given for, such as `nvidia.com/gpu`.
    """
    if "/" in name:
        return gpu_resource_kind(name, also)
    for kind, pattern in _DEVICE_CLASSES:
        if re.fullmatch(pattern, name):
            return kind
    return "whole" if also is not None and also.fullmatch(name) else None
