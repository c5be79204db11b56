"""A list that is too long for memory: values wait in a temporary file until they are read again."""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Generic, Self, TypeVar

import msgspec

T = TypeVar("T")

_IN_MEMORY = 1 << 20
_LENGTH_BYTES = 4


class Spool(Generic[T]):
    """Values of one type, in the order they were added; may be read any number of times once all are in."""

    def __init__(self, of: type[T]) -> None:
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by __exit__
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(of)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def append(self, value: T) -> None:
        """Add a value behind the others."""
        data = self._encoder.encode(value)
        self._file.write(len(data).to_bytes(_LENGTH_BYTES))
        self._file.write(data)

    def __iter__(self) -> Iterator[T]:
        self._file.seek(0)
        while length := self._file.read(_LENGTH_BYTES):
            yield self._decoder.decode(self._file.read(int.from_bytes(length)))
