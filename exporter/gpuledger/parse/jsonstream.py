"""Objects out of a stream of JSON of any length: lists with `items`, single objects, any of them in a row.

As many objects as the window holds are decoded in one go, cut at the last place that looks like the gap between
the objects before; that they decode proves the guess. Where it fails, they are cut out one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
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

Batch = Sequence[T | Malformed]
"""What is decoded at a time."""

_LIST = "List"
"""The kind of a list of which nothing more is known."""


@dataclass(slots=True)
class _Members:
    """The members of an object beside its `items`, which tell whether it is a list at all."""

    kind: str = ""
    _texts: list[bytes] = field(default_factory=list)

    def add(self, key: bytes, value: bytes) -> None:
        """Take note of a member; of several with one name the last counts."""
        self._texts.append(b"%b:%b" % (key, value))
        if key == b'"kind"':
            self.kind = value.decode(errors="replace").strip('"')

    @property
    def is_list(self) -> bool:
        """Whether the object, which has items, is a list: other kinds may have items of their own."""
        return not self.kind or self.kind.endswith(_LIST)

    @property
    def text(self) -> bytes:
        """The object without its items."""
        return b"{%b}" % b",".join(self._texts)


class JsonStream(Generic[T]):
    """Decodes the objects of a stream; one that `decode` raises an error for is a `Malformed`.

    What is read waits in a window over the chunks, which begins at `self._base` of `self._data`; positions
    count from there.

    Raises:
        JsonStreamError: the stream ends within an object, or is not JSON between objects.
    """

    def __init__(self, chunks: Iterable[bytes], decode: Decode[T]) -> None:
        self._chunks = iter(chunks)
        self._decode = decode
        self._data = b""
        self._base = 0
        self._objects = 0
        self._gap = b""
        """The last brace of the object before, the first of this one, and what stood between them."""
        self._suspect = 0
        """How much of the window is not to be decoded in one go, for it was tried in vain."""

    def objects(self) -> Iterator[T | Malformed]:
        """What is decoded, up to the end or to where YAML begins."""
        return chain.from_iterable(self._batches())

    @property
    def at_marker(self) -> bool:
        """Whether a YAML document begins here: JSON is YAML too, and files mix them."""
        return self._byte(0) == b"-" and self._byte(2) == b"-" and self._text(0, 3) == b"---"

    def rest(self) -> Iterator[bytes]:
        """What was not read."""
        yield self._data[self._base :]
        yield from self._chunks

    def _batches(self) -> Iterator[Batch[T]]:
        self._advance(self._skip_space(0))
        if not self._byte(0):
            raise JsonStreamError("empty input")
        while self._byte(0) and not self.at_marker:
            yield from self._next("")
            self._step_over_gap(self._skip_space(0))

    def _next(self, kind: str) -> Iterator[Batch[T]]:
        """Decode what stands at the window's start: several objects, or the items of one, or one."""
        if (batch := self._batch(kind)) is not None:
            yield batch
        elif kind or self._byte(0) == b"{":
            if not kind and (members := self._find_items()) is not None:
                yield from self._list(members)
            else:
                yield self._one(kind)
        elif self._byte(0) == b"[" and self._byte(self._skip_space(1)) == b"{":
            self._advance(1)
            yield from self._items(_LIST)
        else:
            raise JsonStreamError(f"expected a JSON object, got {self._excerpt()}")

    # ---- lists ----

    def _find_items(self) -> _Members | None:
        """The members before the items of a list at the window's start, which then begins with these.

        None if it is no list, or one whose items don't tell their kind before the list does.
        """
        members = _Members()
        separator, position = b"{", 0
        try:
            while self._byte(position) == separator:
                key, start = self._key(position + 1)
                if key == b'"items"' and self._byte(start) == b"[":
                    if not (members.is_list and (members.kind or self._tells_kind(start + 1))):
                        return None
                    self._advance(start + 1)
                    return members
                end = self._end_of_value(start)
                members.add(key, self._text(start, end))
                separator, position = b",", self._skip_space(end)
        except JsonStreamError:
            pass  # told again when the object is cut out
        return None

    def _tells_kind(self, position: int) -> bool:
        """Whether the first item of a list says what it is, or there is none that could."""
        position, separator = self._skip_space(position), b"{"
        if self._byte(position) != separator:
            return True
        while self._byte(position) == separator:
            key, start = self._key(position + 1)
            if key == b'"kind"':
                return self._byte(start) == b'"'
            separator, position = b",", self._skip_space(self._end_of_value(start))
        return False

    def _list(self, members: _Members) -> Iterator[Batch[T]]:
        """Decode the items of the list that the window stands in, and the rest of it, if it is no list."""
        yield from self._items(members.kind or _LIST)
        position = self._skip_space(0)
        while self._byte(position) == b",":
            key, start = self._key(position + 1)
            if key == b'"items"' and self._byte(start) == b"[":
                self._advance(start + 1)
                yield from self._items(members.kind or _LIST)
                position = self._skip_space(0)
            else:
                end = self._end_of_value(start)
                members.add(key, self._text(start, end))
                position = self._skip_space(end)
        if self._byte(position) != b"}":
            raise JsonStreamError(f"the list does not end after its items: {self._excerpt(position)}")
        self._advance(position + 1)
        self._gap = b""
        if not members.is_list:
            self._objects += 1
            yield self._decoded(members.text, "")

    def _items(self, kind: str) -> Iterator[Batch[T]]:
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
        """What the objects up to the window's last gap give, decoded in one go; None if that can't be done."""
        if b"\n" not in self._gap or self._suspect > 0:
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
            self._suspect = stop + 1 - self._base  # the guess or an object is wrong: one by one will tell which
            return None
        self._objects += len(values)
        self._advance(stop + 1 - self._base)
        return values

    def _one(self, kind: str) -> Batch[T]:
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
        return self._decoded(text, kind)

    def _decoded(self, text: bytes, kind: str) -> Batch[T]:
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
        self._suspect -= length

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
