"""A small node for faults to happen to: a pod on the first GPU, a host's service on the second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes import cgroups
from fakes.nvml import presets
from fakes.tenants import stateful_set
from fakes.world import MIB, World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """The node's world, published; its node is not started yet."""
    with World(tmp_path, presets.node(2)) as world:
        first, second = world.scenario.gpus
        tenant = world.admit(stateful_set("train"), first.uuid)
        world.run(tenant, first, memory=4_000 * MIB, sm=40)
        world.run_outside(
            cgroups.systemd_service("ollama"),
            second,
            reason="host",
            unit="ollama.service",
            memory=2_000 * MIB,
            sm=20,
        )
        world.publish()
        yield world
