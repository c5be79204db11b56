"""Everything that a dashboard may show: two nodes, the demo and the cluster role, scraped by Prometheus."""

from __future__ import annotations

import json
import socket
import sys
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml
import yaml

from fakes import cgroups
from fakes.certificates import make_certificate
from fakes.nvml import presets
from fakes.nvml.scenario import FieldValue, Scenario
from fakes.tenants import bare, cron_job, daemon_set, deployment, stateful_set
from fakes.world import MIB, World
from tools.daemon import Daemon
from tools.node import Node
from tools.prometheus import Prometheus
from tools.rulefiles import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakes.nvml.scenario import Gpu

OBJECTS = Path(__file__).with_name("cluster.yaml")
CLUSTER, DEMO = "test", "demo"
"""Names of the two clusters, the rig's own and the simulated one."""

CRITICAL_XID, APPLICATION_XID = 79, 31


@dataclass(frozen=True, kw_only=True)
class Rig:
    """What runs."""

    world: World
    node: Node
    cluster: str
    """Where the cluster role is."""
    prometheus: Prometheus

    def cluster_page(self) -> str:
        """What the cluster role shows."""
        with urllib.request.urlopen(f"http://{self.cluster}/metrics", timeout=5) as reply:
            text: str = reply.read().decode()
        return text


@contextmanager
def running_rig(new_folder: Callable[[str], Path]) -> Iterator[Rig]:
    """Start all of it, and wait until Prometheus has scraped everybody twice."""
    with ExitStack() as stack:
        world = stack.enter_context(World(new_folder("world"), _scenario()))
        _populate(world)
        api, flags = world.serve_api()
        for thing in yaml.safe_load_all(OBJECTS.read_text()):
            api.add(thing)
        web = new_folder("web") / "web.yaml"
        web.write_text("http_server_config: {headers: {X-Frame-Options: deny}}\n")
        node = stack.enter_context(
            Node(world, *flags, "--metrics.dcgm-compatible=true", f"--web.config.file={web}")
        )
        ailing = stack.enter_context(_ailing_node(stack, new_folder("ailing")))
        demo, cluster = (
            stack.enter_context(_command(new_folder(name), name, *arguments))
            for name, *arguments in (
                ("demo", f"--port={_free_port()}", "--no-browser"),
                ("cluster", "--web.listen-address=127.0.0.1:0", flags[1], "--min-severity=info"),
            )
        )
        targets = {
            "node": node.url.removeprefix("http://"),
            "ailing": ailing.url.removeprefix("http://"),
            "demo": demo.address(),
            "cluster": cluster.address(),
        }
        labelled = {job: _in_cluster(CLUSTER) for job in targets}
        labelled["ailing"] |= {"scheme": "https", "tls_config": {"insecure_skip_verify": True}}
        found = [{"url": f"http://{targets['demo']}/targets", "refresh_interval": "1s"}]
        labelled["demo"] = {**_in_cluster(DEMO), "static_configs": [], "http_sd_configs": found}
        prometheus = stack.enter_context(
            Prometheus(
                new_folder("prometheus"),
                targets,
                scrape=labelled,
                rules=read_rules(new_folder("rules")),
            )
        )
        for cluster_name, exporters in ((CLUSTER, 3), (DEMO, 5)):
            scraped = f'count(gpuledger_build_info{{cluster="{cluster_name}"}} offset 3s)'
            prometheus.wait_for(f"{scraped} >= {exporters}", timeout=30)
        world.scenario.add_event(world.scenario.gpus[0], CRITICAL_XID)
        world.scenario.add_event(world.scenario.gpus[0], APPLICATION_XID)
        world.publish()
        yield Rig(world=world, node=node, cluster=targets["cluster"], prometheus=prometheus)


def _in_cluster(name: str) -> dict[str, Any]:
    return {"relabel_configs": [{"target_label": "cluster", "replacement": name}]}


def read_rules(folder: Path, name: str = "*") -> list[Path]:
    """The rules, or those of one topic, in files by which they are evaluated as often as Prometheus scrapes."""
    written = []
    for path in sorted(PLAIN.glob(f"{name}.yaml")):
        groups = yaml.safe_load(path.read_text())["groups"]
        fast = [{key: value for key, value in group.items() if key != "interval"} for group in groups]
        written.append(folder / f"{path.stem}.json")  # JSON is YAML
        written[-1].write_text(json.dumps({"groups": fast}))
    return written


