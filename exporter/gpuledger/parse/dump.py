"""A dump or manifest file as a stream of bytes: JSON in any of kubectl's shapes, or YAML documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import msgspec

from gpuledger.parse.jsonstream import JsonStream, JsonStreamError, Malformed
from gpuledger.parse.manifests import KubeObject, ManifestError, parse_objects, parse_plain_object


class Located(msgspec.Struct, frozen=True, gc=False):
    """An object, and the line of its document in the file (1 in JSON, which tells no lines)."""

    item: KubeObject
    line: int = 1


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A part of the file that could not be read; what comes after it was, unless it is the last."""

    message: str


def parse_dump(chunks: Iterable[bytes]) -> Iterator[Located | Unreadable]:
    """The objects of a dump that matter to an audit, in order, with what could not be read between them."""
    stream = iter(chunks)
    head = b""
    while len(head.strip()) < _ENOUGH and (chunk := next(stream, b"")):
        head += chunk
    if not head.strip() or _JSON.match(head):
        return _json(chain([head], stream))
    return _yaml(b"".join(chain([head], stream)))


_ENOUGH = 2
_JSON = re.compile(rb"\s*(?:\{\s*[\"}]|\{\s*$|\[)")
"""YAML has braces and brackets too, but people quote no keys there."""


@dataclass(slots=True)
class _StrictParser:
    """As `parse_objects`; a key that stands twice is an error: whichever counts hides the other.

    `left` are the bytes that are searched for that, which is slow: more than that, a program wrote.
    """

    left: int = 1 << 16

    def __call__(self, array: bytes, list_kind: str) -> list[KubeObject | ManifestError]:
        objects = parse_objects(array, list_kind)
        self.left -= len(array)
        if self.left > 0:
            with suppress(RecursionError):  # nested deeper than any field that is read
                json.loads(array, object_pairs_hook=_without_repetition)
        return objects


def _without_repetition(members: list[tuple[str, object]]) -> None:
    keys = [key for key, _ in members]
    if len(set(keys)) < len(keys):
        repeated = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise ManifestError(f"the key {repeated!r} stands twice")


def _json(chunks: Iterable[bytes]) -> Iterator[Located | Unreadable]:
    stream = JsonStream(chunks, _StrictParser())
    try:
        for found in stream.objects():
            if isinstance(found, Malformed):
                yield Unreadable(f"object {found.position}: {found.message}")
            elif isinstance(found, ManifestError):
                yield Unreadable(str(found))
            else:
                yield Located(found)
        for document in _yaml(b"".join(stream.rest())):
            yield Located(document.item) if isinstance(document, Located) else document
    except JsonStreamError as error:
        yield Unreadable(f"not JSON: {error}")


def _yaml(data: bytes) -> Iterator[Located | Unreadable]:
    from gpuledger.parse.yamldocs import YamlError, parse_yaml, split_yaml  # noqa: PLC0415 - JSON needs none of it

    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        yield Unreadable(f"neither JSON nor YAML: {error.reason} at byte {error.start}")
        return
    values = 0
    line = 0
    for line, document in split_yaml(text):
        try:
            value = parse_yaml(document)
            if value is None:
                continue  # what a template engine leaves of a part that was not wanted
            values += 1
            for found in parse_plain_object(value):
                yield Unreadable(str(found)) if isinstance(found, ManifestError) else Located(found, line)
        except (YamlError, ManifestError) as error:
            values += 1
            yield Unreadable(f"document at line {line}: {error}")
    if line and not values:
        yield Unreadable(f"document at line {line}: expected a Kubernetes object, got null")
