"""A list that is too long for memory: values wait in a temporary file until they are read again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Generic, Self, TypeVar

import msgspec

from gpuledger.core.errors import SourceError

T = TypeVar("T")

_IN_MEMORY = 1 << 20
_LENGTH_BYTES = 4
_AT_ONCE = 64
"""How many values are written and read together."""


class Spool(Generic[T]):
    """Values of one type, in the order they were added; may be read any number of times once all are in."""

    def __init__(self, of: type[T]) -> None:
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by __exit__
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(list[of])  # type: ignore[valid-type]  # mypy knows no types made at run time
        self._newest = list[T]()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # what could not be written is of no use any more
            self._file.close()

    def append(self, value: T) -> None:
        """Add a value behind the others. Raises SourceError."""
        self._newest.append(value)
        if len(self._newest) == _AT_ONCE:
            self._write()

    def __iter__(self) -> Iterator[T]:
        self._write()
        with _as_source_error():
            self._file.seek(0)
        while length := self._file.read(_LENGTH_BYTES):
            yield from self._decoder.decode(self._file.read(int.from_bytes(length)))

    def _write(self) -> None:
        if not self._newest:
            return
        data = self._encoder.encode(self._newest)
        self._newest.clear()
        with _as_source_error():
            self._file.write(len(data).to_bytes(_LENGTH_BYTES) + data)


@contextmanager
def _as_source_error() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(f"temporary file: {error.strerror}; name a roomier folder by TMPDIR") from error
