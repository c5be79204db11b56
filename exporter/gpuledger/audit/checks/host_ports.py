"""A container takes a port of its node."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import BASELINE
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "host-ports",
    Severity.HIGH,
    title="host port",
    flags="ports[].hostPort other than 0 in any container",
    why="The port is open on every address of the node, past Services and most NetworkPolicies, and only"
    " one pod a node can have it. Pod Security Standards, baseline: Host Ports.",
    remediation="Use a Service.",
    references=(BASELINE,),
    of=("network",),
    expected=True,
)
def host_ports(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each container."""
    for container in pod.containers:
        ports = [str(port.host_port) for port in container.spec.ports if port.host_port]
        if ports:
            yield Hit(f"{container.path}.ports", f"host port {', '.join(ports)}", container.name)
