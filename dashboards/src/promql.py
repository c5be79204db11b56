"""Pieces of PromQL that dashboards share, and the scopes that their variables give a selector.

A query names its scope in braces, as in `gpuledger_gpu_up{NODE}` or `gpuledger_gpu_up{GPU, job="x"}`. Exporters
may be scraped twice, and node and cluster role both tell of pods, so `max` comes before anything is added up.
"""

from __future__ import annotations

import re

from gpuledger.metrics.xids import read_xids

_CLUSTER = 'cluster=~"$cluster"'
_NAMESPACE = f'{_CLUSTER}, namespace=~"$namespace"'
SCOPES = {
    "CLUSTER": _CLUSTER,
    "NODE": f'{_CLUSTER}, node=~"$node"',
    "GPU": f'{_CLUSTER}, node=~"$node", gpu_uuid=~"$gpu"',
    "NAMESPACE": _NAMESPACE,
    "WORKLOAD": f'{_NAMESPACE}, workload=~"$workload"',
    "POD": f'{_NAMESPACE}, pod=~"$pod"',
    "AUDIT": f'{_NAMESPACE}, severity=~"$severity"',
}
_SCOPE = re.compile(r"\{(" + "|".join(SCOPES) + r")\b")

DEVICE = "cluster, node, gpu, gpu_uuid"
CONTAINER = "cluster, namespace, pod, container"
OWNER = "cluster, namespace, workload_kind, workload"

MODEL = "group by (cluster, gpu_uuid, model) (gpuledger_gpu_info{CLUSTER})"
NOT_SLOWED = "idle|applications_clocks_setting|sync_boost|display_clock_setting|sw_power_cap"
"""Reasons for a lower clock that hold nobody up; the power cap is the normal state of a busy GPU."""

CRITICAL_XIDS = "|".join(str(xid.code) for xid in read_xids().of_tier("critical"))


def expand(query: str) -> str:
    """The query on one line, its scopes written out."""
    return _SCOPE.sub(lambda found: "{" + SCOPES[found[1]], " ".join(query.split()))


def per_gpu(metric: str, scope: str = "CLUSTER", matcher: str = "") -> str:
    """A reading of each GPU, once."""
    selector = f"{scope}, {matcher}" if matcher else scope
    return f"max by ({DEVICE}) (gpuledger_{metric}{{{selector}}})"


def by_model(aggregation: str, query: str) -> str:
    """A reading of each GPU, aggregated by the GPUs' model."""
    return f"{aggregation} by (model) ({query} * on (cluster, gpu_uuid) group_left (model) {MODEL})"


def or_zero(query: str, where: str) -> str:
    """The query's number, or 0 where it has none although `where` shows that somebody has looked."""
    return f"{query} or 0 * count({where})"


def over_range(recorded: str, scope: str = "WORKLOAD") -> str:
    """A recorded amount of the last hour, summed over the hours that the dashboard shows."""
    return f"sum_over_time(namespace_workload:gpuledger_{recorded}:increase1h{{{scope}}}[$__range:1h])"
