"""The audit of what runs on a node's GPUs: misuse that goes on, with the catalogue's severities."""

from __future__ import annotations

from gpuledger.audit.infrastructure import role_of
from gpuledger.audit.runtime import RUNTIME_CHECKS
from gpuledger.core.attribution import PodIndex
from gpuledger.core.misuse import Misuse, NodeView, Patience, misuse
from gpuledger.core.snapshot import RuntimeFinding

_SEVERITIES = {check.id: str(check.severity) for check in RUNTIME_CHECKS}


class RuntimeAudit:
    """Finds what has gone on for long enough; GPUs count as idle after `idle_window` seconds."""

    def __init__(self, idle_window: float) -> None:
        self._patience = Patience(idle_window)

    def findings(self, view: NodeView, now: float) -> tuple[RuntimeFinding, ...]:
        """What is found in a cycle at the steady time `now`."""
        return tuple(
            RuntimeFinding(
                each.check, _SEVERITIES[each.check], each.owner, exempt=_is_expected(each, view.pods)
            )
            for each in self._patience.outlasted(misuse(view), now)
        )


def _is_expected(found: Misuse, pods: PodIndex) -> bool:
    """Whether it is what GPU infrastructure is there for: a metrics exporter asks for no GPU and uses all."""
    pod = pods.by_uid.get(found.owner.pod_uid) if found.owner and found.owner.pod_uid else None
    if pod is None or found.check not in ("rt-use-without-request", "rt-use-wrong-device"):
        return False
    images = [container.image for container in pod.containers]
    return bool(role_of(pod.namespace, pod.workload, images))
