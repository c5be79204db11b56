"""Where the audit's objects come from: files, standard input or a live cluster; and how far it has got."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from gpuledger.app.stderr import write_stderr
from gpuledger.audit.annotations import vain_annotations
from gpuledger.audit.checks import CHECKS
from gpuledger.audit.engine import Audit
from gpuledger.audit.finding import AuditedPod
from gpuledger.core.errors import SourceError
from gpuledger.core.text import printable
from gpuledger.parse.dump import Located, Unreadable, parse_dump
from gpuledger.parse.manifests import PodManifest
from gpuledger.sources.dumps import STDIN, read_dump
from gpuledger.sources.spool import Spool

if TYPE_CHECKING:
    from gpuledger.sources.kubehttp import Connection

_PROBLEMS_KEPT = 100
_PROGRESS_EVERY = 256
_PROGRESS_SECONDS = 0.5

_OF_A_NAMESPACE = ("resourcequotas", "resourceclaims", "resourceclaimtemplates")
_OF_THE_CLUSTER = ("nodes", "namespaces", "deviceclasses", "resourceslices", *_OF_A_NAMESPACE)
_NOT_TO_BE_SEEN = (403, 404)


@dataclass(slots=True)
class Intake:
    """Feeds objects to the audit; what can't be read is told at once and hides nothing else."""

    audit: Audit
    audited: Spool[AuditedPod]
    problems: list[str] = field(default_factory=list)
    _undecided: list[tuple[Located, str]] = field(default_factory=list)
    _objects: int = 0
    _told_at: float = field(default_factory=time.monotonic)
    _line_shown: bool = False

    def read_file(self, path: str) -> None:
        """Audit what a file holds."""
        label = "<stdin>" if path == STDIN else path
        failures: list[SourceError] = []
        chunks = _before_failure(read_dump(path), failures)
        first = next(chunks, None)
        if first is not None:
            self._read(chain([first], chunks), label)
        for failure in failures:
            self._problem(f"{label}: {failure}")

    def read_cluster(self, connection: Connection, namespace: str) -> None:
        """Audit the pods of a cluster or of one namespace, with whatever explains them and may be seen.

        Of one namespace's pods, what nodes have free can't be told: nodes are left out.
        """
        from gpuledger.sources.kubehttp import ApiError  # noqa: PLC0415 - dumps need none of it
        from gpuledger.sources.livedump import read_collection  # noqa: PLC0415 - as above

        try:
            self._read(read_collection(connection, "pods", namespace), "the cluster")
        except ApiError as error:
            self._problem(str(error))
            return
        for resource in _OF_A_NAMESPACE if namespace else _OF_THE_CLUSTER:
            try:
                self._read(read_collection(connection, resource, namespace), "the cluster")
            except ApiError as error:
                if error.status not in _NOT_TO_BE_SEEN:
                    self._problem(str(error))

    def finish(self) -> None:
        """Audit the pods that waited for DeviceClasses, and clear the line that showed progress."""
        self.audit.decide()
        for found, label in self._undecided:
            self._take(found, label)
        self._clear_progress()

    def _clear_progress(self) -> None:
        if self._line_shown:
            write_stderr("\r\x1b[K")

    def _read(self, chunks: Iterable[bytes], label: str) -> None:
        for found in parse_dump(chunks):
            if isinstance(found, Unreadable):
                self._problem(f"{label}: {found.message}")
                continue
            self._take(found, label)
            self._objects += 1
            if self._objects % _PROGRESS_EVERY == 0:
                self._show_progress()

    def _take(self, found: Located, label: str) -> None:
        pod = self.audit.take(found.item)
        if pod is not None:
            self.audited.append(msgspec.structs.replace(pod, file=label, line=found.line))
            if isinstance(found.item, PodManifest):
                self._tell_of_annotations(found.item, label)
        elif self.audit.undecided:
            self.audit.undecided.clear()
            self._undecided.append((found, label))

    def _tell_of_annotations(self, manifest: PodManifest, label: str) -> None:
        for remark in vain_annotations(self.audit.excuses(manifest), CHECKS):
            name = f"{manifest.kind} {manifest.namespace}/{manifest.meta.name}"
            write_stderr(f"{printable(f'{label}: {name}: {remark}')}\n")

    def _show_progress(self) -> None:
        if time.monotonic() - self._told_at > _PROGRESS_SECONDS:
            self._told_at = time.monotonic()
            if sys.stderr.isatty():
                self._line_shown = True
                write_stderr(f"\r{self._objects:,} objects read")

    def _problem(self, message: str) -> None:
        self._clear_progress()
        write_stderr(f"error: {printable(message)}\n".encode(errors="backslashreplace").decode())
        if len(self.problems) < _PROBLEMS_KEPT:
            self.problems.append(message)


def _before_failure(chunks: Iterable[bytes], failures: list[SourceError]) -> Iterator[bytes]:
    """The chunks up to the one that can't be read: YAML is parsed once all are there."""
    try:
        yield from chunks
    except SourceError as failure:
        failures.append(failure)
