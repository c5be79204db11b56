"""A node with eight busy GPUs for things to happen to, and a table of what came of it."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fakes import cgroups
from fakes.nvml import presets
from fakes.tenants import stateful_set
from fakes.world import MIB, World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.stage import Record

PAGE = Path(__file__).parents[2] / "docs/resilience.md"
MARK = "<!-- measured -->\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row of the table: what happened, what was lost by it, and how long until all was right again."""

    fault: str
    lost: str
    right_again: str


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Eight GPUs with a pod on each and a host's service on the last; published, its node is not started."""
    with World(tmp_path, presets.node(8)) as world:
        for number, gpu in enumerate(world.scenario.gpus):
            tenant = world.admit(stateful_set(f"train-{number}"), gpu.uuid)
            world.run(tenant, gpu, memory=4_000 * MIB, sm=40)
        service = cgroups.systemd_service("ollama")
        world.run_outside(service, gpu, reason="host", unit="ollama.service", memory=2_000 * MIB, sm=20)
        world.publish()
        yield world


@pytest.fixture(scope="session")
def outcomes() -> Iterator[list[Outcome]]:
    """All rows; `make chaos` writes them into docs/resilience.md."""
    rows: list[Outcome] = []
    yield rows
    if "CHAOS_TABLE" in os.environ:
        head, _, rest = PAGE.read_text().partition(MARK)
        tail = rest.partition(MARK)[2]
        lines = "".join(f"| {' | '.join(astuple(row))} |\n" for row in rows)
        table = f"| what happens | what is lost | right again after |\n|---|---|---|\n{lines}"
        PAGE.write_text(f"{head}{MARK}\n{table}\n{MARK}{tail}")


@pytest.fixture
def record(outcomes: list[Outcome]) -> Record:
    """Adds a row."""

    def add(fault: str, lost: str, right_again: str) -> None:
        outcomes.append(Outcome(fault, lost, right_again))

    return add
