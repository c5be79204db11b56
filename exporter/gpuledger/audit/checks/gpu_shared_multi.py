"""A container asks for several shares of GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod, Finding
from gpuledger.audit.subject import PodSubject
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.parse.quantity import readable_amount


def _judge(facts: ClusterFacts, pod: AuditedPod, finding: Finding) -> Severity | None:
    """Several whole GPUs are shares only where the node says that it shares them."""
    shares = finding.detail.endswith(".shared") or facts.inventory.sharing(pod.node)
    return finding.severity if shares else None


@partial(
    Check,
    "gpu-shared-multi",
    Severity.MEDIUM,
    title="several shares of a GPU",
    flags="more than one of a *.shared resource, or of whole GPUs on a node whose label"
    " nvidia.com/gpu.sharing-strategy is not none",
    why="A share is a place in the queue, not a part of the GPU: two shares give no more compute or memory than"
    " one, may both lie on the same card, and keep others out.",
    remediation="Ask for one share, or for a whole GPU; failRequestsGreaterThanOne makes the plugin refuse it.",
    references=("https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus",),
    of=("GPU request",),
    judge=_judge,
)
def gpu_shared_multi(pod: PodSubject) -> Iterator[Hit]:
    """Whole GPUs too, until the node is known."""
    for container in pod.containers:
        for name in container.gpus:
            limit = readable_amount(container.spec.resources.limits.get(name))
            if limit and limit > 1 and gpu_resource_kind(name, pod.context.also) in ("shared", "whole"):
                path = f"{container.path}.resources.limits[{name}]"
                yield Hit(path, f"{limit} {name}", container.name)
