"""NVML's calls: opening the library, asking it on behalf of one GPU, and what its error codes mean.

Return codes are those of nvml.h's nvmlReturn_t.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ParamSpec, TypeAlias, TypeVar

import pynvml

from gpuledger.core.errors import SourceError

P = ParamSpec("P")
T = TypeVar("T")

Handle: TypeAlias = Any
"""pynvml's pointer to a GPU or a MIG device."""

UNSUPPORTED = frozenset(
    (
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    )
)
"""Answers that stay the same however often one asks."""

LOST = frozenset(
    (
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
    )
)
"""The handle is of no use until it is acquired anew."""

_ADVICE = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "libnvidia-ml.so.1 is not there: install the NVIDIA driver on this node, and run the container under "
        "the NVIDIA runtime with NVIDIA_DRIVER_CAPABILITIES=utility"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "the kernel driver is not loaded: look at `lsmod | grep nvidia` and `dmesg` on this node"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "the driver may not be talked to: give the container /dev/nvidiactl and the GPUs' device files"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the driver was replaced under this process, which holds the old library; a restart loads the new one"
    ),
    pynvml.NVML_ERROR_UNKNOWN: (
        "the container has lost its device files, as happens when `systemctl daemon-reload` makes systemd "
        "write the cgroup's device rules anew; only a restart of the container gives them back"
    ),
}

_CURED_BY_RESTART = (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, pynvml.NVML_ERROR_UNKNOWN)


def open_library() -> None:
    """Load and initialise NVML, or raise `SourceError`; what fails now may work at a later call."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise source_error(error) from error


def close_library() -> None:
    """Give NVML back; that it no longer answers is no matter then."""
    attempt(pynvml.nvmlShutdown)


def source_error(error: pynvml.NVMLError) -> SourceError:
    """What an error that concerns no single GPU means, and what to do about it."""
    advice = _ADVICE.get(error.value, "look at `dmesg` and `nvidia-smi` on this node")
    return SourceError(f"NVML says {str(error)!r}: {advice}", restart=error.value in _CURED_BY_RESTART)


def unreachable() -> SourceError:
    """Every call about every GPU says "Unknown Error"."""
    return source_error(pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN))


def attempt(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """The call's answer, or None where NVML has none, for calls whose failure has no consequence."""
    try:
        return call(*args, **kwargs)
    except (pynvml.NVMLError, UnicodeDecodeError):
        return None


class GpuLostError(Exception):
    """The GPU fell off the bus, needs a reset, or its handle is no longer good."""


class Calls:
    """Asks NVML on behalf of one GPU, and remembers what need not be asked again of this handle."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.refused: set[Hashable] = set()
        self.heard = False
        """Whether anything but "Unknown Error" came back since this was last set to False."""

    def ask(self, key: Hashable, call: Callable[..., T], *args: Any) -> T | None:
        """The call's answer, or None: for good where it is refused, for now where it merely failed.

        Raises `GpuLostError`.
        """
        if key in self.refused:
            return None
        try:
            answer = call(*args)
        except pynvml.NVMLError as error:
            self.judge(key, error.value)
            return None
        except UnicodeDecodeError:  # a text that is none never becomes one
            self.refused.add(key)
            return None
        self.heard = True
        return answer

    def ask_newest(self, key: Hashable, calls: tuple[Callable[..., T], ...], *args: Any) -> T | None:
        """The answer of the newest of `calls`, which come first, that is not refused; `key` is when all are."""
        if len(calls) == 1:
            return self.ask(key, calls[0], *args)
        for call in calls:
            answer = self.ask((key, call), call, *args)
            if answer is not None or (key, call) not in self.refused:
                return answer
        self.refused.add(key)
        return None

    def judge(self, key: Hashable, code: int) -> None:
        """Draw the consequence of a return code other than success."""
        if code != pynvml.NVML_ERROR_UNKNOWN:
            self.heard = True
        if code in LOST or (code == pynvml.NVML_ERROR_INVALID_ARGUMENT and not self._handle_is_good()):
            raise GpuLostError
        if code in UNSUPPORTED:
            self.refused.add(key)

    def _handle_is_good(self) -> bool:
        """An invalid argument may be the handle: then not even its UUID can be had."""
        return attempt(pynvml.nvmlDeviceGetUUID, self.handle) is not None
