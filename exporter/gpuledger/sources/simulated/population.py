"""The pods that there are at a moment: which, since when, and in what state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuledger.core.model import ContainerId, PodUid
from gpuledger.sources.simulated.cast import TENANTS
from gpuledger.sources.simulated.hardware import MACHINES, Machine
from gpuledger.sources.simulated.identity import Identities
from gpuledger.sources.simulated.tenants import Tenant

LINGER_SECONDS = 8.0
"""How long a Job's pod is seen after it has ended."""
PAST_CRASHES = 11
"""Restarts that a crash-looping pod has behind it at the start."""
_PIDS_EACH = 40


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a pod's only container; `ended` is None while it goes on. Times are Unix seconds."""

    container_id: ContainerId
    pid: int
    began: float
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Life:
    """A pod. `runs` are its container's last two runs at most, the newest last; none while it waits.

    `controller` is what created it: the kind, and the name.
    """

    tenant: Tenant
    name: str
    uid: PodUid
    born: float
    controller: tuple[str, str]
    runs: tuple[Run, ...] = ()
    restarts: int = 0
    over: bool = False

    @property
    def run(self) -> Run | None:
        """The run that goes on."""
        return self.runs[-1] if self.runs and self.runs[-1].ended is None else None


@dataclass(frozen=True, slots=True)
class Population:
    """Everybody, by the time alone; `start` is when the simulation began, in Unix seconds.

    Its stories are told in ages: seconds since then where a day takes DAY_SECONDS. Such a second takes `pace`
    of the clock's.
    """

    identities: Identities
    start: float
    pace: float = 1.0
    faults: bool = True

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines; without faults each has a driver."""
        return tuple(replace(machine, driver=machine.driver or not self.faults) for machine in MACHINES)

    @property
    def tenants(self) -> list[tuple[int, Tenant]]:
        """Who is there, each with a number that is always the same."""
        return [pair for pair in enumerate(TENANTS) if self.faults or not pair[1].trouble]

    def age(self, time: float) -> float:
        """The age at a Unix time; not below 0, wherever the clock steps."""
        return max(0.0, time - self.start) / self.pace

    def time(self, age: float) -> float:
        """The Unix time at an age."""
        return self.start + age * self.pace

    def lives(self, now: float, node: str | None = None) -> list[Life]:
        """The pods that there are, or those of a node."""
        lives = (
            self._life(number, tenant, now) for number, tenant in self.tenants if node in (None, tenant.node)
        )
        return [life for life in lives if life is not None]

    def crashes(self, since: float, until: float) -> Iterator[tuple[Tenant, float]]:
        """When containers fail, after `since` and up to `until`."""
        for _, tenant in self.tenants:
            rhythm = tenant.rhythm
            if rhythm is not None and rhythm.crashes:
                first = int((self.age(since) - rhythm.life) // rhythm.period) + 1
                last = int((self.age(until) - rhythm.life) // rhythm.period)
                for turn in range(max(first, 0), last + 1):
                    yield tenant, self.time(turn * rhythm.period + rhythm.life)

    def _life(self, number: int, tenant: Tenant, now: float) -> Life | None:
        rhythm = tenant.rhythm
        if rhythm is None:
            return self._lasting(number, tenant)
        age = self.age(now)
        turn = int(age // rhythm.period)
        began = self.time(turn * rhythm.period)
        ended = self.time(turn * rhythm.period + rhythm.life) if age % rhythm.period >= rhythm.life else None
        if rhythm.crashes:
            return self._crashing(number, tenant, turn, began, ended)
        if ended is not None and (tenant.kind == "Pod" or now - ended >= LINGER_SECONDS):
            return None
        name, controller = self._named(tenant, turn, began)
        runs = (self._run(number, tenant, name, turn, began, ended),)
        return Life(tenant, name, self._uid(tenant, name), began, controller, runs, over=ended is not None)

    def _lasting(self, number: int, tenant: Tenant) -> Life:
        """A pod that was there before the simulation."""
        name, controller = self._named(tenant, 0, self.start)
        hours = (
            0.2 if not tenant.node else 2 + 150 * self.identities.fraction("age", tenant.name, tenant.ordinal)
        )
        born = self.start - 3600 * hours
        runs = (self._run(number, tenant, name, 0, born, None),) if tenant.node else ()
        return Life(tenant, name, self._uid(tenant, name), born, controller, runs)

    def _crashing(self, number: int, tenant: Tenant, turn: int, began: float, ended: float | None) -> Life:
        assert tenant.rhythm is not None  # noqa: S101 - for mypy: only those with a rhythm crash
        name, controller = self._named(tenant, 0, self.start)
        period, life = tenant.rhythm.period * self.pace, tenant.rhythm.life * self.pace
        before = began - period
        runs = (
            self._run(number, tenant, name, turn - 1, before, before + life),
            self._run(number, tenant, name, turn, began, ended),
        )
        born = self.start - PAST_CRASHES * period
        return Life(tenant, name, self._uid(tenant, name), born, controller, runs, restarts=PAST_CRASHES + turn)

    def _run(self, number: int, tenant: Tenant, pod: str, turn: int, began: float, ended: float | None) -> Run:
        container = self.identities.container_id(tenant.namespace, pod, tenant.container, turn)
        pid = 1000 + _PIDS_EACH * number + turn % _PIDS_EACH
        return Run(ContainerId(container), pid, began, ended)

    def _uid(self, tenant: Tenant, pod: str) -> PodUid:
        return PodUid(self.identities.uuid("pod", tenant.namespace, pod))

    def _named(self, tenant: Tenant, turn: int, began: float) -> tuple[str, tuple[str, str]]:
        """The pod's name, and the kind and name of what created it."""
        name, kind = tenant.name, tenant.kind
        once = tenant.rhythm is None or tenant.rhythm.crashes
        suffix = self.identities.suffix(tenant.namespace, name, tenant.ordinal, turn)
        if kind == "Deployment":
            owner = f"{name}-{self.identities.template_hash(tenant.namespace, name)}"
            return f"{owner}-{suffix}", ("ReplicaSet", owner)
        if kind == "CronJob":
            job = f"{name}-{int(began // 60)}"
            return f"{job}-{suffix}", ("Job", job)
        if kind == "Job":
            job = name if once else f"{name}-{turn}"
            return f"{job}-{suffix}", (kind, job)
        if kind == "Pod":
            return name if once else f"{name}-{turn}", ("", "")
        numbered = f"{name}-{tenant.role}-{tenant.ordinal}" if tenant.role else f"{name}-{tenant.ordinal}"
        return (f"{name}-{suffix}" if kind == "DaemonSet" else numbered), (kind, name)
