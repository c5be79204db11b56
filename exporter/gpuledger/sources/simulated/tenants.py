"""What somebody deployed on the cluster: where it runs, how it lives, what it wants of its GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gpuledger.core.model import NOTHING
from gpuledger.sources.simulated.day import Load, idle

Spec = Mapping[str, Any]
"""Part of a pod's or container's spec, as its JSON."""

Kind = Literal["Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "PyTorchJob", "RayCluster"]


@dataclass(frozen=True, slots=True)
class Place:
    """A GPU of a node, or the `part`-th MIG device or share of it."""

    gpu: int
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How pods come and go: each `period` seconds a new one, which lives for `life` of them.

    With `crashes` it is always the same pod, whose container fails at the end of its life and is started again.
    """

    period: float
    life: float
    crashes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One pod of a workload, or with a rhythm one after the other.

    `node` is empty for one that waits, and `waits` then is what the scheduler says of it. `asks` is what it
    requests, `places` are the GPUs on which its only process is.
    """

    namespace: str
    name: str
    container: str
    kind: Kind = "Deployment"
    role: str = ""
    """What the controller puts between its name and the number, as in `master-0`."""
    ordinal: int = 0
    node: str = ""
    asks: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    claim: str = ""
    """Name of the claim that it has its GPU by."""
    places: tuple[Place, ...] = ()
    memory_gib: float = 1.0
    load: Load = idle
    process: str = "python"
    image: str = ""
    rhythm: Rhythm | None = None
    waits: str = ""
    pod_spec: Spec = field(default_factory=lambda: NOTHING)
    container_spec: Spec = field(default_factory=lambda: NOTHING)
    """What differs from a well-behaved pod."""
    trouble: bool = False
    """Whether somebody should be told of it: it is not there in a cluster where all is well."""
