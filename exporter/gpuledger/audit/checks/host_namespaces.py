"""A pod shares namespaces with its node."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import BASELINE
from gpuledger.audit.subject import PodSubject


@partial(
    Check,
    "host-namespaces",
    Severity.HIGH,
    title="host namespaces",
    flags="spec.hostNetwork, spec.hostPID, spec.hostIPC: true",
    why="With the PID namespace of the node a container sees and signals every process of every tenant;"
    " with its network it reaches what listens on loopback alone; with its IPC it joins shared memory."
    " Pod Security Standards, baseline: Host Namespaces.",
    remediation="Remove the fields. RDMA needs no host network where a secondary network (SR-IOV, macvlan) is"
    " attached.",
    references=(BASELINE,),
    expected=True,
)
def host_namespaces(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each namespace."""
    for field, shared in (
        ("hostNetwork", pod.spec.host_network),
        ("hostPID", pod.spec.host_pid),
        ("hostIPC", pod.spec.host_ipc),
    ):
        if shared:
            yield Hit(pod.path(field), field)
