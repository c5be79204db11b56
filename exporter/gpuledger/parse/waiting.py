"""Why a pod has no node yet, as one of a few classes: the scheduler's message is for people."""

from __future__ import annotations

import re
from typing import Literal

from gpuledger.core.resources import gpu_resource_kind
from gpuledger.parse.manifests import PodManifest

WaitReason = Literal[
    "gated",
    "queued",
    "insufficient-gpu",
    "claim",
    "insufficient-resources",
    "volume",
    "taint",
    "affinity",
    "unschedulable",
]
"""`gated`: held back on purpose (Kueue, a scheduling gate); `queued`: not looked at yet; `insufficient-gpu`: a
node would do if a GPU were free; `claim`: a device claim can't be allocated; `unschedulable`: else.
"""

_INSUFFICIENT = re.compile(r"Insufficient ([\w./-]+\w)")

# Nodes differ in what is wrong with them: what is nearest to a GPU goes first.
_CLASSES: tuple[tuple[WaitReason, re.Pattern[str]], ...] = (
    ("claim", re.compile(r"cannot allocate all claims|resource ?claim|DeviceClass", re.IGNORECASE)),
    ("insufficient-resources", re.compile(r"Insufficient |Too many pods")),
    ("volume", re.compile(r"volume", re.IGNORECASE)),
    ("taint", re.compile(r"taint")),
    ("affinity", re.compile(r"affinity|selector|topology spread|didn't match")),
)


def parse_waiting(manifest: PodManifest, also: re.Pattern[str] | None = None) -> WaitReason | None:
    """Why a pod has no node; None for one that has, or has ended."""
    if manifest.terminal or manifest.spec.node_name:
        return None
    if manifest.spec.scheduling_gates:
        return "gated"
    for condition in manifest.status.conditions:
        if condition.type == "PodScheduled" and condition.status != "True":
            return _reason(condition.message, also)
    return "queued"


def _reason(message: str, also: re.Pattern[str] | None) -> WaitReason:
    """The class of a scheduler's message; what it says of preemption is no reason."""
    message = message.partition("preemption:")[0]
    if any(gpu_resource_kind(name, also) for name in _INSUFFICIENT.findall(message)):
        return "insufficient-gpu"
    return next((reason for reason, pattern in _CLASSES if pattern.search(message)), "unschedulable")
