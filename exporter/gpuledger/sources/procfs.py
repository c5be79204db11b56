"""/proc of the host: whether a PID is still the process that NVML listed, who it belongs to, what it uses."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from io import FileIO
from math import inf
from typing import TYPE_CHECKING

import psutil

from gpuledger.core.errors import SourceError
from gpuledger.core.model import Cgroup, ProcessFacts
from gpuledger.parse.cgroup import parse_cgroup
from gpuledger.parse.procstat import ProcStat, parse_stat
from gpuledger.sources.pidwatch import ProcessWatch

if TYPE_CHECKING:
    from collections.abc import Collection

PROC = "/proc"

CGROUP_SECONDS = 10.0
"""How long a process's cgroup is trusted: processes are moved between cgroups, if seldom."""

RESOURCES_SECONDS = 5.0
"""How long a process's name, CPU time and memory stand: reading them costs more than all else."""

_STAT_BYTES = 4096
_ZOMBIE = "Z"

# PROC_PID_INIT_INO and PROC_CGROUP_INIT_INO in the kernel's include/linux/proc_ns.h.
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
_INITIAL_CGROUP_NAMESPACE = "cgroup:[4026531835]"


def in_initial_pid_namespace(root: str = PROC) -> bool:
    """Whether this process is in the host's PID namespace, without which NVML's PIDs mean nothing in /proc.

    `<root>/self` is this process, as the procfs mounted there numbers it: with the host's procfs at another
    root but no `hostPID` the answer is still about this process, and False. A procfs of a namespace that this
    process is not in has no `self`: False as well, as nothing vouches for the numbers.
    """
    return _is_namespace(f"{root}/self/ns/pid", _INITIAL_PID_NAMESPACE)


@dataclass(frozen=True, slots=True)
class _Known:
    """A process seen before, and when (seconds since boot) its dearer facts were read."""

    facts: ProcessFacts
    cgroup_at: float = -inf
    resources_at: float = -inf
    process: psutil.Process | None = None
    """Kept, for to make one costs as much as to ask it."""


class ProcfsSource:
    """Facts about the processes that NVML lists; in most cycles no file is read of one that is known and lives.

    Only for a process in the host's PID namespace (`in_initial_pid_namespace`), and one thread of it.
    """

    def __init__(self, root: str = PROC) -> None:
        self._root = root
        self._root_is_host = _is_namespace(f"{root}/self/ns/cgroup", _INITIAL_CGROUP_NAMESPACE)
        self._hertz = os.sysconf("SC_CLK_TCK")
        self._known: dict[int, _Known] = {}
        self._watch = ProcessWatch()

    def read(self, pids: Collection[int], *, listed_at: float) -> dict[int, ProcessFacts]:
        """Look up all the PIDs that NVML lists on the node; a PID that is not among them is forgotten.

        `listed_at` is when NVML was asked for the (first) list, in seconds since boot (CLOCK_BOOTTIME): a
        process born in that clock tick or later is not the one listed, which must have exited. A PID that
        /proc tells nonsense of is one that it refuses to tell of; raises SourceError where all are so.
        """
        facts: dict[int, ProcessFacts] = {}
        nonsense: SourceError | None = None
        alive = self._watch.alive()
        for pid in pids:
            known = self._known.get(pid)
            if known is not None and pid in alive and listed_at - known.resources_at < RESOURCES_SECONDS:
                facts[pid] = known.facts
                continue
            try:
                facts[pid] = self._read_facts(pid, listed_at)
            except SourceError as error:
                nonsense = error
                facts[pid] = ProcessFacts(pid, fault="permission")
        if nonsense is not None and all(fact.fault == "permission" for fact in facts.values()):
            raise nonsense
        self._known = {pid: self._known[pid] for pid in facts if not facts[pid].fault}
        self._watch.forget_all_but(self._known)
        return facts

    def _read_facts(self, pid: int, listed_at: float) -> ProcessFacts:
        try:
            self._known[pid] = self._read_known(pid, listed_at)
        except (FileNotFoundError, ProcessLookupError):
            return ProcessFacts(pid, fault="exited")
        except PermissionError:
            return ProcessFacts(pid, fault="permission")
        except OSError as error:
            raise SourceError(f"cannot read {self._root}/{pid}: {error.strerror}") from error
        return self._known[pid].facts

    def _read_known(self, pid: int, listed_at: float) -> _Known:
        stat = self._read_stat(pid)
        if stat.start_ticks >= int(listed_at * self._hertz):
            raise ProcessLookupError
        known = self._known.get(pid)
        if known is None or known.facts.start_ticks != stat.start_ticks:
            # Kept from first sight, so that no step of the clock moves it afterwards.
            booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
            start_time = booted_at + stat.start_ticks / self._hertz
            known = _Known(ProcessFacts(pid, stat.start_ticks, start_time))
            if self._root == PROC:  # another procfs may number processes otherwise than the kernel tells us
                self._watch.add(pid)
        refreshed = self._refresh(known, stat, listed_at)
        # Other files are of the process of the stat line only if that still holds after they were read.
        if refreshed is not known and self._read_stat(pid).start_ticks != stat.start_ticks:
            raise ProcessLookupError
        return refreshed

    def _refresh(self, known: _Known, stat: ProcStat, now: float) -> _Known:
        if stat.comm != known.facts.name:
            known = replace(known, facts=replace(known.facts, name=stat.comm))
        is_zombie = stat.state == _ZOMBIE
        # cgroup v1 moves a zombie to the root: where it came from is what still counts.
        if now - known.cgroup_at >= CGROUP_SECONDS and not (is_zombie and known.facts.cgroup):
            cgroup = self._read_cgroup(stat.pid, root_is_host=self._root_is_host and not is_zombie)
            known = replace(known, facts=replace(known.facts, cgroup=cgroup), cgroup_at=now)
        if now - known.resources_at >= RESOURCES_SECONDS:
            known = self._read_resources(known, now)
        return known

    def _read_stat(self, pid: int) -> ProcStat:
        path = f"{self._root}/{pid}/stat"
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            stat = parse_stat(os.read(descriptor, _STAT_BYTES))
        finally:
            os.close(descriptor)
        if stat is None:
            raise SourceError(f"{path} does not read as proc(5) says; is {self._root} the host's procfs?")
        return stat

    def _read_cgroup(self, pid: int, *, root_is_host: bool) -> Cgroup:
        with FileIO(f"{self._root}/{pid}/cgroup") as file:
            text = file.readall().decode(errors="surrogateescape")
        return _parsed_cgroup(text, root_is_host=root_is_host)

    def _read_resources(self, known: _Known, now: float) -> _Known:
        process, cpu_seconds, resident_bytes = known.process, None, None
        before, psutil.PROCFS_PATH = psutil.PROCFS_PATH, self._root
        try:
            process = process or psutil.Process(known.facts.pid)
            times, memory = process.cpu_times(), process.memory_info()
        except (psutil.Error, OSError):
            pass  # what can't be read is unknown
        else:
            cpu_seconds, resident_bytes = times.user + times.system, memory.rss
        finally:
            psutil.PROCFS_PATH = before
        facts = replace(known.facts, cpu_seconds=cpu_seconds, resident_bytes=resident_bytes)
        return replace(known, facts=facts, resources_at=now, process=process)


_parsed_cgroup = lru_cache(maxsize=1024)(parse_cgroup)
"""It is read to see that it is still the same."""


def _is_namespace(link: str, name: str) -> bool:
    try:
        return os.readlink(link) == name  # noqa: PTH115 - a namespace's name is no path
    except OSError:
        return False
