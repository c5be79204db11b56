"""The protocol buffers wire format, as far as messages of strings and messages need it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5


def parse_fields(message: bytes) -> Mapping[int, list[bytes]]:
    """Strings and submessages of an encoded message by field number, each in order; numbers are left out.

    A field that the message lacks is an empty list. Raises ValueError where the bytes are no message.
    Source: https://protobuf.dev/programming-guides/encoding/
    """
    fields: defaultdict[int, list[bytes]] = defaultdict(list)
    start = 0
    while start < len(message):
        tag, start = _varint(message, start)
        wire_type = tag & 7
        if wire_type == _DELIMITED:
            size, start = _varint(message, start)
            end = start + size
            fields[tag >> 3].append(message[start:end])
        elif wire_type == _VARINT:
            _, end = _varint(message, start)
        elif wire_type in (_FIXED64, _FIXED32):
            end = start + (8 if wire_type == _FIXED64 else 4)
        else:
            raise ValueError(f"wire type {wire_type} at byte {start}")
        if end > len(message):
            raise ValueError(f"the message ends within a field, at byte {len(message)}")
        start = end
    return fields


def _varint(message: bytes, start: int) -> tuple[int, int]:
    value = 0
    for position in range(start, min(start + 10, len(message))):
        byte = message[position]
        value |= (byte & 0x7F) << 7 * (position - start)
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, position + 1
    raise ValueError(f"no varint at byte {start}")
