"""One GPU for as long as the exporter runs: found, lost, found again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gpuledger.core.model import Gpu, GpuReading
from gpuledger.sources.nvml.driver import GpuLostError, Handle
from gpuledger.sources.nvml.info import read_info
from gpuledger.sources.nvml.session import Clocks, Session


@dataclass(frozen=True, slots=True)
class Cadence:
    """Every `period` seconds, `shift` seconds after its multiples."""

    period: float
    shift: float = 0.0

    def next_after(self, now: float) -> float:
        """The first time after `now`."""
        return now + self.period - (now - self.shift) % self.period


class Device:
    """A GPU, up while it has a session. `slow` says when its slow rounds are; a session begins with one."""

    def __init__(self, gpu: Gpu, clocks: Clocks, slow: Cadence, dropped: Counter[str]) -> None:
        self.gpu = gpu
        self.heard: bool | None = None
        """Whether it said anything but "Unknown Error" in the last cycle; None when it is lost."""
        self._info: dict[str, str] = {}
        self._clocks = clocks
        self._slow = slow
        self._slow_at = 0.0
        self._dropped = dropped
        self._mig_enabled = False
        self._session: Session | None = None

    def acquire(self, handle: Handle) -> None:
        """Read the GPU by this handle, unless it has one that is good."""
        if self._session is None:
            self._slow_at = 0.0
            self._begin(handle)

    def lose(self) -> None:
        """Read it no more, until it is acquired anew."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def read(self) -> GpuReading:
        """This cycle's reading, with `up` False and no more than the GPU's identity when it is lost."""
        self.heard = None
        try:
            if self._session is not None:
                return self._read(self._session)
        except GpuLostError:
            self.lose()
        return GpuReading(self.gpu, up=False, info=self._info)

    def _read(self, session: Session) -> GpuReading:
        session.calls.heard = False
        now = self._clocks.uptime()
        if now >= self._slow_at:
            session = self._in_mig_mode(session)
            self._info = read_info(session.calls, self._info)
            session.read_slow()
            self._slow_at = self._slow.next_after(now)
        reading = session.read(self.gpu, self._info)
        self.heard = session.calls.heard
        return reading

    def _in_mig_mode(self, session: Session) -> Session:
        """The session, or a new one where the MIG mode has changed, and with it what can be asked."""
        enabled = session.mig_enabled()
        if enabled is None or enabled == self._mig_enabled:
            return session
        self._mig_enabled = enabled
        self.lose()
        session = self._begin(session.calls.handle)
        session.mig_enabled()
        return session

    def _begin(self, handle: Handle) -> Session:
        self._session = Session(handle, self._clocks, self._dropped, mig=self._mig_enabled)
        return self._session
