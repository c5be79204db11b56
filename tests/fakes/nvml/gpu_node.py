"""A node whose GPUs the stand-in has, read by an `NvmlSource` whose clocks a test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fakes.nvml.scenario import Gpu, Scenario
from gpuledger.core.model import GpuReading, NvmlReading
from gpuledger.sources.nvml import NvmlSource

START = 1_700_000_000.0
"""Unix time at which each test begins."""


@dataclass
class GpuNode:
    """The node; `scenario_file` is where this process's stand-in looks."""

    scenario_file: Path
    scenario: Scenario = field(default_factory=Scenario)
    wall: float = START
    uptime: float = 1_000.0

    def __post_init__(self) -> None:
        self.source = NvmlSource(clock=lambda: self.wall, uptime=lambda: self.uptime)

    def has(self, *gpus: Gpu) -> None:
        """Gives the node these GPUs."""
        self.scenario.gpus = list(gpus)
        self.change()

    def change(self) -> None:
        """Puts into effect what a test changed in the scenario."""
        self.scenario.write(self.scenario_file)

    def skip(self, seconds: float) -> None:
        """Lets time pass."""
        self.wall += seconds
        self.uptime += seconds

    def read(self, after: float = 0.0) -> NvmlReading:
        """One cycle, `after` so many seconds."""
        self.skip(after)
        return self.source.read()

    def read_gpu(self, after: float = 0.0) -> GpuReading:
        """One cycle of the node's only GPU."""
        (reading,) = self.read(after).gpus
        return reading
