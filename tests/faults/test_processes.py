"""/proc lies, forgets or belongs to another namespace: no process is ever given to the wrong pod."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fakes.nvml.build import build_library
from fakes.nvml.environment import read_calls
from fakes.nvml.scenario import Fault
from fakes.tenants import bare
from fakes.world import MIB
from tools.daemon import until
from tools.fetch import binary, tool
from tools.honesty import assert_honest
from tools.node import Node

if TYPE_CHECKING:
    from fakes.world import World
    from tools.exposition import Exposition

pytestmark = pytest.mark.e2e

INITIAL_PID_NAMESPACE = "pid:[4026531836]"


def test_processes_that_vanish_while_they_are_looked_up(world: World) -> None:
    gpu = world.scenario.gpus[0]
    tenant = world.admit(bare("notebook"))
    with Node(world, "--interval=20ms") as node:
        node.wait_for("the GPUs", lambda s: len(s.series("gpu_up")) == 2)
        for _ in range(10):
            pids = [world.run(tenant, gpu, memory=10 * MIB) for _ in range(10)]
            world.publish()
            for pid in pids:
                world.processes.end(pid)  # NVML still lists it
            node.settled(1)
            gpu.processes = [process for process in gpu.processes if process.pid not in pids]
        world.publish()
        node.settled()
        scrape = assert_honest(node, world)
        assert scrape.value("attribution_processes", result="exited") == 0


def test_a_process_that_nvml_lists_and_nobody_finds_has_exited(world: World) -> None:
    gpu = world.scenario.gpus[0]
    gone = world.run(world.tenants[0], gpu, memory=100 * MIB)
    world.processes.end(gone)
    world.publish()
    with Node(world) as node:
        node.wait_for("the GPUs", lambda s: len(s.series("gpu_up")) == 2)
        scrape = node.settled()
        assert scrape.value("attribution_processes", result="exited") == 1
        assert scrape.value("unattributed_memory_used_bytes", gpu_uuid=gpu.uuid, reason="exited") == 100 * MIB


def test_a_pid_reused_after_nvml_answered_is_not_given_to_its_new_owner(world: World, tmp_path: Path) -> None:
    gpu = world.scenario.gpus[0]
    victim = world.run(world.tenants[0], gpu, memory=700 * MIB)
    heir = world.admit(bare("heir"))
    listing = "nvmlDeviceGetComputeRunningProcesses_v3"
    world.scenario.faults = [Fault(call=listing, kind="delay", number=500, gpu=gpu.uuid)]
    world.publish()
    calls = tmp_path / "calls"
    with Node(world, env={"NVML_STANDIN_CALLS": str(calls)}) as node:
        node.wait_for("the owner", lambda s: _on(s, victim) == "train-0")
        before = read_calls(calls)[listing]
        until(lambda: read_calls(calls)[listing] > before, 5, node.log)
        world.unlist(victim)
        world.publish()
        world.processes.replace(victim, heir.cgroup)  # NVML has answered, the exporter has not heard it yet

        scrape = node.wait_for("the exit", lambda s: s.value("attribution_processes", result="exited") == 1)
        assert scrape.value("unattributed_memory_used_bytes", reason="exited") == 700 * MIB
        for _ in range(20):
            assert 'pod="heir"' not in node.scrape().text
            time.sleep(0.05)
        assert_honest(node, world)


def test_a_pid_reused_by_another_gpu_process_changes_its_owner(world: World) -> None:
    gpu = world.scenario.gpus[0]
    victim = world.run(world.tenants[0], gpu, memory=700 * MIB)
    heir = world.admit(bare("heir"))
    world.publish()
    with Node(world) as node:
        node.wait_for("the owner", lambda s: _on(s, victim) == "train-0")
        world.processes.replace(victim, heir.cgroup)
        world.holders[victim] = heir.owner
        node.wait_for("the new owner", lambda s: _on(s, victim) == "heir")
        assert_honest(node, world)


def test_a_pod_that_nothing_names_is_unknown_and_its_holder_not_idle(world: World, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    with Node(world, f"--path.pod-logs={nowhere}", f"--path.container-logs={nowhere}") as node:
        node.wait_for("the allocation", lambda s: s.value("container_allocated") == 1)
        node.settled()
        scrape = assert_honest(node, world)
        assert scrape.value("attribution_processes", result="pod-unknown") == 1
        assert not scrape.series("container_processes")


GARBAGE = {
    "empty": b"",
    "no lines": b"kubepods",
    "no path": b"0::\n",
    "binary": bytes(range(256)) * 16,
    "too long": b"0::/" + b"a" * 10_000_000,
    "a pod without a UID": b"0::/kubepods/burstable/pod/" + b"f" * 64 + b"\n",
    "a UID cut off": b"0::/kubepods/burstable/pod0123-4567\n",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in GARBAGE.items()])
def test_garbage_in_a_cgroup_file_names_nobody(world: World, tmp_path: Path, text: bytes) -> None:
    procfs = tmp_path / "proc"
    pod_process, host_process = world.holders
    _copy_process(procfs, pod_process, Path(f"/proc/{pod_process}/cgroup").read_bytes())
    _copy_process(procfs, host_process, text)
    with Node(world, f"--path.procfs={procfs}") as node:
        node.wait_for("the pod's process", lambda s: s.value("attribution_processes", result="owned") == 1)
        scrape = assert_honest(node, world)
        assert not scrape.series("container_memory_used_bytes", gpu_uuid=world.scenario.gpus[1].uuid)


def test_a_procfs_that_makes_no_sense_is_a_failed_source_and_nobody_exited(
    world: World, tmp_path: Path
) -> None:
    procfs = tmp_path / "proc"
    for pid in world.holders:
        _copy_process(procfs, pid, Path(f"/proc/{pid}/cgroup").read_bytes())
        (procfs / str(pid) / "stat").write_text("garbage")
    with Node(world, f"--path.procfs={procfs}") as node:
        node.wait_for("the failure", lambda s: s.value("attribution_processes", result="permission") == 2)
        node.settled()
        scrape = assert_honest(node, world)
        assert scrape.value("source_up", source="procfs") == 0
        assert scrape.value("attribution_processes", result="exited") == 0


@pytest.mark.parametrize(
    "unshare", [pytest.param(("--mount-proc",), id="its own /proc"), pytest.param((), id="the host's /proc")]
)
def test_outside_the_hosts_pid_namespace_no_process_is_looked_up(
    world: World, tmp_path: Path, unshare: tuple[str, ...]
) -> None:
    assert str(Path("/proc/self/ns/pid").readlink()) == INITIAL_PID_NAMESPACE
    calls = tmp_path / "calls"
    strace = (
        str(binary("strace-6", "strace")),
        "-f",
        "--seccomp-bpf",
        "-e",
        "trace=%file",
        "-o",
        str(calls),
        "-D",
    )
    namespace = ("unshare", "--pid", "--fork", "--kill-child", *unshare)
    libraries = [build_library().parent, *tool("strace-6").glob("usr/lib/*")]
    environment = {"LD_LIBRARY_PATH": ":".join(map(str, libraries))}
    with Node(world, prefix=(*strace, *namespace), env=environment) as node:
        node.wait_for("the GPUs", lambda s: len(s.series("gpu_up")) == 2)
        node.settled()
        scrape = assert_honest(node, world)
        assert scrape.value("source_up", source="procfs") == 0
        assert scrape.value("attribution_processes", result="pid-namespace") == 2
        for gpu, memory in zip(world.scenario.gpus, (4_000 * MIB, 2_000 * MIB), strict=True):
            labels = {"gpu_uuid": gpu.uuid, "reason": "pid-namespace"}
            assert memory == scrape.value("unattributed_memory_used_bytes", **labels)
        assert "hostPID: true" in node.log()
    looked_at = calls.read_text()
    assert str(world.scenario_file) in looked_at  # the trace is of the exporter
    assert [pid for pid in world.holders if re.search(rf'"/proc/{pid}\b', looked_at)] == []


def _copy_process(procfs: Path, pid: int, cgroup: bytes) -> None:
    """Put a process into a folder that looks like /proc of the initial namespaces."""
    namespaces = procfs / "self" / "ns"
    namespaces.mkdir(parents=True, exist_ok=True)
    for name in ("pid", "cgroup"):
        if not (namespaces / name).is_symlink():
            (namespaces / name).symlink_to(Path(f"/proc/self/ns/{name}").readlink())
    folder = procfs / str(pid)
    folder.mkdir()
    for name in ("stat", "statm", "status"):
        (folder / name).write_bytes(Path(f"/proc/{pid}/{name}").read_bytes())
    (folder / "cgroup").write_bytes(cgroup)


def _on(scrape: Exposition, pid: int) -> str | None:
    """The pod that the PID is booked on."""
    rows = scrape.series("process_memory_used_bytes", pid=str(pid))
    return rows[0].labels["pod"] if rows else None
