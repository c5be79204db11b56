"""XIDs are handed on as they come, each once, whatever happens to the GPUs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from queue import Empty, Queue

import pynvml
import pytest

from fakes.nvml.gpu_node import GpuNode
from fakes.nvml.presets import h100
from fakes.nvml.scenario import Fault, Gpu
from gpuledger.core.model import GpuUuid, XidEvent
from gpuledger.sources.nvml import XidWatcher

NOW = 1_700_000_000.0
RETRY_SECONDS = 0.1
PATIENCE_SECONDS = 5.0


class Watch:
    """A watcher, and the events that it handed on."""

    def __init__(self, node: GpuNode) -> None:
        self.node = node
        self._events: Queue[XidEvent] = Queue()
        self.watcher = XidWatcher(self._events.put, clock=lambda: NOW, retry_period=RETRY_SECONDS)
        self.watcher.start()

    def happens(self, gpu: Gpu, *xids: int) -> None:
        """Lets the GPU fail."""
        for xid in xids:
            self.node.scenario.add_event(gpu, xid)
        self.node.change()

    def until_watched(self, gpu: Gpu) -> None:
        """Lets the GPU fail until it is noticed."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.told(seconds=0.1):
            assert time.monotonic() < deadline, "the GPU is not watched"
            self.happens(gpu, 1)

    def told(self, seconds: float = 0.2) -> list[XidEvent]:
        """What was handed on, up to a pause of so many seconds."""
        events = []
        try:
            while True:
                events.append(self._events.get(timeout=seconds))
        except Empty:
            return events


@pytest.fixture
def watch(node: GpuNode) -> Iterator[Watch]:
    watch = Watch(node)
    yield watch
    watch.watcher.stop()


def event(gpu: Gpu, xid: int) -> XidEvent:
    return XidEvent(GpuUuid(gpu.uuid), xid, NOW)


def fails(call: str, code: int, gpu: Gpu | None = None) -> list[Fault]:
    return [Fault(call=call, kind="error", number=code, gpu="*" if gpu is None else gpu.uuid)]


def test_each_event_is_told_once(node: GpuNode, watch: Watch) -> None:
    first, second = h100(0), h100(1)
    node.has(first, second)
    watch.until_watched(second)
    watch.happens(first, 31, 79, 79)
    watch.happens(second, 48)

    assert sorted([event(first, 31), event(first, 79), event(first, 79), event(second, 48)], key=str) == sorted(
        watch.told(), key=str
    )


def test_what_happened_before_is_not_told(node: GpuNode) -> None:
    gpu = h100()
    node.scenario.add_event(gpu, 13)
    node.has(gpu)
    watch = Watch(node)
    watch.until_watched(gpu)
    watch.happens(gpu, 31)

    assert [event(gpu, 31)] == watch.told()
    watch.watcher.stop()


def test_a_driver_that_is_loaded_later_is_found(node: GpuNode, watch: Watch) -> None:
    assert [] == watch.told()
    gpu = h100()
    node.has(gpu)
    watch.until_watched(gpu)


def test_a_gpu_without_events_keeps_no_other_from_being_watched(node: GpuNode, watch: Watch) -> None:
    without, gpu = h100(0), h100(1)
    without.supported_events = None
    node.has(without, gpu)
    watch.until_watched(gpu)


def test_a_lost_gpu_keeps_no_other_from_being_watched_and_is_watched_once_it_is_back(
    node: GpuNode, watch: Watch
) -> None:
    lost, gpu = h100(0), h100(1)
    lost.lost = True
    node.has(lost, gpu)
    watch.until_watched(gpu)
    lost.lost = False
    watch.until_watched(lost)
    watch.happens(gpu, 31)

    assert [event(gpu, 31)] == watch.told()


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_GPU_IS_LOST])
def test_a_gpu_that_cannot_be_registered_is_left_out(node: GpuNode, watch: Watch, code: int) -> None:
    spoiler, gpu = h100(0), h100(1)
    node.scenario.faults = fails("nvmlDeviceRegisterEvents", code, spoiler)
    node.has(spoiler, gpu)
    watch.until_watched(gpu)


def test_the_next_event_set_is_made_at_once(node: GpuNode) -> None:
    gpu = h100()
    node.has(gpu)
    told: Queue[XidEvent] = Queue()

    def fail_the_next_wait(event: XidEvent) -> None:
        told.put(event)
        node.scenario.faults = [
            *fails("nvmlEventSetWait", pynvml.NVML_ERROR_GPU_IS_LOST),
            Fault(call="nvmlEventSetCreate", kind="hang"),  # until the first fault is over
        ]
        node.change()

    watcher = XidWatcher(fail_the_next_wait, clock=lambda: NOW, retry_period=60)
    watcher.start()
    for xid in (31, 48):
        time.sleep(0.4)
        node.scenario.faults = []
        node.change()
        time.sleep(0.2)
        node.scenario.add_event(gpu, xid)
        node.change()
        assert event(gpu, xid) == told.get(timeout=PATIENCE_SECONDS)
    node.scenario.faults = []
    node.change()
    watcher.stop()


def test_a_gpu_lost_while_it_is_watched_ends_nothing(node: GpuNode, watch: Watch) -> None:
    gpu = h100()
    node.has(gpu)
    watch.until_watched(gpu)
    node.scenario.faults = fails("nvmlEventSetWait", pynvml.NVML_ERROR_GPU_IS_LOST)
    node.change()
    began = time.process_time()
    time.sleep(0.5)
    busy = time.process_time() - began
    node.scenario.faults = []
    node.change()
    watch.until_watched(gpu)

    assert busy < 0.25


@pytest.mark.parametrize("loaded", [True, False])
def test_stopping_takes_less_than_a_second(node: GpuNode, watch: Watch, *, loaded: bool) -> None:
    if loaded:
        node.has(h100())
        watch.until_watched(node.scenario.gpus[0])
    began = time.monotonic()
    watch.watcher.stop()

    assert time.monotonic() - began < 1


def test_a_driver_that_hangs_does_not_hold_up_the_end(node: GpuNode, watch: Watch) -> None:
    node.has(h100())
    watch.until_watched(node.scenario.gpus[0])
    node.scenario.faults = [Fault(call="nvmlEventSetWait", kind="hang")]
    node.change()
    time.sleep(0.3)
    began = time.monotonic()
    watch.watcher.stop()

    assert time.monotonic() - began < 2
