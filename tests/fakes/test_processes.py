"""The stand-ins for GPU programs look to /proc as the real ones do."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from fakes import cgroups
from fakes.processes import Processes

pytestmark = pytest.mark.e2e

UID = str(uuid.uuid4())
CID = cgroups.new_container_id()
UID_ = UID.replace("-", "_")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(
            cgroups.containerd_systemd(UID, CID),
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice/cri-containerd-{CID}.scope",
            id="containerd, systemd",
        ),
        pytest.param(
            cgroups.crio_systemd(UID, CID, "guaranteed"),
            f"/kubepods.slice/kubepods-pod{UID_}.slice/crio-{CID}.scope/container",
            id="CRI-O, systemd",
        ),
        pytest.param(
            cgroups.crio_cgroupfs(UID, CID, "besteffort"),
            f"/kubelet/kubepods/besteffort/pod{UID}/crio-{CID}",
            id="CRI-O, cgroupfs",
        ),
        pytest.param(cgroups.docker_cgroupfs(CID), f"/docker/{CID}", id="Docker"),
    ],
)
def test_runs_in_the_cgroup_of_every_hierarchy(tmp_path: Path, path: str, expected: str) -> None:
    mounts = list(cgroups.read_mounts())
    with Processes(tmp_path) as processes:
        pid = processes.start(path)

        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        assert len(mounts) == sum(line.endswith(f":{expected}") for line in lines)
        assert Path(f"/proc/{pid}/comm").read_text() == "trainer\n"

    assert not Path(f"/proc/{pid}").exists()
    assert not any((mount / expected.lstrip("/")).exists() for mount in mounts)


def test_a_pid_comes_back_as_another_process(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        pid = processes.start(cgroups.containerd_systemd(UID, CID))
        before = _start_ticks(pid)
        processes.replace(pid, cgroups.systemd_service("backup"))

        assert Path(f"/proc/{pid}/comm").read_text() == "stranger\n"
        assert before < _start_ticks(pid)


def _start_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_a_cgroup_in_use_by_others_is_left_to_them(tmp_path: Path) -> None:
    ours, theirs = (cgroups.containerd_systemd(str(uuid.uuid4()), CID) for _ in range(2))
    with Processes(tmp_path) as others:
        with Processes(tmp_path) as processes:
            processes.start(ours)
            stranger = others.start(theirs)
        assert theirs in Path(f"/proc/{stranger}/cgroup").read_text()
