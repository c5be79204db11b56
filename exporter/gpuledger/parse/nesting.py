"""JSON that is nested deeper than a decoder follows: what anybody may put into a claim's opaque parameters."""

from __future__ import annotations

import re

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]]', re.DOTALL)
"""A string, or a bracket outside of strings."""


def cut_nesting(text: bytes, depth: int) -> bytes:
    """The JSON with null in place of every object and array that is nested deeper than `depth`."""
    parts: list[bytes] = []
    level = kept = 0
    for token in _TOKEN.finditer(text):
        if token[0] in (b"{", b"["):
            level += 1
            if level == depth + 1:
                parts += text[kept : token.start()], b"null"
                kept = len(text)
        elif token[0] in (b"}", b"]"):
            if level == depth + 1:
                kept = token.end()
            level -= 1
    return b"".join([*parts, text[kept:]])
