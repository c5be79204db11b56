"""The accounts: what every GPU, container and reason has used since the exporter started, and uses now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuledger.core.meter import GpuMeter, Metered, Moment
from gpuledger.core.model import (
    NOTHING,
    Allocation,
    Gpu,
    GpuReading,
    GpuUuid,
    MigUuid,
    Owner,
    Unattributed,
    XidEvent,
)
from gpuledger.core.snapshot import (
    AttributedProcess,
    ContainerUse,
    GpuState,
    Holder,
    UnattributedUse,
    XidAccount,
)

XID_OWNERS_SECONDS = 3600.0
"""How long the owners present at an XID are remembered."""

UNIT_LIMIT = 100
"""How many systemd units of the host are told apart: users of a node may start units of any name."""

OTHER_UNITS = "other"

COULD_BE_ANYBODY = ("pod-unknown", "pid-namespace", "permission")
"""Reasons that leave open whose a process is."""

_Key = tuple[str, ...]


@dataclass(slots=True)
class _Current:
    """What a holder uses in this cycle; a sum with an unknown part is unknown."""

    processes: int = 0
    memory_used: int | None = 0
    sm_ratio: float | None = 0.0
    allocated: dict[str, int] = field(default_factory=dict)
    listed: bool = False
    """Whether NVML told the GPU's processes: if not, what is used is unknown, and not nothing."""

    def add(self, process: AttributedProcess) -> None:
        self.processes += 1
        memory, ratio = process.use.memory_used, process.sm_ratio
        self.memory_used = None if memory is None or self.memory_used is None else self.memory_used + memory
        self.sm_ratio = None if ratio is None or self.sm_ratio is None else min(self.sm_ratio + ratio, 1.0)


@dataclass(slots=True)
class _Account:
    gpu: Gpu
    mig_uuid: MigUuid
    holder: Holder
    seen_at: float
    """Steady time of the last cycle in which it used or held anything."""
    sm_seconds: float | None = None
    energy_joules: float | None = None
    allocated_seconds: dict[str, float] = field(default_factory=dict)
    allocated_at: float | None = None
    """Steady time of the last cycle in which it held an allocation, while it does."""
    current: _Current | None = None


@dataclass(slots=True)
class _GpuAccount:
    meter: GpuMeter = field(default_factory=GpuMeter)
    busy_seconds: float | None = None
    throttled_seconds: dict[str, float] = field(default_factory=dict)
    holders: dict[int, tuple[MigUuid, Holder]] = field(default_factory=dict)
    """Whose each PID was when the processes were last listed."""


def _key(gpu: Gpu, mig_uuid: MigUuid, holder: Holder) -> _Key:
    """What makes an account: the names in its series' labels.

    Not the pod's UID, so that the series of a pod recreated under its old name go on, as counters do.
    """
    if isinstance(holder, Unattributed):
        return (gpu.uuid, mig_uuid, holder.reason, holder.unit)
    return (gpu.uuid, mig_uuid, "", holder.namespace, holder.pod, holder.container)


