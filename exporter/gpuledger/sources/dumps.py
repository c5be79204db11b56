"""Dumps and manifests: files or standard input, as they are or compressed by gzip."""

from __future__ import annotations

import codecs
import errno
import gzip
import sys
import zlib
from collections.abc import Iterator
from io import BufferedReader

from gpuledger.core.errors import SourceError

STDIN = "-"

# What is cut into objects and decoded should fit the processor's cache; benchmarks/audit.py tells.
_CHUNK = 1 << 17
_GZIP_MAGIC = b"\x1f\x8b"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_dump(path: str) -> Iterator[bytes]:
    """The bytes of a dump, in chunks, uncompressed and in UTF-8 without a byte order mark.

    UTF-16 is what PowerShell's `>` writes.

    Raises:
        SourceError: the file can't be opened, read or uncompressed.
    """
    try:
        with _opened(path) as file:
            compressed = file.peek(2)[:2] == _GZIP_MAGIC
            # `read` would lose what precedes a broken member, for it fills the whole chunk first.
            read = gzip.GzipFile(fileobj=file).read1 if compressed else file.read
            yield from _utf8(iter(lambda: read(_CHUNK), b""))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise SourceError(reason or str(error)) from error


def _opened(path: str) -> BufferedReader:
    if path == STDIN:
        if sys.stdin is None:
            raise OSError(errno.EBADF, "closed")
        return open(sys.stdin.fileno(), "rb", closefd=False)
    return open(path, "rb")  # noqa: PTH123 - a path as the user wrote it


def _utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(chunks, b"")
    if first.startswith(_UTF16_MARKS):
        decoder = codecs.getincrementaldecoder("utf-16")()
        yield decoder.decode(first).encode()
        for chunk in chunks:
            yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", final=True).encode()
    else:
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from chunks
