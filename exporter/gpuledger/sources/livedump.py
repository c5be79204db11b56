"""A live cluster as a dump: the lists that kubectl would print, page by page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from gpuledger.parse.clusterobjects import DRA_GROUPS
from gpuledger.sources.kubehttp import ApiError

if TYPE_CHECKING:
    from gpuledger.sources.kubehttp import Connection

_PAGE_LIMIT = "500"
_ANSWER_SECONDS = 60.0
_ATTEMPTS = 4
_NOT_FOUND = 404
_GONE = 410
_BUSY = 429
_MAX_WAIT_SECONDS = 30.0

_OF_DEVICES = ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices")


class _Meta(msgspec.Struct, rename={"token": "continue"}):
    token: str = ""


class _Page(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_page = msgspec.json.Decoder(_Page)


def read_collection(connection: Connection, resource: str, namespace: str = "") -> Iterator[bytes]:
    """Every page of a list, each a JSON document; of one namespace, if one is named.

    A list that expires between two pages begins again, so that objects may come twice.

    Raises:
        ApiError: the API refuses, or does not answer.
    """
    for path in (paths := _paths(resource, namespace)):
        try:
            yield from _list(connection, path)
        except ApiError as error:
            if error.status != _NOT_FOUND or path == paths[-1]:
                raise
        else:
            return


def _list(connection: Connection, path: str) -> Iterator[bytes]:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            yield from _pages(connection, path)
        except ApiError as error:
            if attempt == _ATTEMPTS or error.status not in (_GONE, _BUSY):
                raise
            time.sleep(min(error.retry_after, _MAX_WAIT_SECONDS))
        else:
            return


def _pages(connection: Connection, path: str) -> Iterator[bytes]:
    query = {"limit": _PAGE_LIMIT}
    while True:
        with connection.get(path, query, seconds=_ANSWER_SECONDS) as answer:
            body = answer.body()
        yield body
        try:
            token = _page.decode(body).metadata.token
        except msgspec.DecodeError as error:
            raise ApiError(f"GET {path}: not a list: {error}") from error
        if not token:
            return
        query = {"limit": _PAGE_LIMIT, "continue": token}


def _paths(resource: str, namespace: str) -> list[str]:
    """Where servers of some age have it, the newest first."""
    groups = DRA_GROUPS if resource in _OF_DEVICES else ("/api/v1",)
    return [
        f"{group}/namespaces/{namespace}/{resource}" if namespace else f"{group}/{resource}" for group in groups
    ]
