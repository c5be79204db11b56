"""Bytes near to what a parser knows: cut off, with parts repeated, removed, exchanged or made up."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

# What ends, begins, nests, escapes or overflows something in one of the formats.
_TOKENS = (
    *(sign.encode() for sign in "\"'{}[]:,\n\r\\/-|\0\x7f\u2028\u0663"),
    *(b"\x80", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\n---\n"),
    *b'.. :: &a *a 0 -1 1e999 NaN null true {} [] "" "items":[ "kind":"List",'.split(),
    *(b"9" * 25, b"9" * 4301, b" " * 300, b"0001-01-01T00:00:00", b"9999-12-31T23:59:59.999999-23:59"),
)


@st.composite
def near(draw: st.DrawFn, known: Sequence[bytes]) -> bytes:
    """One of the known inputs after a few edits."""
    data = draw(st.sampled_from(known))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.integers(0, 8) | st.integers(0, len(data) - start))
        data = data[:start] + draw(_instead_of(data[start:end], known)) + data[end:]
        if draw(st.booleans()):
            data = data[: draw(st.integers(0, len(data)))]
    return data


def _instead_of(part: bytes, known: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Nothing, the part repeated, anything, a token, or another input from some place on."""
    repeated = st.integers(2, 5).map(lambda times: part * times)
    other = st.tuples(st.sampled_from(known), st.integers(0, 1000)).map(lambda drawn: drawn[0][drawn[1] :])
    return st.just(b"") | repeated | st.binary(max_size=8) | st.sampled_from(_TOKENS) | other


SIZE = 20_000
HOSTILE = {
    "nothing": b"",
    "spaces": b" " * SIZE,
    "newlines": b"\n" * SIZE,
    "letters": b"a" * SIZE,
    "digits": b"9" * SIZE,
    "zero bytes": b"\0" * SIZE,
    "high bytes": b"\xff" * SIZE,
    "dashes": b"-" * SIZE,
    "dots": b"a." * (SIZE // 2),
    "slashes": b"0::" + b"/" * SIZE,
    "folders": b"0::" + b"/a-kubepods-pod" * (SIZE // 15),
    "lines": b"1:memory:/a\n" * (SIZE // 12),
    "open brackets": b"[" * SIZE,
    "open braces": b'{"a":' * (SIZE // 5),
    "nested arrays": b"[" * (SIZE // 2) + b"]" * (SIZE // 2),
    "nested objects": b'{"a":' * (SIZE // 6) + b"1" + b"}" * (SIZE // 6),
    "nested in a list": b'{"kind":"List","metadata":{},"items":['
    + b'{"a":' * (SIZE // 6)
    + b"1"
    + b"}" * (SIZE // 6)
    + b"]}",
    "nested in a pod": b'[{"kind":"Pod","spec":{"containers":' + b"[" * SIZE,
    "nested in an event": b'{"type":"ADDED","object":'
    + b'{"metadata":' * (SIZE // 12)
    + b"1"
    + b"}" * (SIZE // 12)
    + b"}",
    "nested lists": b'{"kind":"List","items":[' * (SIZE // 24),
    "braces": b"{}" * (SIZE // 2),
    "objects": b"{}\n" * (SIZE // 3),
    "objects of which the last is none": b'{"kind":"Service"}\n' * (SIZE // 19) + b'{"kind":1}\n',
    "objects of which every other is none": b'{"kind":"Service"}\n{"kind":1}\n' * (SIZE // 30),
    "items of which the last is none": b'{"kind":"List","items":[\n'
    + b'{"kind":"Service"},\n' * (SIZE // 20)
    + b"{]}",
    "quotes": b'"' * SIZE,
    "backslashes": b'"' + b"\\" * SIZE,
    "keys": b"{" + b'"a":1,' * (SIZE // 6),
    "documents": b"---\n" * (SIZE // 4),
    "YAML keys": b"a: " * (SIZE // 3),
    "YAML lists": b"- " * (SIZE // 2),
    "YAML questions": b"? " * (SIZE // 2),
    "YAML flows": b"{a: " * (SIZE // 4),
    "aliases": b"a0: &a0 [x, x]\n"
    + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, 60)),
    "merges": b"a0: &a0 {x: 1}\n"
    + b"".join(b"a%d: &a%d {<<: [*a%d, *a%d]}\n" % (n, n, n - 1, n - 1) for n in range(1, 25)),
    "anchor in itself": b"a: &a [*a]\nkind: Pod\nspec: *a\n",
    "tables": b"[a" + b".a" * (SIZE // 2) + b"]",
    "varints": b"\x0a\x80" * (SIZE // 2),
    "messages": b"\x0a\x00" * (SIZE // 2),
    "weights": b"text/plain;q=0.1," * (SIZE // 17),
}
"""Where a parser's time, memory or stack would grow faster than its input."""
