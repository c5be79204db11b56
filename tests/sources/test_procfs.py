"""A PID is looked up in /proc so that a wrong process is never taken for the one that NVML listed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fakes import cgroups
from fakes.processes import Processes
from gpuledger.core.errors import SourceError
from gpuledger.core.model import Cgroup, ContainerId, PodUid, ProcessFacts
from gpuledger.parse.cgroup import parse_cgroup
from gpuledger.sources.procfs import CGROUP_SECONDS, RESOURCES_SECONDS, ProcfsSource, in_initial_pid_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

HERTZ = os.sysconf("SC_CLK_TCK")
UID = PodUid("0f5c9a9e-2d3b-4c1f-8a77-6a1d2e3f4b5c")
CID = ContainerId("c2a243374a7f39554c08a717fcd27a8be06979128bc0221d864bdebc7108483e")
IN_POD = Cgroup("pod", UID, CID, "burstable")
POD_LINE = f"0::/kubepods/burstable/pod{UID}/{CID}\n"
PID = 4242


def seconds_since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Proc:
    """A folder with the files of /proc that a test needs, for what a real process can't be made to do."""

    root: Path

    def write(
        self, *, start_ticks: int = 500, name: str = "trainer", state: str = "S", cgroup: str = POD_LINE
    ) -> None:
        folder = self.root / str(PID)
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(f"{PID} ({name}) {state}{' 1' * 18} {start_ticks}{' 7' * 30}\n")
        (folder / "cgroup").write_text(cgroup)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    while "(sleep) S" not in Path(f"/proc/{process.pid}/stat").read_text():
        time.sleep(0.01)
    yield process
    process.kill()
    process.wait()


# ---- one process ----


def test_tells_a_real_process(sleeper: subprocess.Popen[bytes]) -> None:
    facts = ProcfsSource().read([sleeper.pid], listed_at=seconds_since_boot() + 1)[sleeper.pid]
    folder = Path(f"/proc/{sleeper.pid}")
    assert (facts.fault, facts.name) == ("", "sleep")
    assert facts.start_time is not None
    assert abs(time.time() - facts.start_time) < 5
    assert parse_cgroup((folder / "cgroup").read_text()) == facts.cgroup
    assert int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") == facts.resident_bytes
    assert facts.cpu_seconds is not None
    assert facts.cpu_seconds < 1


def test_a_pid_that_nobody_has_exited(sleeper: subprocess.Popen[bytes]) -> None:
    source = ProcfsSource()
    source.read([sleeper.pid], listed_at=seconds_since_boot() + 1)
    sleeper.kill()
    sleeper.wait()
    beyond = int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
    facts = source.read([sleeper.pid, beyond], listed_at=seconds_since_boot() + 1)
    assert {pid: ProcessFacts(pid, fault="exited") for pid in (sleeper.pid, beyond)} == facts


def test_a_zombie_still_holds_what_it_held(sleeper: subprocess.Popen[bytes]) -> None:
    source = ProcfsSource()
    before = source.read([sleeper.pid], listed_at=seconds_since_boot() + 1)[sleeper.pid]
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    after = source.read([sleeper.pid], listed_at=seconds_since_boot() + 2 * CGROUP_SECONDS)[sleeper.pid]
    assert (before.name, before.start_time, before.cgroup, "") == (
        after.name,
        after.start_time,
        after.cgroup,
        after.fault,
    )


def test_processes_that_vanish_while_they_are_read_have_exited() -> None:
    source = ProcfsSource()
    processes = [subprocess.Popen(["sleep", str(0.01 + 0.005 * i)]) for i in range(20)]
    pids = [process.pid for process in processes]
    reaper = threading.Thread(target=lambda: [process.wait() for process in processes])
    reaper.start()
    while reaper.is_alive():
        facts = source.read(pids, listed_at=seconds_since_boot() + 1)
        assert {pid: facts[pid].fault for pid in pids}.keys() == set(pids)
        assert {fact.fault for fact in facts.values()} <= {"", "exited"}
    assert {"exited"} == {fact.fault for fact in source.read(pids, listed_at=seconds_since_boot() + 1).values()}


