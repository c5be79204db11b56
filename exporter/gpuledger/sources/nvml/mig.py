"""MIG: the devices that a GPU is cut into, what they are called, and what is measured for each alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pynvml

from gpuledger.core.model import MigDevice, MigUuid
from gpuledger.core.model import Values as MetricValues
from gpuledger.sources.nvml.driver import Calls, GpuLostError, attempt
from gpuledger.sources.nvml.gpm import GpmMeter, has_gpm
from gpuledger.sources.nvml.memory import read_memory
from gpuledger.sources.nvml.plausible import Values
from gpuledger.sources.nvml.processes import Instance

_PROFILE = re.compile(r" MIG (\S+)$")


@dataclass(frozen=True, slots=True)
class _Slice:
    calls: Calls
    uuid: MigUuid
    profile: str
    instance: Instance


class MigDevices:
    """The MIG devices of one GPU, which come and go while it runs."""

    def __init__(self, calls: Calls, values: Values) -> None:
        self._calls = calls
        self._values = values
        self._slices: dict[Instance, _Slice] = {}
        self._looked_for: set[Instance] = set()
        self._meters: dict[MigUuid, GpmMeter] = {}
        self._ratios: dict[MigUuid, dict[str, MetricValues]] = {}

    def refresh(self) -> None:
        """See which devices there are; when the driver does not tell, those known before stand."""
        count = self._calls.ask("MIG devices", pynvml.nvmlDeviceGetMaxMigDeviceCount, self._calls.handle)
        if count is None:
            return
        self._slices = {found.instance: found for found in self._find(count)}
        self._looked_for = set(self._slices)
        self._meter_instances()

    def uuids(self, instances: set[Instance]) -> Mapping[Instance, MigUuid]:
        """Which device an instance is; looks again, once, for one that it does not know."""
        if not instances <= self._looked_for:
            self.refresh()
            self._looked_for |= instances
        return {instance: found.uuid for instance, found in self._slices.items()}

    def measure(self, uptime: float) -> None:
        """Measure what each device did since the last time."""
        self._ratios = {
            uuid: {
                f"mig_{name}": {(): ratio}
                for name, ratio in meter.read(uptime).items()
                if self._values.is_plausible(f"mig_{name}", ratio)
            }
            for uuid, meter in self._meters.items()
        }

    def read(self) -> tuple[MigDevice, ...]:
        """What each device uses now, and did when last measured; one that has gone since then is left out."""
        devices = []
        for found in list(self._slices.values()):
            ratios = self._ratios.get(found.uuid, {})
            try:
                memory = read_memory(found.calls, self._values, "mig_memory_used_bytes")
            except GpuLostError:
                del self._slices[found.instance]
                self._looked_for.discard(found.instance)
                continue
            devices.append(MigDevice(found.uuid, found.profile, *found.instance, memory, ratios))
        return tuple(devices)

    def close(self) -> None:
        """Give back what is held of NVML."""
        for meter in self._meters.values():
            meter.close()

    def _find(self, count: int) -> Iterator[_Slice]:
        for index in range(count):
            handle = attempt(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, self._calls.handle, index)
            if handle is None:
                continue
            uuid = attempt(pynvml.nvmlDeviceGetUUID, handle)
            gpu_instance = attempt(pynvml.nvmlDeviceGetGpuInstanceId, handle)
            compute_instance = attempt(pynvml.nvmlDeviceGetComputeInstanceId, handle)
            if uuid is None or gpu_instance is None or compute_instance is None:
                continue
            profile = _PROFILE.search(attempt(pynvml.nvmlDeviceGetName, handle) or "")
            instance = (gpu_instance, compute_instance)
            yield _Slice(Calls(handle), MigUuid(uuid), profile[1] if profile else "", instance)

    def _meter_instances(self) -> None:
        """Meter each GPU instance that is one device; what several share says nothing of any one of them."""
        shared = Counter(gpu_instance for gpu_instance, _ in self._slices)
        metered = has_gpm(self._calls)
        alone = {s.uuid: s for s in self._slices.values() if metered and shared[s.instance[0]] == 1}
        for uuid in self._meters.keys() - alone.keys():
            self._meters.pop(uuid).close()
        for uuid in alone.keys() - self._meters.keys():
            meter = self._calls.ask("GPM samples", GpmMeter, self._calls, self._values, alone[uuid].instance[0])
            if meter is not None:
                self._meters[uuid] = meter
