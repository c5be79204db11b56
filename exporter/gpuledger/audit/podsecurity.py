"""What the controls of the Pod Security Standards share."""

from __future__ import annotations

from gpuledger.audit.subject import ContainerSubject, PodSubject

BASELINE = "https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline"
RESTRICTED = "https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted"


def seccomp_of(pod: PodSubject, container: ContainerSubject) -> str:
    """The type of the seccomp profile in force: the container's own, else the pod's, else empty."""
    own = container.spec.security_context.seccomp_profile.type
    return own or pod.spec.security_context.seccomp_profile.type
