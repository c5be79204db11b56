"""Objects out of a stream of JSON of any length: lists with `items`, single objects, any of them in a row.

As many objects as the window holds are decoded in one go, cut at the last place that looks like the gap between
the objects before; that they decode proves the guess. Where it fails, they are cut out one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

_SPACES = (b" ", b"\t", b"\r", b"\n")
_SPACE = re.compile(rb"[ \t\r\n]++")
_TOKEN = re.compile(rb'"(?:[^"\\\n]++|\\.)*+"|["{}\[\]]')
_SCALAR = re.compile(rb"[^,\]}\s]++")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")

_any_value = msgspec.json.Decoder(msgspec.Raw)


class JsonStreamError(ValueError):
    """The stream is not JSON from here on: nothing after this place can be told apart."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """An object that could not be decoded, while those after it can; `position` counts from 1."""

    position: int
    message: str


Decode = Callable[[bytes, str], Sequence[T]]
"""Decodes a JSON array of objects, of which any may be a list; given the kind of list that they stand in."""


def iter_objects(chunks: Iterable[bytes], decode: Decode[T]) -> Iterator[T | Malformed]:
    """What `decode` gives for each object of a stream; an object that it raises an error for is a `Malformed`.

    Raises:
        JsonStreamError: the stream ends within an object, or is not JSON between objects.
    """
    return _Stream(chunks, decode).objects()


class _Stream(Generic[T]):
    """A window over the chunks, which begins at `self._base` of `self._data`; positions count from there."""

    def __init__(self, chunks: Iterable[bytes], decode: Decode[T]) -> None:
        self._chunks = iter(chunks)
        self._decode = decode
        self._data = b""
        self._base = 0
        self._objects = 0
        self._gap = b""
        """The last brace of the object before, the first of this one, and what stood between them."""

    def objects(self) -> Iterator[T | Malformed]:
        self._advance(self._skip_space(0))
        if not self._byte(0):
            raise JsonStreamError("empty input")
        while self._byte(0):
            yield from self._next("")
            self._step_over_gap(self._skip_space(0))

    def _next(self, kind: str) -> Iterator[T | Malformed]:
        """Decode what stands at the window's start: several objects, or the items of one, or one."""
        if (batch := self._batch(kind)) is not None:
            yield from batch
        elif kind or self._byte(0) == b"{":
            if not kind and (found := self._find_items()) is not None:
                self._advance(found[1])
                yield from self._items(found[0])
                self._close_list()
            else:
                yield from self._one(kind)
        else:
            raise JsonStreamError(f"expected a JSON object, got {self._excerpt()}")

    # ---- lists ----

    def _find_items(self) -> tuple[str, int] | None:
        """The kind of the list at the window's start and where its items begin; None if there are none."""
        kind, separator, position = "List", b"{", 0
        try:
            while self._byte(position) == separator:
                key, start = self._key(position + 1)
                if key == b'"items"' and self._byte(start) == b"[":
                    return kind, start + 1
                end = self._end_of_value(start)
                if key == b'"kind"':
                    kind = self._text(start, end).decode().strip('"')
                separator, position = b",", self._skip_space(end)
        except JsonStreamError:
            pass  # told again when the object is cut out
        return None

    def _items(self, kind: str) -> Iterator[T | Malformed]:
        """Decode the items of the list that the window stands in, and step behind its bracket."""
        self._gap = b""
        self._advance(self._skip_space(0))
        more = self._byte(0) != b"]"
        while more:
            yield from self._next(kind)
            end = self._skip_space(0)
            more = self._byte(end) == b","
            if more:
                self._step_over_gap(self._skip_space(end + 1))
            elif self._byte(end) == b"]":
                self._advance(end)
            else:
                raise JsonStreamError(
                    f"expected a comma after object {self._objects}, got {self._excerpt(end)}"
                )
        self._advance(1)

    def _close_list(self) -> None:
        """Step behind the object whose items were read; its other members tell nothing."""
        position = self._skip_space(0)
        while self._byte(position) == b",":
            position = self._skip_space(self._end_of_value(self._key(position + 1)[1]))
        if self._byte(position) != b"}":
            raise JsonStreamError(f"the list does not end after its items: {self._excerpt(position)}")
        self._advance(position + 1)
        self._gap = b""

    def _key(self, position: int) -> tuple[bytes, int]:
        """The key at `position`, after space, and where its value begins."""
        start = self._skip_space(position)
        end = self._end_of_value(start)
        colon = self._skip_space(end)
        if self._byte(start) != b'"' or self._byte(colon) != b":":
            raise JsonStreamError(f"expected a key and its value, got {self._excerpt(start)}")
        return self._text(start, end), self._skip_space(colon + 1)

    def _end_of_value(self, start: int) -> int:
        """The end of a value that is not decoded, once it is known to be JSON."""
        end = self._end_by_brackets(start)
        try:
            _any_value.decode(self._text(start, end))
        except (msgspec.DecodeError, RecursionError) as error:
            raise JsonStreamError(f"not JSON: {error}") from error
        return end

    # ---- objects ----

    def _batch(self, kind: str) -> Sequence[T] | None:
        """What the objects up to the last gap in the window give, decoded in one go; None if that can't be done."""
        if b"\n" not in self._gap:
            return None
        stop = self._data.rfind(self._gap, self._base)
        if stop < 0 and self._fill():
            stop = self._data.rfind(self._gap)
        if stop < 0:
            return None
        array = b"".join((b"[", memoryview(self._data)[self._base : stop + 1], b"]"))
        if b"," not in self._gap:
            array = array.replace(self._gap, b"},{")
        try:
            values = self._decode(array, kind)
        except (ValueError, msgspec.DecodeError):
            self._gap = b""  # the guess or an object is wrong: one by one will tell which
            return None
        self._objects += len(values)
        self._advance(stop + 1 - self._base)
        return values

    def _one(self, kind: str) -> Sequence[T | Malformed]:
        """The object at the window's start."""
        self._objects += 1
        try:
            end = self._end_of_object() or self._end_by_brackets(0)
        except JsonStreamError as error:
            start = self._data.find(b"\n{", self._base)  # only an object of the outermost level starts a line
            if start < 0:
                raise
            self._advance(start + 1 - self._base)
            return [Malformed(self._objects, str(error))]
        text = self._text(0, end)
        self._advance(end)
        try:
            return self._decode(b"[%b]" % text, kind)
        except (ValueError, msgspec.DecodeError) as error:
            return [Malformed(self._objects, str(error))]

    def _end_of_object(self) -> int:
        """Where the object at the window's start ends, as the JSON decoder sees it; 0 if it is malformed."""
        while self._byte(0) == b"{":
            try:
                _any_value.decode(memoryview(self._data)[self._base :])
            except msgspec.DecodeError as error:
                if trailing := _TRAILING.search(str(error)):
                    return self._data.rfind(b"}", 0, self._base + int(trailing[1]) - 1) + 1 - self._base
                if "truncated" not in str(error) or not self._double():
                    return 0
            except RecursionError:
                return 0
            else:
                return len(self._data) - self._base
        return 0

    def _end_by_brackets(self, start: int) -> int:
        """Where the value at `start` ends, by the brackets outside of strings: malformed ones end too."""
        if self._byte(start) not in (b"{", b"[", b'"'):
            return self._end_of_scalar(start)
        depth, position = 0, start
        while True:
            token = _TOKEN.search(self._data, self._base + position)
            if token is None or token[0] == b'"':
                position = (token.start() if token else len(self._data)) - self._base
                if b"\n" in self._data[self._base + position :]:
                    raise JsonStreamError(f"a string without end in object {self._objects}")
                if not self._double():
                    raise JsonStreamError(f"the input ends within object {self._objects}")
                continue
            depth += (token[0] in (b"{", b"[")) - (token[0] in (b"}", b"]"))
            position = token.end() - self._base
            if depth == 0:
                return position

    def _end_of_scalar(self, start: int) -> int:
        while (match := _SCALAR.match(self._data, self._base + start)) and match.end() == len(self._data):
            if not self._fill():
                break
        if match is None:
            raise JsonStreamError(f"expected a JSON value, got {self._excerpt(start)}")
        return match.end() - self._base

    # ---- the window ----

    def _step_over_gap(self, length: int) -> None:
        """Step to the next object, and remember what stood between it and the one before."""
        gap = self._data[self._base - 1 : self._base + length + 1] if self._base else b""
        if gap.startswith(b"}") and gap.endswith(b"{"):
            self._gap = gap
        self._advance(length)

    def _skip_space(self, position: int) -> int:
        while self._byte(position) in _SPACES:
            match = _SPACE.match(self._data, self._base + position)
            position = match.end() - self._base if match else position
        return position

    def _byte(self, position: int) -> bytes:
        while self._base + position >= len(self._data) and self._fill():
            pass
        return self._text(position, position + 1)

    def _text(self, start: int, end: int) -> bytes:
        return self._data[self._base + start : self._base + end]

    def _excerpt(self, position: int = 0) -> str:
        return repr(self._text(position, position + 30))[1:] if self._byte(position) else "the end of the input"

    def _advance(self, length: int) -> None:
        self._base += length

    def _double(self) -> bool:
        """Read on until the window is twice as long, so that repeated looks at a long object stay linear."""
        enough = 2 * (len(self._data) - self._base)
        grown = False
        while len(self._data) - self._base < enough and self._fill():
            grown = True
        return grown

    def _fill(self) -> bool:
        chunk = next(self._chunks, b"")
        self._data = self._data[self._base :] + chunk
        self._base = 0
        return bool(chunk)
