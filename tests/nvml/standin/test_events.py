"""Critical errors reach those who wait for them, once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pynvml
import pytest

from fakes.nvml.presets import node
from fakes.nvml.scenario import Event, Scenario

Play = Callable[[Scenario], None]

XID = pynvml.nvmlEventTypeXidCriticalError
DOUBLE_BIT = pynvml.nvmlEventTypeDoubleBitEccError


@pytest.fixture
def two_gpus(play: Play) -> Scenario:
    scenario = node(2)
    scenario.add_event(scenario.gpus[0], 13)  # before anybody listens
    play(scenario)
    return scenario


@pytest.fixture
def events(two_gpus: Scenario) -> Iterator[Any]:
    """An event set on which both GPUs are registered for XIDs."""
    found = pynvml.nvmlEventSetCreate()
    for index in range(len(two_gpus.gpus)):
        pynvml.nvmlDeviceRegisterEvents(pynvml.nvmlDeviceGetHandleByIndex(index), XID, found)
    yield found
    pynvml.nvmlEventSetFree(found)


def wait(events: Any, milliseconds: int = 0) -> tuple[str, int, int]:
    event = pynvml.nvmlEventSetWait(events, milliseconds)
    return pynvml.nvmlDeviceGetUUID(event.device), event.eventType, event.eventData


def test_each_event_is_given_once_in_order(play: Play, two_gpus: Scenario, events: Any) -> None:
    first, second = two_gpus.gpus
    for gpu, xid in ((first, 31), (first, 79)):
        two_gpus.add_event(gpu, xid)
    play(two_gpus)
    told = [wait(events), wait(events)]
    two_gpus.add_event(second, 48)
    play(two_gpus)
    told.append(wait(events))
    assert told == [(first.uuid, XID, 31), (first.uuid, XID, 79), (second.uuid, XID, 48)]
    with pytest.raises(pynvml.NVMLError_Timeout):
        wait(events)


def test_every_set_is_given_the_event(play: Play, two_gpus: Scenario, events: Any) -> None:
    other = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(pynvml.nvmlDeviceGetHandleByIndex(1), XID, other)
    two_gpus.add_event(two_gpus.gpus[1], 48)
    play(two_gpus)
    assert wait(events) == wait(other)
    pynvml.nvmlEventSetFree(other)


def test_event_of_another_type_is_not_for_this_set(play: Play, two_gpus: Scenario, events: Any) -> None:
    two_gpus.events.append(Event(serial=9, gpu=two_gpus.gpus[0].uuid, xid=0, type=DOUBLE_BIT))
    play(two_gpus)
    with pytest.raises(pynvml.NVMLError_Timeout):
        wait(events)


def test_event_tells_its_mig_instance(play: Play, two_gpus: Scenario, events: Any) -> None:
    gpu = two_gpus.gpus[0].uuid
    two_gpus.events.append(Event(serial=9, gpu=gpu, xid=31, gpu_instance=7, compute_instance=0))
    play(two_gpus)
    event = pynvml.nvmlEventSetWait_v2(events, 0)
    assert (event.gpuInstanceId, event.computeInstanceId) == (7, 0)


def test_waiting_ends_soon_after_the_event(play: Play, two_gpus: Scenario, events: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait, events, 10_000)
        time.sleep(0.1)
        two_gpus.add_event(two_gpus.gpus[0], 79)
        play(two_gpus)
        happened = time.monotonic()
        assert waiting.result(timeout=5) == (two_gpus.gpus[0].uuid, XID, 79)
        assert time.monotonic() - happened < 1


def test_waiting_in_vain_takes_as_long_as_asked(events: Any) -> None:
    started = time.monotonic()
    with pytest.raises(pynvml.NVMLError_Timeout):
        wait(events, 200)
    assert 0.2 <= time.monotonic() - started < 2


def test_registering_for_what_the_device_does_not_tell_is_not_supported(play: Play) -> None:
    scenario = node(1)
    scenario.gpus[0].supported_events = DOUBLE_BIT
    play(scenario)
    found = pynvml.nvmlEventSetCreate()
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceRegisterEvents(pynvml.nvmlDeviceGetHandleByIndex(0), XID, found)
    pynvml.nvmlEventSetFree(found)