class Ledger:
    """The accounts of one node. A cycle: `open`, `book` what was read, `close`, read the accounts out."""

    def __init__(self, *, retention: float = 120.0) -> None:
        self._retention = retention
        self._gpus: dict[GpuUuid, _GpuAccount] = {}
        self._accounts: dict[_Key, _Account] = {}
        self._xids: dict[tuple[GpuUuid, int], XidAccount] = {}
        self._units: set[str] = set()
        """Those told apart: the first that use a GPU, while any of their accounts stands."""

    def open(self) -> None:
        """Begin a cycle: nobody uses anything yet."""
        for account in self._accounts.values():
            account.current = None

    def close(self, now: Moment) -> None:
        """End a cycle: drop what ended longer than the retention ago."""
        for key in [k for k, a in self._accounts.items() if now.steady - a.seen_at > self._retention]:
            del self._accounts[key]
        self._units = {a.holder.unit for a in self._accounts.values() if isinstance(a.holder, Unattributed)}

    def _use(self, gpu: Gpu, mig_uuid: MigUuid, holder: Holder, now: Moment) -> tuple[_Account, _Current]:
        """The account of `holder`, opened at need, with its use in this cycle."""
        key = _key(gpu, mig_uuid, holder)
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = _Account(gpu, mig_uuid, holder, now.steady)
        account.gpu, account.holder, account.seen_at = gpu, holder, now.steady
        if account.current is None:
            account.current = _Current()
        return account, account.current

    def book_allocations(self, allocations: Iterable[tuple[Gpu, Allocation, Owner]], now: Moment) -> None:
        """Book every device that the node's kubelet has allocated, and how long it has been held."""
        for gpu, allocation, owner in allocations:
            mig_uuid = allocation.mig_uuid or MigUuid("")
            _, current = self._use(gpu, mig_uuid, self._known(gpu, mig_uuid, owner), now)
            current.allocated[allocation.resource] = current.allocated.get(allocation.resource, 0) + 1
        for account in self._accounts.values():
            if account.current is None or not account.current.allocated:
                account.allocated_at = None
                continue
            held = 0.0 if account.allocated_at is None else now.steady - account.allocated_at
            for resource, count in account.current.allocated.items():
                seconds = account.allocated_seconds.get(resource, 0.0)
                account.allocated_seconds[resource] = seconds + held * count
            account.allocated_at = now.steady

    def book(
        self, reading: GpuReading, processes: Sequence[AttributedProcess], now: Moment
    ) -> tuple[AttributedProcess, ...]:
        """Book one GPU's reading; returns its processes with their current SM use filled in."""
        account = self._gpus.setdefault(reading.gpu.uuid, _GpuAccount())
        metered = account.meter.read(reading, now)
        if metered.busy_seconds is not None:
            account.busy_seconds = (account.busy_seconds or 0.0) + metered.busy_seconds
        for reason, seconds in metered.throttled_seconds.items():
            account.throttled_seconds[reason] = account.throttled_seconds.get(reason, 0.0) + seconds
        ratios = metered.sm_ratio
        measured = tuple(
            AttributedProcess(
                p.gpu,
                p.use,
                self._known(p.gpu, p.use.mig_uuid, self._bounded(p.holder)),
                p.facts,
                None if ratios is None else ratios.get(p.use.pid, 0.0),
            )
            for p in processes
        )
        self._book_processes(reading, measured, metered, now)
        if reading.processes is not None:
            account.holders = {p.use.pid: (p.use.mig_uuid, p.holder) for p in measured}
            unnamed = any(
                isinstance(p.holder, Unattributed) and p.holder.reason in COULD_BE_ANYBODY for p in measured
            )
            self._settle(reading.gpu, metered, unnamed=unnamed)
        return measured

    def _known(self, gpu: Gpu, mig_uuid: MigUuid, holder: Holder) -> Holder:
        """`holder` as it was when its workload was known: a pod may leave the API before its processes end."""
        if not isinstance(holder, Owner) or (holder.workload.name and not holder.workload.inferred):
            return holder
        account = self._accounts.get(_key(gpu, mig_uuid, holder))
        known = account.holder if account is not None else None
        same = isinstance(known, Owner) and known.workload.name and holder.pod_uid in (None, known.pod_uid)
        return known if known is not None and same else holder

    def _bounded(self, holder: Holder) -> Holder:
        """`holder`, its unit without a name of its own when there are too many."""
        if isinstance(holder, Owner) or not holder.unit:
            return holder
        if len(self._units) < UNIT_LIMIT:
            self._units.add(holder.unit)
        return holder if holder.unit in self._units else replace(holder, unit=OTHER_UNITS)

    def _book_processes(
        self, reading: GpuReading, processes: Iterable[AttributedProcess], metered: Metered, now: Moment
    ) -> None:
        gpu = reading.gpu
        spent: dict[_Key, float] = {}
        unbooked = dict(metered.sm_seconds or NOTHING)
        for process in processes:
            account, current = self._use(gpu, process.use.mig_uuid, process.holder, now)
            current.add(process)
            if metered.sm_seconds is not None:
                seconds = unbooked.pop(process.use.pid, 0.0)
                account.sm_seconds = (account.sm_seconds or 0.0) + seconds
                key = _key(gpu, process.use.mig_uuid, process.holder)
                spent[key] = spent.get(key, 0.0) + seconds
        for pid, seconds in unbooked.items():
            key = self._unlisted(reading, pid, now)
            account = self._accounts[key]
            account.sm_seconds = (account.sm_seconds or 0.0) + seconds
            spent[key] = spent.get(key, 0.0) + seconds
        self._split_energy(metered.energy_joules, spent)

    def _unlisted(self, reading: GpuReading, pid: int, now: Moment) -> _Key:
        """The account of a process with a sample but in no list: it ended since, or the list failed.

        It is whose it was when last listed. One that never was has ended before anybody could name it, or
        stands in a list that can't be read.
        """
        stranger = Unattributed("exited" if reading.processes is not None else "unmeasured")
        mig_uuid, holder = self._gpus[reading.gpu.uuid].holders.get(pid, (MigUuid(""), stranger))
        key = _key(reading.gpu, mig_uuid, holder)
        account = self._accounts.setdefault(key, _Account(reading.gpu, mig_uuid, holder, now.steady))
        account.seen_at = now.steady
        return key

    def _settle(self, gpu: Gpu, metered: Metered, *, unnamed: bool) -> None:
        """Who holds this GPU and runs nothing on it uses 0, unless some process there may be theirs."""
        for account in self._accounts.values():
            if account.gpu.uuid != gpu.uuid or account.current is None:
                continue
            if unnamed and not account.current.processes:
                continue
            account.current.listed = True
            if metered.sm_seconds is None:
                account.current.sm_ratio = None
                continue
            account.sm_seconds = account.sm_seconds or 0.0
            if metered.energy_joules is not None:
                account.energy_joules = account.energy_joules or 0.0

    def _split_energy(self, joules: float | None, spent: Mapping[_Key, float]) -> None:
        """Share the device's energy out by SM time; in a cycle in which nobody ran, nobody is charged."""
        if joules is None:
            return
        total = sum(spent.values())
        for key, seconds in spent.items():
            account = self._accounts[key]
            share = joules * seconds / total if total > 0.0 else 0.0
            account.energy_joules = (account.energy_joules or 0.0) + share

    def book_xid(self, event: XidEvent, gpu: Gpu, owners: tuple[Owner, ...]) -> None:
        """Count a driver error, and remember who was on the GPU."""
        before = self._xids.get((event.gpu_uuid, event.xid))
        count = before.count + 1 if before is not None else 1
        self._xids[event.gpu_uuid, event.xid] = XidAccount(gpu, event.xid, count, event.time, owners)

    # ---- reading the accounts out ----

    def gpu_state(self, reading: GpuReading) -> GpuState:
        """The reading with the counters of its GPU."""
        account = self._gpus.get(reading.gpu.uuid, _GpuAccount())
        return GpuState(reading, account.busy_seconds, dict(account.throttled_seconds))

    def containers(self) -> tuple[ContainerUse, ...]:
        """Every container with an account, with what it uses now unless it has ended."""
        return tuple(
            _container(account, account.holder)
            for account in self._accounts.values()
            if isinstance(account.holder, Owner)
        )

    def unattributed(self) -> tuple[UnattributedUse, ...]:
        """Every reason with an account, with what is used for it now."""
        return tuple(
            _unattributed(account, account.holder)
            for account in self._accounts.values()
            if isinstance(account.holder, Unattributed)
        )

    def xids(self, now: Moment) -> tuple[XidAccount, ...]:
        """Every error seen, with its owners while they are worth remembering."""
        return tuple(
            a if now.wall - a.last_time <= XID_OWNERS_SECONDS else replace(a, owners=())
            for a in self._xids.values()
        )


def _listed(account: _Account) -> _Current | None:
    """The use of this cycle where it is known."""
    return account.current if account.current is not None and account.current.listed else None


def _container(account: _Account, owner: Owner) -> ContainerUse:
    current, listed = account.current, _listed(account)
    return ContainerUse(
        gpu=account.gpu,
        mig_uuid=account.mig_uuid,
        owner=owner,
        active=current is not None,
        memory_used=listed.memory_used if listed else None,
        sm_ratio=listed.sm_ratio if listed else None,
        processes=listed.processes if listed else None,
        allocated=current.allocated if current else NOTHING,
        sm_seconds=account.sm_seconds,
        energy_joules=account.energy_joules,
        allocated_seconds=dict(account.allocated_seconds),
    )


def _unattributed(account: _Account, holder: Unattributed) -> UnattributedUse:
    listed = _listed(account)
    return UnattributedUse(
        gpu=account.gpu,
        mig_uuid=account.mig_uuid,
        holder=holder,
        active=listed is not None,
        memory_used=listed.memory_used if listed else None,
        processes=listed.processes if listed else None,
        sm_seconds=account.sm_seconds,
    )
