"""A resource quantity that Kubernetes can not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject
from gpuledger.parse.podspec import Number
from gpuledger.parse.quantity import parse_quantity


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
            for name, quantity in _unreadable(getattr(container.spec.resources, field)):
                path = f"{container.path}.resources.{field}[{name}]"
                yield Hit(path, f"{name}: {quantity}", container.name)
    for name, quantity in _unreadable(pod.spec.overhead):
        yield Hit(pod.path(f"overhead[{name}]"), f"{name}: {quantity}")


def _unreadable(quantities: Mapping[str, Number]) -> Iterator[tuple[str, Number]]:
    for name, quantity in quantities.items():
        try:
            parse_quantity(str(quantity))
        except ValueError:
            yield name, quantity
