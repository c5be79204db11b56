"""A resource quantity that Kubernetes can not read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject
from gpuledger.parse.quantity import parse_readable


@partial(
    Check,
    "invalid-quantity",
    Severity.HIGH,
    title="quantity that can't be read",
    flags="resources.requests or resources.limits of a container, or spec.overhead, that is no Kubernetes"
    " quantity",
    why="The API server refuses it, and until then nobody can say what the pod asks for: it is counted as"
    " unknown, never as 0.",
    remediation="Write a number with one of Kubernetes' suffixes: 1, 500m, 2Gi.",
    references=("https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/",),
)
def invalid_quantity(pod: PodSubject) -> Iterator[Hit]:
    """Quantities of every resource, not of GPUs alone."""
    for container in pod.containers:
        for field in ("requests", "limits"):
            quantities = getattr(container.spec.resources, field)
            for name in quantities.keys() - parse_readable(quantities).keys():
                yield Hit(
                    f"{container.path}.resources.{field}[{name}]", f"{name}: {quantities[name]}", container.name
                )
    for name in pod.spec.overhead.keys() - parse_readable(pod.spec.overhead).keys():
        yield Hit(pod.path(f"overhead[{name}]"), f"{name}: {pod.spec.overhead[name]}")
