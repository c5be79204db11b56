"""All of the simulated cluster: its nodes, and the API that tells of their pods."""

from __future__ import annotations

from collections.abc import Callable

from gpuledger.sources.simulated.api import SimulatedApi
from gpuledger.sources.simulated.day import DAY_SECONDS, hour_of
from gpuledger.sources.simulated.identity import Identities
from gpuledger.sources.simulated.node import SimulatedNode
from gpuledger.sources.simulated.population import Population


class SimulatedCluster:
    """Begins now; the same for the same seed at the same time. `clock` gives Unix seconds.

    A day takes `day` seconds. Without `faults` nothing breaks, nobody wastes a GPU or breaks a rule.
    """

    def __init__(
        self, seed: int, clock: Callable[[], float], *, day: float = DAY_SECONDS, faults: bool = True
    ) -> None:
        self._clock = clock
        self._population = Population(Identities(seed), clock(), day / DAY_SECONDS, faults)
        self.nodes = tuple(
            SimulatedNode(machine, self._population, clock) for machine in self._population.machines
        )
        self.api = SimulatedApi(self._population, clock)

    def hour(self) -> float:
        """The hour of the simulated day, from 0 to 24."""
        return hour_of(self._population.age(self._clock()))
