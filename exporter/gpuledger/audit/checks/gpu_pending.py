"""A pod has been waiting for a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject, waiting_for

_PATIENCE_SECONDS = 15 * 60


@partial(
    Check,
    "gpu-pending",
    Severity.LOW,
    title="waiting for a GPU",
    flags="status.phase Pending without a node for more than 15 minutes in a pod that asks for a GPU",
    why="The pod counts against its quota and does nothing. The scheduler's message says what is missing; a"
    " scheduling gate (Kueue's) means that it waits for admission on purpose.",
    remediation="Compare its request with what nodes have free, its tolerations and its node selector.",
    references=("https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/",),
)
def gpu_pending(pod: PodSubject) -> Iterator[Hit]:
    """Pods that carry no creation time are not judged."""
    reason = waiting_for(pod.manifest)
    created = pod.manifest.meta.creation_timestamp
    if reason and pod.asks and created and pod.context.now - created.timestamp() > _PATIENCE_SECONDS:
        yield Hit("status.conditions", reason)
