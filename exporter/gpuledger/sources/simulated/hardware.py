"""The machines of the simulated cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuledger.core.model import NOTHING, GpuUuid, MigUuid
from gpuledger.sources.simulated.identity import Identities

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Model:
    """A model of GPU: `product` is the name that GPU feature discovery labels its node with."""

    name: str
    product: str
    architecture: str
    memory_gib: int
    idle_watts: float
    full_watts: float
    top_mhz: int
    links: int = 0
    """NVLinks to other GPUs."""


H100 = Model("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3", "hopper", 80, 70.0, 700.0, 1980, links=4)
A100 = Model("NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB", "ampere", 80, 55.0, 400.0, 1410, links=2)
L4 = Model("NVIDIA L4", "NVIDIA-L4", "ada", 24, 16.0, 72.0, 2040)
L40S = Model("NVIDIA L40S", "NVIDIA-L40S", "ada", 48, 35.0, 350.0, 2520)
T4 = Model("Tesla T4", "Tesla-T4", "turing", 16, 10.0, 70.0, 1590)


@dataclass(frozen=True, slots=True)
class MigSlice:
    """An instance of a divided GPU; `gpu_instance` is the driver's number for it."""

    profile: str
    gpu_instance: int
    memory_gib: int


_SMALL = tuple(MigSlice("1g.10gb", number, 10) for number in range(7, 14))
_MIXED = (MigSlice("3g.40gb", 2, 40), MigSlice("2g.20gb", 3, 20), MigSlice("1g.10gb", 9, 10))


@dataclass(frozen=True, slots=True)
class Machine:
    """A node with GPUs. `mig` divides those named; `shares` is how many pods time-slice each one."""

    name: str
    model: Model
    gpus: int
    mig: Mapping[int, tuple[MigSlice, ...]] = field(default_factory=lambda: NOTHING)
    shares: int = 0
    by_claim: bool = False
    """Whether GPUs are had by claim (Dynamic Resource Allocation) and not from a device plugin."""
    driver: bool = True

    @property
    def offers(self) -> Mapping[str, int]:
        """What its device plugin offers, as by its strategies for MIG and sharing."""
        if self.by_claim:
            return {}
        if self.shares:
            return {"nvidia.com/gpu.shared": self.gpus * self.shares}
        parts = Counter(f"nvidia.com/mig-{part.profile}" for parts in self.mig.values() for part in parts)
        return {"nvidia.com/gpu": self.gpus - len(self.mig), **parts}


MACHINES = (
    Machine("gpu-h100-1", H100, 8),
    Machine("gpu-a100-1", A100, 4, mig={2: _MIXED, 3: _SMALL}),
    Machine("gpu-l4-1", L4, 4, shares=4),
    Machine("gpu-dra-1", L40S, 4, by_claim=True),
    Machine("gpu-t4-1", T4, 2, driver=False),
)


def gpu_uuid(identities: Identities, machine: str, index: int) -> GpuUuid:
    """NVML's name of a GPU."""
    return GpuUuid(f"GPU-{identities.uuid('gpu', machine, index)}")


def mig_uuid(identities: Identities, machine: str, index: int, part: int) -> MigUuid:
    """NVML's name of the `part`-th MIG device of a GPU."""
    return MigUuid(f"MIG-{identities.uuid('mig', machine, index, part)}")