# ---- is it still the same process? ----


@pytest.mark.parametrize(
    ("listed_at", "fault"),
    [
        pytest.param(4.0, "exited", id="born a second after the list"),
        pytest.param(500 / HERTZ, "exited", id="born in the tick of the list"),
        pytest.param(501 / HERTZ, "", id="born in the tick before"),
    ],
)
def test_a_process_younger_than_the_list_is_not_the_one_listed(
    proc: Proc, listed_at: float, fault: str
) -> None:
    proc.write(start_ticks=500)
    assert fault == ProcfsSource(str(proc.root)).read([PID], listed_at=listed_at)[PID].fault


def test_a_pid_that_changes_hands_between_two_files_has_exited(proc: Proc) -> None:
    proc.write(start_ticks=500)
    cgroup = proc.root / str(PID) / "cgroup"
    cgroup.unlink()
    os.mkfifo(cgroup)

    def reuse_once_the_cgroup_is_opened() -> None:
        with cgroup.open("w") as pipe:
            stat = proc.root / str(PID) / "stat"
            stat.write_text(stat.read_text().replace(" 500 ", " 501 "))
            pipe.write(POD_LINE)

    thread = threading.Thread(target=reuse_once_the_cgroup_is_opened)
    thread.start()
    facts = ProcfsSource(str(proc.root)).read([PID], listed_at=60.0)
    thread.join()
    assert {PID: ProcessFacts(PID, fault="exited")} == facts


def test_a_pid_in_new_hands_is_looked_up_anew(proc: Proc) -> None:
    source = ProcfsSource(str(proc.root))
    proc.write(start_ticks=500)
    assert source.read([PID], listed_at=60.0)[PID].cgroup == IN_POD
    proc.write(start_ticks=6050, name="backup", cgroup="0::/system.slice/backup.service\n")
    assert source.read([PID], listed_at=60.5)[PID].fault == "exited"
    facts = source.read([PID], listed_at=61.0)[PID]
    assert ("backup", 6050, Cgroup("host", unit="backup.service")) == (
        facts.name,
        facts.start_ticks,
        facts.cgroup,
    )


@pytest.mark.e2e
def test_a_pid_really_reused_since_the_list_has_exited(tmp_path: Path) -> None:
    source = ProcfsSource()
    with Processes(tmp_path) as processes:
        pid = processes.start(cgroups.containerd_systemd(UID, CID))
        time.sleep(2 / HERTZ)
        listed_at = seconds_since_boot()
        assert facts_of(source, pid, listed_at) == ("trainer", IN_POD)
        processes.replace(pid, cgroups.systemd_service("backup"))

        assert ProcessFacts(pid, fault="exited") == source.read([pid], listed_at=listed_at)[pid]
        assert ProcessFacts(pid, fault="exited") == ProcfsSource().read([pid], listed_at=listed_at)[pid]
        later = seconds_since_boot() + 1
        assert ("stranger", Cgroup("host", unit="backup.service")) == facts_of(source, pid, later)


def facts_of(source: ProcfsSource, pid: int, listed_at: float) -> tuple[str, Cgroup | None]:
    facts = source.read([pid], listed_at=listed_at)[pid]
    return facts.name, facts.cgroup


# ---- what is read how often ----


def test_a_known_process_is_the_same_object_until_something_changes(proc: Proc) -> None:
    source = ProcfsSource(str(proc.root))
    proc.write()
    first = source.read([PID], listed_at=60.0)[PID]
    assert first is source.read([PID], listed_at=61.0)[PID]
    proc.write(name="pt_main_thread")
    assert source.read([PID], listed_at=62.0)[PID].name == "pt_main_thread"


def test_a_move_to_another_cgroup_is_noticed_within_ten_seconds(proc: Proc) -> None:
    source = ProcfsSource(str(proc.root))
    proc.write(cgroup="0::/system.slice/containerd.service\n")
    source.read([PID], listed_at=60.0)
    proc.write()
    assert source.read([PID], listed_at=60.0 + CGROUP_SECONDS - 1)[PID].cgroup != IN_POD
    assert source.read([PID], listed_at=60.0 + CGROUP_SECONDS)[PID].cgroup == IN_POD


