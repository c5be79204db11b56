"""A Windows container that is a process of its host."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import BASELINE
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "host-process",
    Severity.HIGH,
    title="Windows host process",
    flags="securityContext.windowsOptions.hostProcess: true of the pod or a container",
    why="A HostProcess container runs on the Windows host itself. Pod Security Standards, baseline:"
    " HostProcess.",
    remediation="Remove hostProcess.",
    references=(BASELINE,),
    of=("security context",),
    expected=True,
)
def host_process(pod: PodSubject) -> Iterator[Hit]:
    """Windows' counterpart of privileged."""
    if pod.spec.security_context.windows_options.host_process:
        yield Hit(pod.path("securityContext.windowsOptions.hostProcess"))
    for container in pod.containers:
        if container.spec.security_context.windows_options.host_process:
            yield Hit(f"{container.path}.securityContext.windowsOptions.hostProcess", "", container.name)