def _scenario() -> Scenario:
    scenario = presets.node(6)
    scenario.gpus[3] = _divided_hopper(3)
    faulty = scenario.gpus[4]
    faulty.utilization_gpu = 0
    faulty.fans, faulty.fan_speed = 1, {0: 55}
    faulty.clock_event_reasons = pynvml.nvmlClocksEventReasonHwThermalSlowdown
    faulty.fields[pynvml.NVML_FI_DEV_RETIRED_SBE] = FieldValue(value=2)
    faulty.fields[pynvml.NVML_FI_DEV_RETIRED_DBE] = FieldValue(value=1)
    faulty.fields[pynvml.NVML_FI_DEV_RETIRED_PENDING] = FieldValue(value=1)
    scenario.gpus[5].lost = True
    return scenario


def _divided_hopper(index: int) -> Gpu:
    """An H100 in MIG mode, which tells what its instances do."""
    gpu, divided = presets.h100(index), presets.a100_mig(index, ("1g.5gb", "2g.10gb"))
    gpu.migs, gpu.mig_mode_current, gpu.mig_mode_pending = divided.migs, 1, 1
    gpu.utilization_gpu = gpu.utilization_memory = None
    gpu.live = False
    for mig in gpu.migs:
        mig.metrics = {
            pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL: 80.0,
            pynvml.NVML_GPM_METRIC_SM_UTIL: 60.0,
            pynvml.NVML_GPM_METRIC_SM_OCCUPANCY: 30.0,
            pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: 20.0,
            pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: 10.0,
        }
    return gpu


def _populate(world: World) -> None:
    gpus = world.scenario.gpus
    train = world.admit(stateful_set("train"), gpus[0].uuid, namespace="research", container="trainer")
    world.run(train, gpus[0], memory=20_000 * MIB, sm=60)
    shared = "nvidia.com/gpu.shared"
    for name, replica, sm in (("chat", "::0", 30), ("search", "::1", 20)):
        tenant = world.admit(deployment(name), gpus[1].uuid + replica, resource=shared)
        world.run(tenant, gpus[1], memory=4_000 * MIB, sm=sm)
    mig = gpus[3].migs[0]
    nightly = world.admit(cron_job("nightly"), mig.uuid, resource="nvidia.com/mig-1g.5gb")
    world.run(nightly, gpus[3], memory=900 * MIB, mig=mig)
    world.admit(deployment("forgotten"), gpus[4].uuid, namespace="team-b")
    snoop = world.admit(daemon_set("snoop"), namespace="monitoring", container="agent")
    world.run(snoop, gpus[0], memory=300 * MIB, sm=1)
    world.run_outside(
        cgroups.systemd_service("ollama"),
        gpus[2],
        reason="host",
        unit="ollama.service",
        memory=2_000 * MIB,
        sm=8,
    )
    world.publish()


def _ailing_node(stack: ExitStack, folder: Path) -> Node:
    """A node whose kubelet is silent, whose GPU tells nonsense, and whose exporter shows little, over TLS."""
    gpu = presets.h100(9)
    gpu.temperature = {pynvml.NVML_TEMPERATURE_GPU: 644_245_923}
    world = stack.enter_context(World(folder, Scenario(gpus=[gpu])))
    tenant = world.admit(bare("lone"), gpu.uuid)
    world.run(tenant, gpu, memory=100 * MIB, sm=5)
    world.publish()
    certificate, key = make_certificate(folder)
    web = folder / "web.yaml"
    web.write_text(f"tls_server_config: {{cert_file: {certificate.name}, key_file: {key.name}}}\n")
    return Node(
        world,
        "--node-name=gpu-node-2",
        f"--path.podresources={folder / 'no-kubelet.sock'}",
        "--series-limit=2",
        f"--web.config.file={web}",
    )


def _command(folder: Path, *arguments: str) -> Daemon:
    return Daemon([sys.executable, "-m", "gpuledger", *arguments], folder / "log")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
