"""A node with eight GPUs and everybody who may be on one, scraped by both ages of Prometheus."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fakes import cgroups
from fakes.nvml import presets
from fakes.tenants import bare, cron_job, daemon_set, deployment, stateful_set
from fakes.world import MIB, World
from tools.node import Node
from tools.prometheus import VERSIONS, Prometheus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fakes.nvml.scenario import Gpu, MigDevice
    from tools.exposition import Exposition

RETENTION_S = 4
PODS, ALLOCATIONS = 6, 6

SCRAPES = {
    "node": {},
    "openmetrics": {"scrape_protocols": ["OpenMetricsText1.0.0"]},
    "text": {"scrape_protocols": ["PrometheusText0.0.4"]},
}
"""Jobs that scrape the same node: as by default, and in each of the formats that it speaks."""


@dataclass(frozen=True, kw_only=True)
class Rig:
    """What a test sees: the truth, the node, and what each Prometheus made of it."""

    world: World
    node: Node
    prometheuses: dict[str, Prometheus]
    gpus: list[Gpu]
    mig: MigDevice

    @property
    def prometheus(self) -> Prometheus:
        """The newer one."""
        return self.prometheuses[VERSIONS[-1]]


@contextmanager
def running_rig(new_folder: Callable[[str], Path]) -> Iterator[Rig]:
    """Start all of it, and wait until each Prometheus has scraped everybody."""
    scenario = presets.node(8)
    scenario.gpus[3] = presets.a100_mig(3, ("1g.5gb", "2g.10gb"))
    with ExitStack() as stack:
        world = stack.enter_context(World(new_folder("world"), scenario))
        mig = scenario.gpus[3].migs[0]
        _populate(world, mig)
        _, flags = world.serve_api()
        node = stack.enter_context(Node(world, *flags, f"--retention={RETENTION_S}s"))
        node.wait_for("everybody", _everybody_is_there)
        address = node.url.removeprefix("http://")
        prometheuses = {
            version: stack.enter_context(_prometheus(new_folder(version), address, version))
            for version in VERSIONS
        }
        for prometheus in prometheuses.values():
            prometheus.wait_for(f"count(gpuledger_build_info) == {len(prometheus.jobs)}")
        yield Rig(world=world, node=node, prometheuses=prometheuses, gpus=scenario.gpus, mig=mig)


def _everybody_is_there(scrape: Exposition) -> bool:
    return len(scrape.series("pod_info")) == PODS and len(scrape.series("container_allocated")) == ALLOCATIONS


def _prometheus(folder: Path, address: str, version: str) -> Prometheus:
    """Prometheus before 2.49 can't be told what to ask for: it prefers OpenMetrics."""
    jobs = SCRAPES if version == VERSIONS[-1] else {"node": {}}
    return Prometheus(folder, dict.fromkeys(jobs, address), version=version, interval="500ms", scrape=jobs)


def _populate(world: World, mig: MigDevice) -> None:
    gpus = world.scenario.gpus

    train = world.admit(
        stateful_set("train"), gpus[0].uuid, gpus[1].uuid, namespace="research", container="trainer"
    )
    world.run(train, gpus[0], memory=20_000 * MIB, sm=60)
    world.run(train, gpus[1], memory=21_000 * MIB, sm=70)
    world.run(train, gpus[0], gpus[1], memory=500 * MIB, sm=5)

    shared = "nvidia.com/gpu.shared"
    chat = world.admit(
        deployment("chat"), f"{gpus[2].uuid}::0", resource=shared, cgroup=cgroups.containerd_cgroupfs
    )
    notebook = world.admit(bare("notebook"), f"{gpus[2].uuid}::1", resource=shared, cgroup=cgroups.crio_systemd)
    world.run(chat, gpus[2], memory=8_000 * MIB, sm=30)
    world.run(notebook, gpus[2], memory=3_000 * MIB, sm=20)

    nightly = world.admit(cron_job("nightly"), mig.uuid, resource="nvidia.com/mig-1g.5gb")
    world.run(nightly, gpus[3], memory=900 * MIB, mig=mig)

    world.run_outside(
        cgroups.systemd_service("ollama"), gpus[4], reason="host", unit="ollama.service", memory=6_000 * MIB
    )
    docker = cgroups.docker_cgroupfs(cgroups.new_container_id())
    world.run_outside(docker, gpus[5], reason="container", memory=2_500 * MIB)

    world.admit(deployment("forgotten"), gpus[6].uuid, namespace="team-b")

    snoop = world.admit(
        daemon_set("snoop"), namespace="monitoring", container="agent", cgroup=cgroups.crio_cgroupfs
    )
    world.run(snoop, gpus[7], memory=300 * MIB, sm=1)
    world.publish()