def test_the_root_that_cgroup_v1_moves_a_zombie_to_is_not_its_cgroup(proc: Proc) -> None:
    source = ProcfsSource(str(proc.root))
    proc.write()
    source.read([PID], listed_at=60.0)
    proc.write(state="Z", cgroup="4:memory:/\n1:name=systemd:/\n")
    assert source.read([PID], listed_at=80.0)[PID].cgroup == IN_POD
    assert Cgroup("hidden") == ProcfsSource(str(proc.root)).read([PID], listed_at=80.0)[PID].cgroup


def test_a_pid_not_asked_for_is_forgotten(proc: Proc) -> None:
    source = ProcfsSource(str(proc.root))
    proc.write(cgroup="0::/system.slice/containerd.service\n")
    source.read([PID], listed_at=60.0)
    assert source.read([], listed_at=61.0) == {}
    proc.write()
    assert source.read([PID], listed_at=62.0)[PID].cgroup == IN_POD


def test_cpu_time_is_refreshed_every_few_seconds_and_the_start_stays() -> None:
    source = ProcfsSource()
    listed_at = seconds_since_boot() + 1
    first = source.read([os.getpid()], listed_at=listed_at)[os.getpid()]
    assert first.cpu_seconds is not None
    until = time.process_time() + 3 / HERTZ
    while time.process_time() < until:
        pass
    assert first is source.read([os.getpid()], listed_at=listed_at + RESOURCES_SECONDS - 0.1)[os.getpid()]
    later = source.read([os.getpid()], listed_at=listed_at + RESOURCES_SECONDS)[os.getpid()]
    assert later.cpu_seconds is not None
    assert first.cpu_seconds < later.cpu_seconds
    assert first.start_time == later.start_time


def test_what_psutil_cannot_tell_is_unknown(proc: Proc) -> None:
    proc.write()
    facts = ProcfsSource(str(proc.root)).read([PID], listed_at=60.0)[PID]
    assert (facts.fault, facts.cpu_seconds, facts.resident_bytes) == ("", None, None)


# ---- faults ----


@pytest.mark.e2e
def test_a_refused_process_is_not_called_exited(proc: Proc) -> None:
    proc.write()
    (proc.root / str(PID)).chmod(0o700)
    with nobody():
        facts = ProcfsSource(str(proc.root)).read([PID], listed_at=60.0)
    assert {PID: ProcessFacts(PID, fault="permission")} == facts


@contextmanager
def nobody() -> Iterator[None]:
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_is_no_procfs_is_a_failure_not_an_exit(proc: Proc) -> None:
    proc.write()
    (proc.root / str(PID) / "stat").write_text("hello\n")
    with pytest.raises(
        SourceError, match=r"4242/stat does not read as proc\(5\) says; is .* the host's procfs\?"
    ):
        ProcfsSource(str(proc.root)).read([PID], listed_at=60.0)


def test_an_error_that_says_nothing_of_the_process_is_a_failure(proc: Proc) -> None:
    (proc.root / str(PID) / "stat").mkdir(parents=True)
    with pytest.raises(SourceError, match=r"cannot read .*/4242: Is a directory"):
        ProcfsSource(str(proc.root)).read([PID], listed_at=60.0)


# ---- namespaces ----


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        pytest.param("pid:[4026531836]", True, id="the initial one"),
        pytest.param("pid:[4026532201]", False, id="a container's"),
        pytest.param(None, False, id="none that this process is in"),
    ],
)
def test_only_the_initial_pid_namespace_vouches_for_pids(
    tmp_path: Path,
    link: str | None,
    expected: bool,  # noqa: FBT001 - a table's column
) -> None:
    namespaces = tmp_path / "self" / "ns"
    namespaces.mkdir(parents=True)
    if link:
        (namespaces / "pid").symlink_to(link)
    assert expected == in_initial_pid_namespace(str(tmp_path))


def test_the_initial_pid_namespace_is_where_the_kernels_threads_are() -> None:
    kthreadd = Path("/proc/2/comm")
    assert (kthreadd.exists() and kthreadd.read_text() == "kthreadd\n") == in_initial_pid_namespace()


