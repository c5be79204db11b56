"""A pod sets kernel parameters that reach beyond it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import BASELINE
from gpuledger.audit.subject import PodSubject

_SAFE = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    )
)


@partial(
    Check,
    "sysctls",
    Severity.HIGH,
    title="unsafe sysctls",
    flags="spec.securityContext.sysctls beyond the safe set",
    why="Parameters outside of the safe set belong to the node: they weaken or starve everybody on it."
    " Pod Security Standards, baseline: Sysctls.",
    remediation="Set them on the nodes, for all.",
    references=(BASELINE,),
    of=("security context",),
    expected=True,
)
def sysctls(pod: PodSubject) -> Iterator[Hit]:
    """One finding, with all names."""
    unsafe = [sysctl.name for sysctl in pod.spec.security_context.sysctls if sysctl.name not in _SAFE]
    if unsafe and pod.linux:
        yield Hit(pod.path("securityContext.sysctls"), ", ".join(unsafe))
