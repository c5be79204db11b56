"""One node of the simulated cluster: what each of its sources but the API would say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from gpuledger.core.errors import SourceError
from gpuledger.core.model import (
    NOTHING,
    Allocation,
    AllocationsReading,
    Cgroup,
    Gpu,
    GpuUuid,
    MigUuid,
    NvmlReading,
    PodLogs,
    ProcessFacts,
    XidEvent,
)
from gpuledger.sources.simulated.devices import Board, Occupant, read_board
from gpuledger.sources.simulated.faults import CRASH_XID, HOT_SPEED, MEMORY_FAULT, is_hot, memory_faults
from gpuledger.sources.simulated.hardware import GIB, Machine, gpu_uuid, mig_uuid
from gpuledger.sources.simulated.population import Life, Population
from gpuledger.sources.simulated.tenants import Place

_MANAGER_PID, _OLLAMA_PID = 900, 901
_HOST = {
    _MANAGER_PID: ("nv-hostengine", "nvidia-dcgm.service"),
    _OLLAMA_PID: ("ollama", "ollama.service"),
}
_WELCOME = {("gpu-h100-1", 0): (_MANAGER_PID, 0.3)}
_UNWELCOME = {("gpu-l4-1", 3): (_OLLAMA_PID, 5.2)}
"""Processes of the host itself by machine and GPU, with their memory in GiB."""


class SimulatedNode:
    """A machine of the cluster; `clock` gives Unix seconds, and everything follows from it."""

    def __init__(self, machine: Machine, population: Population, clock: Callable[[], float]) -> None:
        self.machine = machine
        self._population = population
        self._clock = clock
        self._joules = [0.0] * machine.gpus
        self._metered_age = 0

    def nvml(self) -> NvmlReading:
        """What NVML would say now. Raises SourceError where there is no driver."""
        if not self.machine.driver:
            raise SourceError("libnvidia-ml.so.1 is not there: no driver is loaded on this node (simulated)")
        now = self._clock()
        self._meter_energy(now)
        lives = self._lives(now)
        return NvmlReading(
            tuple(read_board(self._board(index, lives, now), now) for index in range(self.machine.gpus))
        )

    def processes(self, pids: Collection[int], *, listed_at: float) -> Mapping[int, ProcessFacts]:  # noqa: ARG002 - as Processes in app/node/loop.py; no PID is reused here
        """What /proc would say of these PIDs."""
        now = self._clock()
        facts = {pid: self._host_process(pid, *named) for pid, named in _HOST.items()}
        facts |= {life.run.pid: _facts(life, now) for life in self._lives(now) if life.run}
        return {pid: facts.get(pid, ProcessFacts(pid, fault="exited")) for pid in pids}

    def allocations(self) -> AllocationsReading:
        """What the kubelet's PodResources would list."""
        return AllocationsReading(
            tuple(
                Allocation(life.tenant.namespace, life.name, life.tenant.container, resource, device)
                for life in self._lives(self._clock())
                if not life.over and (resource := _resource(life))
                for device in map(self._device_id, life.tenant.places)
            ),
            self.machine.offers if self.machine.driver else NOTHING,
        )

    def logs(self) -> PodLogs:
        """What the kubelet's log folders would name; the API names everything here."""
        return PodLogs()

    def xids(self, since: float, until: float) -> list[XidEvent]:
        """Driver errors after `since`, up to `until`, in Unix seconds."""
        name, population = self.machine.name, self._population
        events = [
            XidEvent(self._uuid(tenant.places[0].gpu), CRASH_XID, time)
            for tenant, time in population.crashes(since, until)
            if tenant.node == name and tenant.places
        ]
        if population.faults and name == MEMORY_FAULT.machine:
            gpu, ages = self._uuid(MEMORY_FAULT.gpu), MEMORY_FAULT.ages(*map(population.age, (since, until)))
            events += [XidEvent(gpu, MEMORY_FAULT.xid, population.time(age)) for age in ages]
        return sorted(events, key=lambda event: event.time)

    def _lives(self, now: float) -> list[Life]:
        return self._population.lives(now, self.machine.name)

    def _uuid(self, index: int) -> GpuUuid:
        return gpu_uuid(self._population.identities, self.machine.name, index)

    def _mig_uuid(self, place: Place) -> MigUuid:
        if place.part is None or place.gpu not in self.machine.mig:
            return MigUuid("")
        return mig_uuid(self._population.identities, self.machine.name, place.gpu, place.part)

    def _device_id(self, place: Place) -> str:
        """The id in the form of NVIDIA's device plugin, or of its DRA driver."""
        if self.machine.by_claim:
            return f"gpu-{place.gpu}"
        replica = f"::{place.part}" if self.machine.shares else ""
        return self._mig_uuid(place) or self._uuid(place.gpu) + replica

    def _host_process(self, pid: int, name: str, unit: str) -> ProcessFacts:
        return ProcessFacts(pid, 1, self._population.start, name, Cgroup("host", unit=unit))

    def _board(self, index: int, lives: list[Life], now: float) -> Board:
        population = self._population
        age, machine, identities = population.age(now), self.machine, population.identities
        hot = population.faults and is_hot(machine.name, index, age)
        return Board(
            model=machine.model,
            gpu=Gpu(index, self._uuid(index), minor=index),
            occupants=self._occupants(index, lives, age, speed=HOT_SPEED if hot else 1.0),
            parts={
                mig_uuid(identities, machine.name, index, number): part
                for number, part in enumerate(machine.mig.get(index, ()))
            },
            joules=self._joules[index],
            hot=hot,
            memory_faults=memory_faults(machine.name, index, age) if population.faults else 0,
        )

    def _occupants(self, index: int, lives: list[Life], age: float, *, speed: float) -> list[Occupant]:
        """Who is on a GPU; together they can't use more than all of it."""
        found = []
        for life in lives:
            tenant = life.tenant
            phase = self._population.identities.fraction("phase", tenant.name, tenant.ordinal)
            found += [
                Occupant(
                    life.run.pid,
                    int(tenant.memory_gib * GIB),
                    min(1.0, max(0.0, tenant.load(age, phase))) * speed,
                    self._mig_uuid(place),
                )
                for place in tenant.places
                if life.run and place.gpu == index
            ]
        hosts = _WELCOME | _UNWELCOME if self._population.faults else _WELCOME
        if host := hosts.get((self.machine.name, index)):
            found.append(Occupant(host[0], int(host[1] * GIB), 0.0, MigUuid("")))
        total = max(1.0, sum(each.load for each in found))
        return [Occupant(each.pid, each.memory, each.load / total, each.mig_uuid) for each in found]

    def _meter_energy(self, now: float) -> None:
        """Count the energy of each whole second of age, whenever it is asked for."""
        population = self._population
        for age in range(self._metered_age, int(population.age(now))):
            then = population.time(age)
            lives = self._lives(then)
            for index in range(self.machine.gpus):
                self._joules[index] += self._board(index, lives, then).watts * population.pace
            self._metered_age = age + 1


def _resource(life: Life) -> str:
    """The resource, or the DRA driver, that its devices are had by; empty for one that asked for none."""
    tenant = life.tenant
    return "gpu.nvidia.com" if tenant.claim else next(iter(tenant.asks), "")


def _facts(life: Life, now: float) -> ProcessFacts:
    run = life.run
    assert run is not None  # noqa: S101 - for mypy: callers ask for those that run
    return ProcessFacts(
        run.pid,
        int(run.began),
        run.began,
        life.tenant.process,
        Cgroup("pod", life.uid, run.container_id, "burstable"),
        cpu_seconds=max(0.0, now - run.began) * 0.9,
        resident_bytes=2 * GIB,
    )
