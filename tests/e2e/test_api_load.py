"""What a node costs the Kubernetes API: one list and one watch, however much goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes import cgroups
from fakes.nvml import presets
from fakes.podwatch import pod
from fakes.tenants import NODE, deployment
from fakes.world import MIB, World
from tools.honesty import assert_honest
from tools.node import Node

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.apiserver import ApiServer

pytestmark = pytest.mark.e2e

PODS = 300
OWNED, UNKNOWN = 56, 8
"""Processes, the first of a pod each."""


def test_300_pods_and_64_gpu_processes_cost_one_list_and_one_watch(tmp_path: Path) -> None:
    """Also processes of containers and pods that nobody knows, new ones in every cycle."""
    with World(tmp_path, presets.node(8)) as world:
        for index, gpu in enumerate(world.scenario.gpus):
            for number in range(7):
                tenant = world.admit(deployment(f"serve-{index}-{number}"), f"{gpu.uuid}::{number}")
                world.run(tenant, gpu, memory=100 * MIB, sm=10)
            _run_unknown(world, index)
        api, flags = world.serve_api()
        _fill(api)
        with Node(world, *flags, "--interval=100ms") as node:
            node.wait_for(
                "everybody",
                lambda s: (
                    s.value("attribution_processes", result="owned") == OWNED
                    and s.value("attribution_processes", result="pod-unknown") == UNKNOWN
                    and len(s.series("pod_info")) == OWNED
                ),
            )
            for cycle in range(10):
                world.end(_unknown(world)[0])
                _run_unknown(world, cycle % 8)
                world.publish()
                node.settled(1)
            scrape = assert_honest(node, world)
            assert scrape.value("attribution_processes", result="pod-unknown") == UNKNOWN

        asked = [(request.path, request.watch) for request in api.requests]
        assert [("/api/v1/pods", False), ("/api/v1/pods", True)] == asked
        assert {f"spec.nodeName={NODE}"} == {request.query["fieldSelector"] for request in api.requests}


def _fill(api: ApiServer) -> None:
    """The rest of the node's pods, and those of another node, which are none of its business."""
    for number in range(PODS - OWNED):
        api.add(pod(f"web-{number}", NODE))
        api.add(pod(f"elsewhere-{number}", "node-2"))


def _run_unknown(world: World, gpu: int) -> None:
    cgroup = cgroups.containerd_systemd(f"00000000-0000-4000-8000-{gpu:012}", cgroups.new_container_id())
    world.run_outside(cgroup, world.scenario.gpus[gpu], reason="pod-unknown", memory=50 * MIB)


def _unknown(world: World) -> list[int]:
    listed = [process.pid for gpu in world.scenario.gpus for process in gpu.processes]
    owners = {tenant.owner for tenant in world.tenants}
    return [pid for pid in listed if world.holders[pid] not in owners]
