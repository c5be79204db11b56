"""How the Kubernetes API sends many objects: lists in pages, and watches of one event a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import msgspec

from gpuledger.parse.nesting import cut_nesting

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
DocumentT = TypeVar("DocumentT")

_DEEPEST = 50
"""Objects and arrays within each other, in a list."""

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


@dataclass(frozen=True, slots=True)
class MalformedObject:
    """An object that doesn't have the shape of its kind: which one, as far as it says, and what is wrong."""

    uid: str
    namespace: str
    name: str
    problem: str


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """One page of a list. `continue_token` fetches the next; `resource_version` is where a watch goes on.

    `malformed` are items that were left out.
    """

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""
    malformed: tuple[MalformedObject, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One line of a watch.

    For ADDED and MODIFIED `object` is set or `malformed`, for ERROR `status` and `message`.
    """

    type: EventType
    uid: str = ""
    resource_version: str = ""
    object: T | None = None
    malformed: MalformedObject | None = None
    status: int = 0
    message: str = ""


class ObjectParser(Generic[DocumentT, T]):
    """Reads lists and watches of one kind: `document` is its JSON's shape, `convert` makes our value of it.

    `convert` may raise ValueError for what is malformed.
    """

    def __init__(self, document: type[DocumentT], convert: Callable[[DocumentT], T]) -> None:
        self._convert = convert
        self._document = msgspec.json.Decoder(document)
        self._list: msgspec.json.Decoder[_List[DocumentT]] = msgspec.json.Decoder(_List[document])  # type: ignore[valid-type]  # mypy knows no types made at run time

    def parse_object(self, body: bytes | msgspec.Raw) -> T:
        """One object; raises ValueError where it doesn't have the shape of its kind."""
        return self._convert(decode_answer(self._document, body))

    def parse_list(self, body: bytes) -> ObjectList[T]:
        """One page; raises ValueError where it is no list at all. A malformed item costs only itself."""
        try:
            page = self._list.decode(body)
            items = tuple(map(self._convert, page.items or ()))
        except (msgspec.DecodeError, RecursionError, ValueError):
            return self._parse_items(decode_answer(_RAW_LIST, body))
        return ObjectList(items, page.metadata.resource_version, page.metadata.continue_token)

    def parse_event(self, line: bytes) -> WatchEvent[T]:
        """One event; raises ValueError where the line is no event at all."""
        event = decode_answer(_EVENT, line)
        if event.type == "ERROR":
            status = decode_answer(_STATUS, event.object)
            return WatchEvent("ERROR", status=status.code, message=status.message)
        meta = decode_answer(_IDENTITY, event.object).metadata
        value, malformed = None, None
        if event.type in ("ADDED", "MODIFIED"):
            try:
                value = self.parse_object(event.object)
            except ValueError as error:
                malformed = _malformed(meta, error)
        return WatchEvent(event.type, meta.uid, meta.resource_version, value, malformed)

    def _parse_items(self, page: _List[msgspec.Raw]) -> ObjectList[T]:
        items: list[T] = []
        malformed: list[MalformedObject] = []
        for raw in page.items or ():
            try:
                items.append(self.parse_object(raw))
            except ValueError as error:
                malformed.append(_malformed(_read_names(raw), error))
        meta = page.metadata
        return ObjectList(tuple(items), meta.resource_version, meta.continue_token, tuple(malformed))


def _read_names(raw: msgspec.Raw) -> _Names:
    try:
        return decode_answer(_IDENTITY, raw).metadata
    except ValueError:
        return _Names()


def _malformed(meta: _Names, error: ValueError) -> MalformedObject:
    return MalformedObject(meta.uid, meta.namespace, meta.name, str(error))


def parse_status_message(body: bytes) -> str:
    """What a refusal's `Status` says for people; empty where the body is none (a proxy's page)."""
    try:
        return decode_answer(_STATUS, body).message
    except ValueError:
        return ""


def decode_answer(decoder: msgspec.json.Decoder[DocumentT], text: bytes | msgspec.Raw) -> DocumentT:
    """What the API sent, but for what is nested deeper than anything that is read; raises ValueError."""
    try:
        try:
            return decoder.decode(text)
        except RecursionError:
            return decoder.decode(cut_nesting(bytes(text), _DEEPEST))
    except msgspec.DecodeError as error:
        raise ValueError(f"not what the Kubernetes API sends: {error}") from error


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, Generic[DocumentT]):
    metadata: _ListMeta
    items: list[DocumentT] | None


class _Event(msgspec.Struct):
    type: EventType
    object: msgspec.Raw


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Names(msgspec.Struct, rename="camel"):
    """No more of the metadata than tells which object it is, because the rest may be malformed."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identity(msgspec.Struct):
    metadata: _Names


_RAW_LIST = msgspec.json.Decoder(_List[msgspec.Raw])
_EVENT = msgspec.json.Decoder(_Event)
_STATUS = msgspec.json.Decoder(_Status)
_IDENTITY = msgspec.json.Decoder(_Identity)
