"""NVML as a source: the GPUs of this node, read one after the other."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pynvml

from gpuledger.core.model import Gpu, GpuReading, GpuUuid, NvmlReading
from gpuledger.sources.nvml.device import Cadence, Device
from gpuledger.sources.nvml.driver import (
    Handle,
    attempt,
    close_library,
    open_library,
    source_error,
    unreachable,
)
from gpuledger.sources.nvml.session import Clocks


def _uptime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class NvmlSource:
    """All GPUs that NVML lists, or has listed since the start: one that is lost stays, with `up` False.

    `clock` tells Unix time, `uptime` seconds since boot. Every `slow_period` seconds each GPU has its slow
    round, one GPU after another, and new and lost GPUs are looked for.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        uptime: Callable[[], float] = _uptime,
        slow_period: float = 10.0,
    ) -> None:
        self._clocks = Clocks(clock, uptime)
        self._slow_period = slow_period
        self._look_at = 0.0
        self._open = False
        self._devices: dict[GpuUuid, Device] = {}
        self._nameless: list[int] = []
        self._dropped: Counter[str] = Counter()

    def read(self) -> NvmlReading:
        """One cycle over all GPUs. Raises `SourceError`; the next call tries again."""
        now = self._clocks.uptime()
        if not self._open:
            open_library()
            self._open, self._look_at = True, 0.0
        if now >= self._look_at:
            self._look_for_gpus()
            self._look_at = Cadence(self._slow_period).next_after(now)
        readings = [device.read() for device in self._devices.values()]
        answers = {device.heard for device in self._devices.values()}
        if False in answers and True not in answers:
            raise unreachable()
        # a GPU lost before its UUID was ever read: known by its index alone
        readings += [GpuReading(Gpu(index, GpuUuid("")), up=False) for index in self._nameless]
        readings.sort(key=lambda reading: reading.gpu.index)
        return NvmlReading(tuple(readings), dict(self._dropped))

    def close(self) -> None:
        """Give NVML back; a later `read` would open it again."""
        for device in self._devices.values():
            device.lose()
        if self._open:
            close_library()
            self._open = False

    def _look_for_gpus(self) -> None:
        """Take in which GPUs NVML lists now."""
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self.close()
            raise source_error(error) from error
        unlisted = set(self._devices)
        failed: dict[int, int] = {}
        for index in range(count):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                uuid = GpuUuid(pynvml.nvmlDeviceGetUUID(handle))
            except pynvml.NVMLError as error:
                failed[index] = error.value
                continue
            unlisted.discard(uuid)
            self._take_in(Gpu(index, uuid, attempt(pynvml.nvmlDeviceGetMinorNumber, handle)), handle, count)
        if not self._devices and set(failed.values()) == {pynvml.NVML_ERROR_UNKNOWN}:
            raise unreachable()
        for uuid in unlisted:
            device = self._devices[uuid]
            # an index that gives no handle is this GPU's own: its calls tell how it is
            if failed.pop(device.gpu.index, None) is None:
                device.lose()
        self._nameless = sorted(failed)

    def _take_in(self, gpu: Gpu, handle: Handle, count: int) -> None:
        device = self._devices.get(gpu.uuid)
        if device is None:
            turn = Cadence(self._slow_period, self._slow_period * gpu.index / count)
            device = self._devices[gpu.uuid] = Device(gpu, self._clocks, turn, self._dropped)
        device.gpu = gpu
        device.acquire(handle)
