"""Places that several checks flag, each for its own reason."""

from __future__ import annotations

from collections.abc import Iterator

from gpuledger.audit.check import Hit, Severity
from gpuledger.audit.subject import ContainerSubject, PodSubject


def privileged_containers(pod: PodSubject) -> Iterator[Hit]:
    """One for each privileged container."""
    for container in pod.containers:
        if container.spec.security_context.privileged:
            yield Hit(f"{container.path}.securityContext.privileged", "", container.name)


def lacks_limit(pod: PodSubject, container: ContainerSubject, resource: str) -> bool:
    """Whether a container could have a limit and has none: ephemeral containers can't."""
    return container.kind != "ephemeral" and not pod.has_limit(container, resource)


def unlimited_containers(pod: PodSubject, resource: str) -> Iterator[Hit]:
    """One for each container without a limit; an init container is gone before it hurts long."""
    for container in pod.containers:
        if lacks_limit(pod, container, resource):
            severity = Severity.INFO if container.kind == "init" else None
            yield Hit(f"{container.path}.resources.limits.{resource}", "", container.name, severity)
