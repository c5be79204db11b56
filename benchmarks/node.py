"""What `gpuledger node` costs beside other ways to the same figures, as a table of docs/performance.md.

    PYTHONPATH=tests python -m benchmarks.node [--gpus 1 8 16] [--processes 0 8 64] [--seconds 30]

All sides run at once over the same stand-in for NVML, so that whatever else the machine does hits them alike.
CPU is what the kernel has charged to each process, in percent of a core. The node is as tests know it: real
processes in real cgroups, a kubelet, an API. Needs root, and `make .cache/bench/.stamp` for nvitop-exporter.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from fakes.certificates import make_certificate
from fakes.nvml import presets
from fakes.nvml.build import build_library
from fakes.nvml.environment import environment
from fakes.nvml.scenario import Fault
from fakes.tenants import stateful_set
from fakes.world import MIB, World
from tools.daemon import Daemon
from tools.node import Node

HERE = Path(__file__).resolve().parent
NVITOP = HERE.parent / ".cache/bench/bin/nvitop-exporter"

LATENCY = (
    Fault(call="nvmlDeviceGetPcieThroughput", kind="latency", number=20_000),
    Fault(call="*", kind="latency", number=30),
)
"""How long NVML thinks, in microseconds: the first counts for 20 ms, as nvml.h says; the rest are a system call
and a look into the driver."""

MOUNT_ACCOUNT = """
mount -t tmpfs run /run
mkdir -p /run/secrets/kubernetes.io
ln -s "$0" /run/secrets/kubernetes.io/serviceaccount
exec "$@"
"""

SCRAPE_SECONDS = 15.0
SETTLE_SECONDS = 5.0
NVITOP_PORT = 19442

CPU_LIMIT = 1 / 5
"""Of nvitop-exporter's CPU: what is aimed at."""
CPU_GUARD = 0.3
"""Of the same: what `make bench-check` lets pass, with room for a noisy machine."""
MEMORY_LIMIT = 64.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one side: CPU in percent of a core, and resident MiB."""

    cpu: float
    memory: float


@dataclass(frozen=True, slots=True)
class Size:
    """Of a node; the processes are in pods of their own, dealt out to the GPUs."""

    gpus: int
    processes: int


JUDGED = Size(gpus=8, processes=64)
"""The node that the budget is about: eight processes on each of eight GPUs."""


@dataclass(frozen=True, slots=True)
class Side:
    """A running program and where it serves its figures, if it does."""

    pid: int
    url: str = ""

    def cpu_seconds(self) -> float:
        """What it has used of a core since it began (the clock of clock_getcpuclockid(3))."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def memory(self) -> float:
        """Its resident memory in MiB."""
        return float(psutil.Process(self.pid).memory_info().rss / MIB)

    def scrape(self) -> None:
        """Fetch the page, compressed as for Prometheus."""
        request = urllib.request.Request(self.url, headers={"Accept-Encoding": "gzip"})  # noqa: S310 - loopback
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
            answer.read()


def main() -> int:
    """Measure, print, and tell whether the node of the budget costs no more than it did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 8, 16])
    parser.add_argument("--processes", type=int, nargs="+", default=[0, 8, 64])
    parser.add_argument("--seconds", type=float, default=30.0)
    args = parser.parse_args()
    sizes = [Size(gpus, processes) for gpus in args.gpus for processes in args.processes]
    within = [_is_within_limits(size, measure(size, args.seconds)) for size in sizes]
    return int(not all(within))


def _is_within_limits(size: Size, costs: Mapping[str, Cost]) -> bool:
    for name, cost in costs.items():
        sys.stdout.write(f"{size.gpus} GPUs, {size.processes} processes: {name} {cost}\n")
    own, other = costs["gpuledger"], costs["nvitop-exporter"]
    sys.stdout.write(f"CPU {own.cpu / other.cpu:.2f} of nvitop-exporter's\n")
    sys.stdout.flush()
    return size != JUDGED or (own.cpu <= CPU_GUARD * other.cpu and own.memory <= MEMORY_LIMIT)


def measure(size: Size, seconds: float) -> dict[str, Cost]:
    """What each side costs on a node of that size."""
    with running_node(size) as world, running_sides(world, size) as sides:
        time.sleep(SETTLE_SECONDS)
        before = {name: side.cpu_seconds() for name, side in sides.items()}
        began = time.monotonic()
        _scrape_until(began + seconds, [side for side in sides.values() if side.url])
        elapsed = time.monotonic() - began
        return {
            name: Cost(100 * (side.cpu_seconds() - before[name]) / elapsed, side.memory())
            for name, side in sides.items()
        }


def _scrape_until(end: float, sides: Sequence[Side]) -> None:
    """Scrape each in turn, now and then as often as Prometheus does."""
    while (left := end - time.monotonic()) > 0:
        for side in sides:
            side.scrape()
        time.sleep(min(left, SCRAPE_SECONDS))


@contextmanager
def running_node(size: Size) -> Iterator[World]:
    """A node of H100s with as many pods as processes, told by all its fakes alike."""
    with tempfile.TemporaryDirectory() as folder, World(Path(folder), presets.node(size.gpus)) as world:
        world.scenario.faults = list(LATENCY)
        for number in range(size.processes):
            gpu = world.scenario.gpus[number % size.gpus]
            tenant = world.admit(
                stateful_set(f"train-{number}"), f"{gpu.uuid}::{number}", resource="nvidia.com/gpu.shared"
            )
            world.run(tenant, gpu, memory=500 * MIB, sm=1)
        world.publish()
        yield world


def _node_in_pod(world: World) -> Node:
    """The exporter as a DaemonSet has it: in its own mount namespace, with a service account for the API."""
    certificate, key = make_certificate(world.folder)
    api, _ = world.serve_api((certificate, key))
    account = world.folder / "serviceaccount"
    account.mkdir()
    (account / "token").write_text("token")
    (account / "ca.crt").write_text(certificate.read_text())
    host, port = urlsplit(api.url).netloc.split(":")
    prefix = ("unshare", "--mount", "sh", "-ec", MOUNT_ACCOUNT, str(account))
    env = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    return Node(world, "--kube=in-cluster", "--interval=1s", prefix=prefix, env=env)


@contextmanager
def running_sides(world: World, size: Size) -> Iterator[dict[str, Side]]:
    """Each way to the figures of the world, by name; at the end they are all stopped."""
    env = environment(build_library(), world.scenario_file)
    script = [sys.executable, str(HERE / "node_sides.py")]
    with ExitStack() as stack:
        node = stack.enter_context(_node_in_pod(world))
        node.wait_for("all processes", lambda s: len(s.series("process_start_time_seconds")) == size.processes)
        sides = {"gpuledger": Side(node.process.pid, f"{node.url}/metrics")}
        for name, command in {
            "nvitop-exporter": [str(NVITOP), f"--port={NVITOP_PORT}", "--interval=1"],
            "naive loop": [*script, "naive"],
        }.items():
            daemon = stack.enter_context(Daemon(command, world.folder / f"{name}.log", env))
            sides[name] = Side(daemon.process.pid, f"http://{daemon.address()}/metrics")
        floor = stack.enter_context(Daemon([*script, "floor"], world.folder / "floor.log", env))
        yield sides | {"NVML calls alone": Side(floor.process.pid)}


if __name__ == "__main__":
    sys.exit(main())