SAY_NAMESPACE = "from gpuledger.sources.procfs import *; print(in_initial_pid_namespace())"


@pytest.mark.e2e
@pytest.mark.parametrize(
    "options",
    [pytest.param(["--mount-proc"], id="with its own /proc"), pytest.param([], id="with the host's /proc")],
)
def test_a_container_without_host_pid_is_told_from_the_host(options: list[str]) -> None:
    command = ["unshare", "--pid", "--fork", *options, sys.executable, "-c", SAY_NAMESPACE]
    assert subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout == "False\n"


READ_CGROUPS = """
import dataclasses, json, pathlib, sys, time
from gpuledger.sources.procfs import ProcfsSource
listed_at = time.clock_gettime(time.CLOCK_BOOTTIME) + 1
facts = ProcfsSource().read([int(pid) for pid in sys.argv[1:]], listed_at=listed_at)
texts = [pathlib.Path(f"/proc/{pid}/cgroup").read_text() for pid in facts]
print(json.dumps([[dataclasses.asdict(fact.cgroup) for fact in facts.values()], texts]))
"""


@pytest.mark.e2e
def test_a_real_private_cgroup_namespace_still_tells_other_pods(tmp_path: Path) -> None:
    own_uid = PodUid(str(uuid.uuid4()))
    other, sibling = ContainerId(cgroups.new_container_id()), ContainerId(cgroups.new_container_id())
    own_path = cgroups.containerd_cgroupfs(own_uid, CID)
    expected = {
        own_path: Cgroup("hidden"),
        cgroups.containerd_cgroupfs(own_uid, sibling): Cgroup("pod", None, sibling),
        cgroups.containerd_cgroupfs(UID, other): Cgroup("pod", UID, other),
        cgroups.containerd_systemd(UID, other): Cgroup("pod", UID, other, "burstable"),
        cgroups.crio_systemd(UID, other, "guaranteed"): Cgroup("pod", UID, other, "guaranteed"),
        cgroups.docker_cgroupfs(other): Cgroup("container", None, other),
        cgroups.systemd_service("ollama"): Cgroup("host", unit="ollama.service"),
    }
    with Processes(tmp_path) as processes, cgroups.Cgroups() as made:
        pids = [str(processes.start(path)) for path in expected]
        enter = f'read _; exec unshare --cgroup {sys.executable} -c "$0" "$@"'
        exporter = subprocess.Popen(
            ["sh", "-c", enter, READ_CGROUPS, *pids], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        made.put(exporter.pid, own_path)
        printed, _ = exporter.communicate("go\n", timeout=30)
    found, texts = json.loads(printed)
    assert list(expected.values()) == [Cgroup(**cgroup) for cgroup in found]
    assert {"/"} == {line.split(":")[2] for line in texts[0].splitlines()}
    assert f":/../{sibling}\n" in texts[1]
    assert f":/../../pod{UID}/{other}\n" in texts[2]


# ---- what it costs ----


COUNT_OPENS = """
import json, sys
from gpuledger.sources.procfs import ProcfsSource

opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
source, pids, counts = ProcfsSource(), [int(pid) for pid in sys.argv[1:]], []
for second in range(20):
    opened.clear()
    source.read(pids, listed_at=1e9 + second)
    counts.append(sum(path.startswith("/proc/") for path in opened))
print(json.dumps(counts))
"""
"""Reads the processes every second for twenty seconds, by the times it is told, and counts what was opened."""


def test_a_process_that_lives_on_is_read_of_every_five_seconds(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        pids = [str(processes.start(cgroups.systemd_service("bench"))) for _ in range(3)]
        command = [sys.executable, "-c", COUNT_OPENS, *pids]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    counts = json.loads(ran.stdout)
    stat_twice, resources, cgroup = 2, 2, 1

    assert [0, 0, 0, 0] == counts[1:5]
    assert [3 * (stat_twice + resources + (cgroup if at % 10 == 0 else 0)) for at in (5, 10, 15)] == counts[
        5::5
    ]
