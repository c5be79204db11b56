"""XIDs: the errors that the driver reports as events, taken from NVML's event queue as they come."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pynvml

from gpuledger.core.errors import SourceError
from gpuledger.core.model import GpuUuid, XidEvent
from gpuledger.sources.nvml.driver import Handle, attempt, close_library, open_library

_WAIT_MILLISECONDS = 500
"""The longest that one wait for events lasts, and about the longest that `stop` takes."""

_STOP_SECONDS = 1.0
"""A thread that hangs in the driver is not waited for longer; it dies with the process."""


class XidWatcher:
    """Hands each XID to `on_event`, in a thread of its own, from `start` to `stop`.

    It needs no driver to start: every `retry_period` seconds it looks for one, and for GPUs that it does not
    watch yet. What happened before a GPU was watched is not told (nvml.h, nvmlDeviceRegisterEvents).
    """

    def __init__(
        self,
        on_event: Callable[[XidEvent], None],
        *,
        clock: Callable[[], float] = time.time,
        retry_period: float = 10.0,
    ) -> None:
        self._on_event = on_event
        self._clock = clock
        self._retry_period = retry_period
        self._refused: set[GpuUuid] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nvml-xids", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        """Watch with one event set after another: a lost GPU spoils the set that it is in.

        The next set is made at once, so that the other GPUs' events are not missed, unless the last one was
        of no use at all.
        """
        pause = 0.0
        while not self._stopping.wait(pause):
            pause = self._retry_period
            try:
                with _event_set() as events:
                    for _ in self._watch(events):
                        pause = 0.0
            except (pynvml.NVMLError, SourceError):
                continue

    def _watch(self, events: Handle) -> Iterator[None]:
        """Wait for events and hand them on; yields after each wait that worked."""
        watched: dict[int | None, GpuUuid] = {}
        look_at = 0.0
        while not self._stopping.is_set():
            if time.monotonic() >= look_at:
                self._register(events, watched)
                look_at = time.monotonic() + self._retry_period
            try:
                event = pynvml.nvmlEventSetWait_v2(events, _WAIT_MILLISECONDS)
            except pynvml.NVMLError_Timeout:
                pass
            else:
                uuid = watched.get(_address(event.device))
                if uuid is not None and event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                    self._on_event(XidEvent(uuid, event.eventData, self._clock()))
            yield

    def _register(self, events: Handle, watched: dict[int | None, GpuUuid]) -> None:
        """Add to the set those GPUs that are not in it and can be."""
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = attempt(pynvml.nvmlDeviceGetHandleByIndex, index)
            uuid = None if handle is None else attempt(pynvml.nvmlDeviceGetUUID, handle)
            if uuid is None or uuid in self._refused or uuid in watched.values():
                continue
            try:
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
            except pynvml.NVMLError_NotSupported:
                self._refused.add(uuid)
            except pynvml.NVMLError_Unknown:  # nvml.h: the set is in an undefined state now
                self._refused.add(uuid)
                raise
            except pynvml.NVMLError:  # lost: it is tried again at the next look
                continue
            else:
                watched[_address(handle)] = uuid


def _address(handle: Handle) -> int | None:
    """A lost GPU's event still carries its handle, though nothing can be asked by it any more."""
    return ctypes.cast(handle, ctypes.c_void_p).value


@contextmanager
def _event_set() -> Iterator[Handle]:
    open_library()
    try:
        events = pynvml.nvmlEventSetCreate()
        try:
            yield events
        finally:
            attempt(pynvml.nvmlEventSetFree, events)
    finally:
        close_library()
