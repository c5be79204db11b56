"""The simulated cluster's API: lists and watches of objects that follow from the time.

The time is therefore the resourceVersion: a watch tells what has changed since that moment.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Self

from gpuledger.sources.kubehttp import ApiError
from gpuledger.sources.simulated.clusterobjects import (
    claim_objects,
    class_objects,
    namespace_objects,
    node_objects,
    quota_objects,
    slice_objects,
)
from gpuledger.sources.simulated.podobjects import Object, job_object, pod_object, warnings_about
from gpuledger.sources.simulated.population import Population

_TICK_SECONDS = 1.0
_NOT_FOUND = 404
_NODE_FIELD = "spec.nodeName="
_JOBS = "/apis/batch/v1/namespaces/"


class SimulatedApi:
    """An API server of the simulated cluster; `clock` gives Unix seconds."""

    def __init__(self, population: Population, clock: Callable[[], float]) -> None:
        self._population = population
        self.clock = clock

    def connect(self) -> SimulatedConnection:
        """A connection for one who asks."""
        return SimulatedConnection(self)

    def objects(self, path: str, query: Mapping[str, str], now: float) -> list[Object]:
        """What a collection holds at a Unix time. Raises ApiError for one that is not served."""
        selector = query.get("fieldSelector", "")
        node = selector.removeprefix(_NODE_FIELD) if selector.startswith(_NODE_FIELD) else None
        lives, identities = self._population.lives(now, node), self._population.identities
        collections: dict[str, Callable[[], Iterator[Object]]] = {
            "/api/v1/pods": lambda: (pod_object(life, identities) for life in lives),
            "/api/v1/nodes": lambda: node_objects(self._population),
            "/api/v1/namespaces": lambda: namespace_objects(identities),
            "/api/v1/resourcequotas": lambda: quota_objects(identities, lives),
            "/api/v1/events": lambda: (
                event for life in lives for event in warnings_about(life, identities, now)
            ),
            "/apis/resource.k8s.io/v1/resourceslices": lambda: slice_objects(identities),
            "/apis/resource.k8s.io/v1/deviceclasses": lambda: class_objects(self._population.identities),
            "/apis/resource.k8s.io/v1/resourceclaims": lambda: claim_objects(self._population),
        }
        if path not in collections:
            raise ApiError(f"GET {path}: not found", status=_NOT_FOUND)
        return list(collections[path]())

    def job(self, path: str) -> Object:
        """The Job at a path. Raises ApiError where there is none."""
        for life in self._population.lives(self.clock()):
            kind, name = life.controller
            if kind == "Job" and path == f"{_JOBS}{life.tenant.namespace}/jobs/{name}":
                return job_object(life, self._population.identities)
        raise ApiError(f"GET {path}: not found", status=_NOT_FOUND)


class SimulatedConnection:
    """Asks the simulated API, as ApiConnection does a real one."""

    def __init__(self, api: SimulatedApi) -> None:
        self._api = api
        self._hung_up = threading.Event()

    def get(
        self,
        path: str,
        query: Mapping[str, str],
        *,
        seconds: float,
        quiet: bool = False,  # noqa: ARG002 - nothing here can fall silent
    ) -> SimulatedAnswer:
        """Ask for `path`. Raises ApiError for what is not there."""
        if path.startswith(_JOBS):
            return SimulatedAnswer(iter([json.dumps(self._api.job(path)).encode()]))
        now = self._api.clock()
        objects = self._api.objects(path, query, now)
        if query.get("watch"):
            return SimulatedAnswer(self._events(path, query, seconds))
        body = {"metadata": {"resourceVersion": repr(now)}, "items": objects}
        return SimulatedAnswer(iter([json.dumps(body).encode()]))

    def renew(self) -> None:
        """There are no credentials."""

    def hang_up(self) -> None:
        """End what is being asked, from another thread."""
        self._hung_up.set()

    def _events(self, path: str, query: Mapping[str, str], seconds: float) -> Iterator[bytes]:
        """What changes since the version that is asked for, each second, and a bookmark after it."""
        known = _by_uid(self._api.objects(path, query, float(query["resourceVersion"])))
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._hung_up.wait(_TICK_SECONDS):
            now = self._api.clock()
            version = {"resourceVersion": repr(now)}
            current = _by_uid(self._api.objects(path, query, now))
            for uid, each in current.items():
                if known.get(uid) != each:
                    changed = {**each, "metadata": {**each["metadata"], **version}}
                    yield _line("MODIFIED" if uid in known else "ADDED", changed)
            for uid in known.keys() - current.keys():
                yield _line("DELETED", {"metadata": {"uid": uid, **version}})
            yield _line("BOOKMARK", {"metadata": version})
            known = current


class SimulatedAnswer:
    """An answer, for a `with` and to be read once."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held open."""

    def body(self) -> bytes:
        """All of it."""
        return b"".join(self._parts)

    def lines(self) -> Iterator[bytes]:
        """Every line, as soon as it is there."""
        return self._parts


def _by_uid(objects: list[Object]) -> dict[str, Object]:
    return {each["metadata"]["uid"]: each for each in objects}


def _line(kind: str, of: Object) -> bytes:
    return json.dumps({"type": kind, "object": of}).encode()
