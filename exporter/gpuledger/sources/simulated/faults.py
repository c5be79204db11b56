"""What goes wrong with the simulated hardware, by the hour."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.sources.simulated.day import is_between, times_of
from gpuledger.sources.simulated.hardware import MACHINES

HOT_MACHINE, HOT_GPU = MACHINES[0].name, 3
_HOT_FROM, _HOT_TO = 11.0, 12.5
HOT_SPEED = 0.6
"""What a GPU still does at the clocks to which heat holds it."""
CRASH_XID = 31
"""A page fault: what a process that crashes leaves in the log."""


@dataclass(frozen=True, slots=True)
class DailyXid:
    """An error that a GPU has every day at an hour, with its memory at fault."""

    machine: str
    gpu: int
    xid: int
    hour: float

    def ages(self, since: float, until: float) -> list[float]:
        """When it happens, after an age of the simulation and up to another, in seconds."""
        return times_of(self.hour, since, until)


MEMORY_FAULT = DailyXid(MACHINES[0].name, 2, 94, 13.0)
"""An uncorrectable error that hits one process; the row is replaced at the next reset."""


def is_hot(machine: str, gpu: int, age: float) -> bool:
    """Whether heat holds the GPU's clocks down."""
    return (machine, gpu) == (HOT_MACHINE, HOT_GPU) and is_between(_HOT_FROM, _HOT_TO, age)


def memory_faults(machine: str, gpu: int, age: float) -> int:
    """Uncorrectable memory errors of a GPU since the start."""
    if (machine, gpu) != (MEMORY_FAULT.machine, MEMORY_FAULT.gpu):
        return 0
    return len(MEMORY_FAULT.ages(0.0, age))
