"""What the kernel lets a process do, for tests that compare it with what a manifest says."""

from __future__ import annotations

from pathlib import Path

CAPABILITY_SETS = ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb")


def status_of(pid: int) -> dict[str, str]:
    """What the kernel says of a process: /proc/PID/status by name (proc_pid_status(5))."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def pid_namespace(pid: int | str) -> str:
    """The PID namespace of a process, or of this one for `self`."""
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


def assert_confined(pid: int, user: int) -> None:
    """No capability and no way to one, system calls filtered, a root that can't be written."""
    status = status_of(pid)
    assert {user} == {int(uid) for uid in status["Uid"].split()}
    assert dict.fromkeys(CAPABILITY_SETS, f"{0:016x}").items() <= status.items()
    assert ("1", "2") == (status["NoNewPrivs"], status["Seccomp"])
    mounts = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    (options,) = [fields[5] for fields in mounts if fields[4] == "/"]
    assert "ro" in options.split(",")
