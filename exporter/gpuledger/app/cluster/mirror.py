"""What the API has of one kind of object, and what a change of it changes here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")

Changed = Callable[[str, T | None, T | None], None]
"""Told the UID of an object, what it was and what it now is; None where there was or is none."""


class Mirror(Generic[T]):
    """Objects by UID, the sink of a watch: every change is told to `changed`.

    `lock` is held meanwhile, an object at a time, so that a scrape never waits for a whole list. After a list
    or an event `settle` does what is left to do, under the lock too. Of more than `limit` objects those go that
    came first.
    """

    def __init__(
        self,
        lock: Lock,
        uid: Callable[[T], str],
        changed: Changed[T],
        settle: Callable[[], None] = lambda: None,
        limit: int | None = None,
    ) -> None:
        self.objects: dict[str, T] = {}
        self._lock = lock
        self._uid = uid
        self._changed = changed
        self._settle = settle
        self._limit = limit

    def replace(self, objects: Sequence[T]) -> None:
        """All objects that there are."""
        new = {self._uid(each): each for each in objects}
        for uid in self.objects.keys() - new.keys():
            self._change(uid, None)
        for uid, each in new.items():
            self._change(uid, each)
        self._end()

    def put(self, new: T) -> None:
        """An object that has come or changed."""
        self._change(self._uid(new), new)
        self._end()

    def remove(self, uid: str) -> None:
        """An object that has gone."""
        self._change(uid, None)
        self._end()

    def _change(self, uid: str, new: T | None) -> None:
        with self._lock:
            old = self.objects.get(uid)
            if old == new:
                return
            if new is None:
                del self.objects[uid]
            else:
                self.objects[uid] = new
            self._changed(uid, old, new)
        if self._limit is not None and len(self.objects) > self._limit:
            self._change(next(iter(self.objects)), None)

    def _end(self) -> None:
        with self._lock:
            self._settle()
