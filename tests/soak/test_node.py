"""Weeks of pods on one node: its memory, descriptors, threads, series and objects stay as many as they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from fakes.nvml import presets
from fakes.tenants import stateful_set
from fakes.world import MIB, World
from soak.growth import Size, grown, size_of
from tools.node import Node

if TYPE_CHECKING:
    from fakes.tenants import Tenant
    from tools.exposition import Exposition

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

TESTS = Path(__file__).parents[1]
DAYS = 14
GENERATIONS = 3_000
"""Of pods with real processes, each of which lives for two cycles or so."""
SAMPLED_EVERY = 15


def test_two_weeks_of_the_loop_leave_nothing_behind() -> None:
    command = [sys.executable, str(TESTS / "soak/life.py"), str(DAYS)]
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    generations = [one.pop("generations") for one in told]
    assert generations[-1] > 2_000 * DAYS
    assert {} == grown(Size(**one) for one in told)


def test_thousands_of_real_pods_leave_nothing_behind(tmp_path: Path) -> None:
    """All sources: the driver's ABI, /proc, log folders, kubelet and API."""
    with World(tmp_path, presets.node(8)) as world:
        _, api = world.serve_api()
        tenants: list[Tenant] = []
        sizes: list[Size] = []
        with Node(world, *api, "--interval=50ms", "--retention=1s") as node:
            node.wait_for("the GPUs", lambda s: len(s.series("gpu_up")) == 8)
            for generation in range(GENERATIONS):
                gpu = world.scenario.gpus[generation % 8]
                tenants.append(
                    world.admit(stateful_set(f"job-{generation}"), gpu.uuid, namespace=f"team-{generation % 9}")
                )
                world.run(tenants[-1], gpu, memory=100 * MIB, sm=20)
                if len(tenants) > 8:
                    world.remove(tenants.pop(0))
                world.publish()
                if generation % SAMPLED_EVERY == 0:
                    newest = tenants[-1].controlled.pod
                    node.wait_for("the newest pod", partial(_uses_memory, newest))
                    sizes.append(size_of(psutil.Process(node.process.pid), node.get("/metrics").body))
        assert len(sizes) == GENERATIONS / SAMPLED_EVERY
        assert {} == grown(sizes)


def _uses_memory(pod: str, scrape: Exposition) -> bool:
    return bool(scrape.series("container_memory_used_bytes", pod=pod))
