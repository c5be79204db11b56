"""A driver error belongs to who was on the GPU at that moment, whoever comes and goes after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes.nvml import presets
from fakes.tenants import bare, stateful_set
from fakes.world import MIB, World
from tools.node import Node
from tools.prometheus import Prometheus

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


def test_an_error_stays_with_the_pod_that_it_killed(tmp_path: Path) -> None:
    with World(tmp_path, presets.node(2)) as world:
        gpu, other = world.scenario.gpus
        victim = world.admit(stateful_set("victim"), gpu.uuid)
        world.run(victim, gpu, memory=500 * MIB, sm=50)
        world.run(world.admit(bare("bystander"), other.uuid), other, memory=500 * MIB)
        world.publish()
        _, flags = world.serve_api()
        with (
            Node(world, *flags, "--retention=1s") as node,
            Prometheus(tmp_path, {"node": node.url.removeprefix("http://")}, interval="500ms") as prometheus,
        ):
            prometheus.wait_for('gpuledger_container_processes{workload="victim"} == 1')

            world.scenario.add_event(gpu, 31)
            world.remove(victim)
            heir = world.admit(bare("heir"), gpu.uuid)
            world.publish()
            prometheus.wait_for('gpuledger_gpu_xid_errors_total{xid="31"} == 1')
            world.run(heir, gpu, memory=700 * MIB)
            world.publish()
            prometheus.wait_for('gpuledger_container_processes{pod="heir"} == 1')
            prometheus.wait_for('absent({pod="victim-0",__name__=~"gpuledger_container_.+"})')

            named = prometheus.query("gpuledger_gpu_xid_pod_info")
            assert [("31", gpu.uuid, "victim-0", "StatefulSet", "victim")] == [
                tuple(s.labels[label] for label in ("xid", "gpu_uuid", "pod", "workload_kind", "workload"))
                for s in named
            ]
            (at,) = prometheus.query("time() - gpuledger_gpu_xid_last_timestamp_seconds")
            assert 0 < at.value < 15

            world.scenario.add_event(gpu, 31)
            world.publish()
            prometheus.wait_for('gpuledger_gpu_xid_errors_total{xid="31"} == 2')
            assert ["heir"] == [s.labels["pod"] for s in prometheus.query("gpuledger_gpu_xid_pod_info")]
