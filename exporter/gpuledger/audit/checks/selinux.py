"""A container chooses an SELinux label beyond those for containers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import BASELINE
from gpuledger.audit.subject import PodSubject

_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")


@partial(
    Check,
    "selinux",
    Severity.HIGH,
    title="SELinux label",
    flags="seLinuxOptions.type beyond the container types, or any user or role, of the pod or a container",
    why="SELinux is what keeps a container that broke out from everything else; spc_t and the like switch"
    " it off. Pod Security Standards, baseline: SELinux.",
    remediation="Remove the options, or use container_t.",
    references=(BASELINE,),
    of=("security context",),
    expected=True,
)
def selinux(pod: PodSubject) -> Iterator[Hit]:
    """The pod's options and each container's."""
    if not pod.linux:
        return
    own = ((container.name, container.path, container.spec.security_context) for container in pod.containers)
    for name, path, context in (("", pod.manifest.path, pod.spec.security_context), *own):
        label = context.se_linux_options
        if label and (label.type not in _TYPES or label.user or label.role):
            detail = ", ".join(filter(None, (label.user, label.role, label.type)))
            yield Hit(f"{path}.securityContext.seLinuxOptions", detail, name)
