"""All of the simulated cluster: its nodes, and the API that tells of their pods."""

from __future__ import annotations

from collections.abc import Callable

from gpuledger.sources.simulated.api import SimulatedApi
from gpuledger.sources.simulated.day import hour_of
from gpuledger.sources.simulated.hardware import MACHINES
from gpuledger.sources.simulated.identity import Identities
from gpuledger.sources.simulated.node import SimulatedNode
from gpuledger.sources.simulated.population import Population


class SimulatedCluster:
    """Begins now; the same for the same seed at the same time. `clock` gives Unix seconds."""

    def __init__(self, seed: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start = clock()
        population = Population(Identities(seed), self._start)
        self.nodes = tuple(SimulatedNode(machine, population, clock) for machine in MACHINES)
        self.api = SimulatedApi(population, clock)

    def hour(self) -> float:
        """The hour of the simulated day, from 0 to 24."""
        return hour_of(self._clock() - self._start)
