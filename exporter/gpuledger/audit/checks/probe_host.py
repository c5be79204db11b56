"""A probe or hook connects to a host of its choice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import BASELINE
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "probe-host",
    Severity.HIGH,
    title="probe to another host",
    flags="httpGet.host or tcpSocket.host of a probe or lifecycle hook",
    why="The kubelet makes the connection, from the node: a pod can have it knock on doors that the pod"
    " itself can not reach. Pod Security Standards, baseline: Host Probes / Lifecycle Hooks.",
    remediation="Remove host: the pod is then asked itself.",
    references=(BASELINE,),
    of=("network",),
    expected=True,
)
def probe_host(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each container."""
    for container in pod.containers:
        spec = container.spec
        for field, handler in (
            ("livenessProbe", spec.liveness_probe),
            ("readinessProbe", spec.readiness_probe),
            ("startupProbe", spec.startup_probe),
            ("lifecycle.postStart", spec.lifecycle.post_start),
            ("lifecycle.preStop", spec.lifecycle.pre_stop),
        ):
            if handler and handler.host:
                yield Hit(f"{container.path}.{field}", handler.host, container.name)
