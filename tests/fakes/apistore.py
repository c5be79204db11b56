"""The objects behind a Kubernetes API, as etcd and the watch cache keep them."""

from __future__ import annotations

import base64
import copy
import json
import threading
import uuid
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects a request is about; `fields` is like `spec.nodeName=a,status.phase!=Failed`."""

    resource: str
    namespace: str = ""
    fields: str = ""

    def covers(self, resource: str, obj: Object) -> bool:
        if resource != self.resource or self.namespace not in ("", obj["metadata"].get("namespace")):
            return False
        return all(_holds(term, obj) for term in self.fields.split(",") if term)


@dataclass(frozen=True, slots=True)
class Change:
    """One write; `old` or `new` is None for a creation or deletion."""

    version: int
    resource: str
    old: Object | None
    new: Object | None

    def event(self, scope: Scope) -> Object | None:
        """What a watch on `scope` sees: what leaves its selector is DELETED, what enters is ADDED."""
        before = self.old is not None and scope.covers(self.resource, self.old)
        after = self.new is not None and scope.covers(self.resource, self.new)
        if after:
            return {"type": "MODIFIED" if before else "ADDED", "object": self.new}
        if before and self.old is not None:
            metadata = {**self.old["metadata"], "resourceVersion": str(self.version)}
            return {"type": "DELETED", "object": {**self.old, "metadata": metadata}}
        return None


class ExpiredError(Exception):
    """The version asked for has been compacted away: HTTP 410."""


class ApiStore:
    """Objects of any kind, each known by what `resource_of` makes of its apiVersion and kind."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 100
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._changes: list[Change] = []
        self.compacted = 0
        self._kinds: dict[str, str] = {}
        self._pages: dict[str, tuple[int, list[Object]]] = {}

    def write(self, obj: Object) -> Object:
        """Create or replace; returns it with the uid and resourceVersion that it got."""
        obj = copy.deepcopy(obj)
        obj["metadata"].setdefault("uid", str(uuid.uuid4()))
        key = _key(obj)
        with self.changed:
            self.version += 1
            obj["metadata"]["resourceVersion"] = str(self.version)
            self._record(key, self._objects.get(key), obj)
            self._objects[key] = obj
            self._kinds[key[0]] = obj["kind"]
        return obj

    def delete(self, obj: Object) -> None:
        key = _key(obj)
        with self.changed:
            self.version += 1
            self._record(key, self._objects.pop(key), None)

    def compact(self) -> None:
        """Forget all history: a watch or a page from before now is answered 410."""
        with self.changed:
            self.compacted = self.version
            self._changes.clear()
            self._pages.clear()

    def objects(self, scope: Scope) -> list[Object]:
        """Everything in `scope`, in etcd's order."""
        with self.changed:
            return [
                self._objects[key] for key in sorted(self._objects) if scope.covers(key[0], self._objects[key])
            ]

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        return self._objects.get((resource, namespace, name))

    def page(self, scope: Scope, limit: int, token: str) -> Object:
        """A page of a list. All pages are of the version of the first. Raises ExpiredError."""
        with self.changed:
            if token and token not in self._pages:
                raise ExpiredError
            version, left = self._pages.pop(token) if token else (self.version, self.objects(scope))
            page, rest = (left[:limit], left[limit:]) if limit else (left, [])
            meta: Object = {"resourceVersion": str(version)}
            if rest:
                last = page[-1]["metadata"]
                start = f"/{last.get('namespace', '')}/{last['name']}\0"
                raw = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start}).encode()
                meta["continue"] = base64.urlsafe_b64encode(raw).decode().rstrip("=")
                meta["remainingItemCount"] = len(rest)
                self._pages[meta["continue"]] = (version, rest)
        kind = f"{self._kinds.get(scope.resource, '')}List"
        return {
            "kind": kind,
            "apiVersion": "v1",
            "metadata": meta,
            "items": [_without_type(obj) for obj in page],
        }

    def since(self, version: int) -> list[Change]:
        """Changes after `version`; raises ExpiredError."""
        with self.changed:
            if version < self.compacted:
                raise ExpiredError
            return [change for change in self._changes if change.version > version]

    def _record(self, key: tuple[str, str, str], old: Object | None, new: Object | None) -> None:
        self._changes.append(Change(self.version, key[0], old, new))
        self.changed.notify_all()


def resource_of(obj: Object) -> str:
    """`pods`, `batch/jobs`, `resource.k8s.io/deviceclasses`: group and plural."""
    group = obj["apiVersion"].rpartition("/")[0]
    plural = obj["kind"].lower() + ("es" if obj["kind"].endswith("s") else "s")
    return f"{group}/{plural}" if group else plural


def _key(obj: Object) -> tuple[str, str, str]:
    return resource_of(obj), obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _without_type(obj: Object) -> Object:
    """Items of a typed list lack what the list says for all of them."""
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}


def _holds(term: str, obj: Object) -> bool:
    path, _, wanted = term.replace("!=", "=", 1).partition("=")
    value: Any = obj
    for step in path.split("."):
        value = value.get(step, "") if isinstance(value, dict) else ""
    return bool(value == wanted) != ("!=" in term)
