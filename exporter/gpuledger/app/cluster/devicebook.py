"""Devices by claim (Dynamic Resource Allocation): pools, and which claims hold what of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gpuledger.audit.claims import devices_of
from gpuledger.audit.deviceclasses import DeviceClasses
from gpuledger.core.inventory import Device, Pool, PoolSlice, pools_of
from gpuledger.core.sharding import Shard
from gpuledger.metrics.objectcache import Column, ObjectCache
from gpuledger.metrics.render import Rows
from gpuledger.metrics.render_cluster import CLAIM_SPECS, POOL_SPECS, claim_rows, pool_rows
from gpuledger.parse.clusterobjects import Slice
from gpuledger.parse.manifests import ResourceClaim


@dataclass(frozen=True, slots=True)
class PoolStock:
    """A pool of devices: on which nodes, how many there are, and how many are held."""

    driver: str
    pool: str
    nodes: tuple[str, ...]
    devices: int
    allocated: int


class DeviceBook:
    """Devices are counted over claims, not over the pods that share them, and each device once."""

    def __init__(self, shard: Shard, classes: DeviceClasses) -> None:
        self._shard = shard
        self._classes = classes
        self._claims: dict[str, ResourceClaim] = {}
        """Those that are this shard's, by UID."""
        self._slices: dict[str, PoolSlice] = {}
        self._holders: dict[Pool, Counter[Device]] = {}
        """How many claims hold each device of a pool."""
        self._stale = False
        self._claim_series = ObjectCache(CLAIM_SPECS)
        self._pool_series = ObjectCache(POOL_SPECS)

    def change_slice(self, uid: str, _old: Slice | None, new: Slice | None) -> None:
        """A part of a pool that is new, has changed or is gone."""
        self._stale = True
        if new is None:
            self._slices.pop(uid, None)
        else:
            self._slices[uid] = new.part

    def change_claim(self, uid: str, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """A claim that is new, has changed or is gone."""
        before, after = _devices(old), _devices(new)
        for device in after - before:
            self._holders.setdefault(device[:2], Counter())[device] += 1
        for device in before - after:
            holders = self._holders[device[:2]]
            holders[device] -= 1
            if not holders[device]:
                del holders[device]
            if not holders:
                del self._holders[device[:2]]
        self._stale |= before != after
        if new is not None and self._shard.owns(uid):
            self._claims[uid] = new
            self._claim_series.put(uid, _rows(new, self._classes))
        elif self._claims.pop(uid, None) is not None:
            self._claim_series.remove(uid)

    def learn(self, classes: DeviceClasses) -> None:
        """Other classes than before: claims may be for other devices than it seemed."""
        self._classes = classes
        for uid, claim in self._claims.items():
            self._claim_series.put(uid, _rows(claim, classes))

    def settle(self) -> None:
        """Write the pools anew, of which there are about as many as nodes, if any has changed."""
        if not self._stale:
            return
        self._stale = False
        self._pool_series = ObjectCache(POOL_SPECS)
        pools = pools_of(self._slices.values())
        for pool in {**pools, **self._holders}:
            key = "/".join(pool)
            if self._shard.owns(key):
                rows = pool_rows(pool, pools.get(pool, ()), len(self._holders.get(pool, ())))
                self._pool_series.put(key, rows)

    def stocks(self) -> Iterator[PoolStock]:
        """The pools that are this shard's, and what is held of them."""
        for pool, parts in pools_of(self._slices.values()).items():
            if self._shard.owns("/".join(pool)):
                devices = sum(len(part.devices) for part in parts)
                nodes = tuple(sorted({part.node for part in parts if part.node}))
                yield PoolStock(*pool, nodes, devices, len(self._holders.get(pool, ())))

    def columns(self) -> list[Column]:
        """The families of pools and claims."""
        return [*self._pool_series.columns(), *self._claim_series.columns()]


def _devices(claim: ResourceClaim | None) -> set[Device]:
    """What a claim holds, without what admin access merely looks at."""
    if claim is None or claim.status.allocation is None:
        return set()
    return {
        (device.driver, device.pool, device.device, device.share_id)
        for device in claim.status.allocation.devices.results
        if not device.admin_access
    }


def _rows(claim: ResourceClaim, classes: DeviceClasses) -> Rows:
    """Its GPUs by class as it asks for them, and whether there may be more than can be told."""
    gpus: dict[str, int] = {}
    unresolved = False
    for (name, driver), count in devices_of(claim).items():
        is_gpu = classes.is_gpu(name, driver)
        if is_gpu is None or (is_gpu and count is None):
            unresolved = True
        elif is_gpu and count is not None:
            gpus[name or driver] = gpus.get(name or driver, 0) + count
    state = "waiting" if claim.status.allocation is None else "allocated"
    return claim_rows(claim.metadata.namespace, claim.metadata.name, gpus, state, unresolved=unresolved)
