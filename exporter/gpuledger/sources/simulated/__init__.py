"""A cluster that does not exist: what its nodes' sources and its API would say, by seed and time alone."""

from __future__ import annotations

from gpuledger.sources.simulated.api import SimulatedApi
from gpuledger.sources.simulated.cluster import SimulatedCluster
from gpuledger.sources.simulated.day import DAY_SECONDS
from gpuledger.sources.simulated.node import SimulatedNode

__all__ = ["DAY_SECONDS", "SimulatedApi", "SimulatedCluster", "SimulatedNode"]
