"""Who holds a GPU and who uses it: four states that one documented query each tells apart."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from fakes.nvml import presets
from fakes.tenants import bare
from fakes.world import MIB, World
from tools.documented import read_queries
from tools.node import Node
from tools.prometheus import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

QUERIES = read_queries("attribution.md")
USED, IDLE = "allocated and used", "allocated and without a process"
UNASKED, FOREIGN = "used by a pod that holds no GPU", "used by a pod that holds others"


@contextmanager
def scraped(world: World, folder: Path) -> Iterator[Prometheus]:
    with Node(world) as node:
        address = node.url.removeprefix("http://")
        with Prometheus(folder, {"node": address}, interval="500ms") as prometheus:
            prometheus.wait_for("gpuledger_container_processes{pod='trespasser'} > 0")
            yield prometheus


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    scenario = presets.node(5)
    scenario.gpus[4] = presets.a100_mig(4, ("1g.5gb", "1g.5gb"))
    with World(tmp_path, scenario) as world:
        *gpus, divided = scenario.gpus
        world.run(world.admit(bare("worker"), gpus[0].uuid), gpus[0], memory=900 * MIB)
        world.admit(bare("idler"), gpus[1].uuid)
        world.run(world.admit(bare("sneaky")), gpus[2], memory=800 * MIB)
        world.run(world.admit(bare("trespasser"), gpus[3].uuid), gpus[0], memory=700 * MIB)
        own, other = divided.migs
        sliced = world.admit(bare("sliced"), own.uuid, resource="nvidia.com/mig-1g.5gb")
        world.run(sliced, divided, memory=600 * MIB, mig=own)
        world.run(sliced, divided, memory=500 * MIB, mig=other)
        world.publish()
        yield world


def found(prometheus: Prometheus, state: str) -> set[tuple[str, str]]:
    """The pods in the state, each with the device."""
    samples = prometheus.query(QUERIES[state])
    return {(s.labels["pod"], s.labels.get("mig_uuid") or s.labels["gpu_uuid"]) for s in samples}


def test_four_states_of_a_container_on_a_gpu_are_told_apart(world: World, tmp_path: Path) -> None:
    gpus, (own, other) = [gpu.uuid for gpu in world.scenario.gpus], world.scenario.gpus[4].migs
    with scraped(world, tmp_path) as prometheus:
        prometheus.wait_for("count(gpuledger_container_allocated) == 4")
        assert {("worker", gpus[0]), ("sliced", own.uuid)} == found(prometheus, USED)
        assert {("idler", gpus[1]), ("trespasser", gpus[3])} == found(prometheus, IDLE)
        assert {("sneaky", gpus[2])} == found(prometheus, UNASKED)
        assert {("trespasser", gpus[0]), ("sliced", other.uuid)} == found(prometheus, FOREIGN)


def test_nobody_is_accused_while_the_kubelet_is_silent(world: World, tmp_path: Path) -> None:
    world.kubelet.error = grpc.StatusCode.UNAVAILABLE
    with scraped(world, tmp_path) as prometheus:
        prometheus.wait_for('gpuledger_source_up{source="podresources"} == 0')
        assert set() == found(prometheus, UNASKED) | found(prometheus, FOREIGN)


def test_nobody_is_accused_while_an_allocated_device_is_not_understood(world: World, tmp_path: Path) -> None:
    world.admit(bare("puzzle"), "GPU-that-the-driver-does-not-show")
    world.publish()
    with scraped(world, tmp_path) as prometheus:
        prometheus.wait_for("gpuledger_unresolved_allocations == 1")
        assert set() == found(prometheus, UNASKED) | found(prometheus, FOREIGN)
