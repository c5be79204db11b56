"""A dump or manifest file as a stream of bytes: JSON in any of kubectl's shapes, or YAML documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import msgspec

from gpuledger.parse.jsonstream import JsonStreamError, Malformed, iter_objects
from gpuledger.parse.manifests import KubeObject, ManifestError, parse_objects, parse_plain_object
from gpuledger.parse.yamldocs import YamlError, parse_yaml, split_yaml


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
    while not head.strip() and (chunk := next(stream, b"")):
        head += chunk
    if head.lstrip()[:1] in (b"{", b"[", b""):
        return _json(chain([head], stream))
    return _yaml(b"".join(chain([head], stream)))


def _json(chunks: Iterable[bytes]) -> Iterator[Located | Unreadable]:
    try:
        for found in iter_objects(chunks, parse_objects):
            if isinstance(found, Malformed):
                yield Unreadable(f"object {found.position}: {found.message}")
            else:
                yield Located(found)
    except JsonStreamError as error:
        yield Unreadable(f"not JSON: {error}")


def _yaml(data: bytes) -> Iterator[Located | Unreadable]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        yield Unreadable(f"neither JSON nor YAML: {error.reason} at byte {error.start}")
        return
    for line, document in split_yaml(text):
        try:
            for item in parse_plain_object(parse_yaml(document)):
                yield Located(item, line)
        except (YamlError, ManifestError) as error:
            yield Unreadable(f"document at line {line}: {error}")
