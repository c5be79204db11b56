"""Records that NVML writes into a buffer which is kept: one call, and no object for each record.

pynvml's own functions ask twice, first for the size, and then make an object of every record.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import pynvml

_FIRST_ROOM = 64
_MOST_ROOM = 1 << 16
"""No GPU has so many processes; a driver that says so is not believed for ever."""


class RecordBuffer:
    """Room for the records of one function; `layout` is the record's in nvml.h, as `struct` writes it."""

    def __init__(self, layout: str) -> None:
        self._record = struct.Struct(layout)
        self._make_room(_FIRST_ROOM)

    def read(self, name: str, call: Callable[[Any, Any, Any], int]) -> list[tuple[Any, ...]]:
        """The records, where `call` calls the function `name` with its buffer and the count of records.

        Raises NVMLError.
        """
        function = pynvml._nvmlGetFunctionPointer(name)  # noqa: SLF001 - pynvml offers its functions in no other way
        while True:
            count = ctypes.c_uint(self._room)
            code = call(function, self._buffer, ctypes.byref(count))
            too_small = code == pynvml.NVML_ERROR_INSUFFICIENT_SIZE or count.value >= self._room
            if too_small and self._room < _MOST_ROOM:
                self._make_room(min(2 * max(count.value, self._room), _MOST_ROOM))
                continue
            if code != pynvml.NVML_SUCCESS:
                raise pynvml.NVMLError(code)
            written = memoryview(self._buffer)[: count.value * self._record.size]
            return list(self._record.iter_unpack(written))

    def _make_room(self, records: int) -> None:
        self._room = records
        self._buffer = ctypes.create_string_buffer(records * self._record.size)
