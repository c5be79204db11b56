"""A resource quantity that Kubernetes can not read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.subject import PodSubject
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.parse.podspec import Number, Resources
from gpuledger.parse.quantity import readable_amount


@partial(
    Check,
    "invalid-quantity",
    Severity.HIGH,
    title="quantity that can't be meant",
    flags="resources.requests or resources.limits of a container or of the pod, or spec.overhead, that is no"
    " Kubernetes quantity, negative, or more than 2^63-1; more than 10,000 of a GPU",
    why="The API server refuses it, and until then nobody can say what the pod asks for: an amount of GPUs is"
    " shown as unknown, never as 0.",
    remediation="Write a number with one of Kubernetes' suffixes: 1, 500m, 2Gi.",
    references=("https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/",),
)
def invalid_quantity(pod: PodSubject) -> Iterator[Hit]:
    """Quantities of every resource, not of GPUs alone; once where request and limit are the same."""
    for container in pod.containers:
        yield from _refused(container.spec.resources, f"{container.path}.resources", container.name, pod)
    yield from _refused(pod.spec.resources, pod.path("resources"), "", pod)
    for name, quantity in pod.spec.overhead.items():
        if readable_amount(quantity) is None:
            yield Hit(pod.path(f"overhead[{name}]"), f"{name}: {_shown(quantity)}")


def _refused(resources: Resources, path: str, container: str, pod: PodSubject) -> Iterator[Hit]:
    told: dict[str, Number] = {}
    for field, quantities in (("limits", resources.limits), ("requests", resources.requests)):
        for name, quantity in quantities.items():
            if not _is_sane(name, quantity, pod.context.also) and told.get(name) != quantity:
                told[name] = quantity
                yield Hit(f"{path}.{field}[{name}]", f"{name}: {_shown(quantity)}", container)


@lru_cache(maxsize=4096)
def _is_sane(name: str, quantity: Number, also: re.Pattern[str] | None) -> bool:
    amount = readable_amount(quantity)
    devices = gpu_resource_kind(name, also) not in (None, "attribute")
    return amount is not None and not (devices and amount > _MOST_DEVICES)


def _shown(quantity: Number) -> str:
    text = str(quantity)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


_MAX_SHOWN = 40
_MOST_DEVICES = 10_000
