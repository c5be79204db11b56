"""Holders written as one line, and a node's evidence from its captured files."""

from __future__ import annotations

import tomllib
from pathlib import Path

from fakes.nodes import FOLDER, Node
from gpuledger.core.attribution import Evidence, PodIndex
from gpuledger.core.model import LoggedPod, Owner, Pod, PodLogs, PodUid, ProcessFacts
from gpuledger.core.snapshot import Holder
from gpuledger.parse.cgroup import parse_cgroup
from gpuledger.parse.podlogs import parse_container_log_name, parse_pod_log_dir
from gpuledger.parse.workload import infer_workload


def render_holder(holder: Holder) -> str:
    """`namespace/pod/container kind/workload`, with `?` behind a guessed workload; or `reason unit`."""
    if not isinstance(holder, Owner):
        return f"{holder.reason} {holder.unit}".strip()
    workload = holder.workload
    guess = "?" if workload.inferred else ""
    place = f"{holder.namespace}/{holder.pod}/{holder.container}"
    return f"{place} {workload.kind}/{workload.name}{guess}" if workload.name else place


def read_owners(folder: str, file: str) -> dict[int, str]:
    """The holders that a folder of the corpus expects, by PID; none where it has no such file."""
    path = Path(FOLDER, folder, file)
    return (
        {int(pid): holder for pid, holder in tomllib.loads(path.read_text()).items()} if path.exists() else {}
    )


def node_evidence(node: Node, *, pods: tuple[Pod, ...] = (), logs: bool = True) -> Evidence:
    """What is known on a captured node, with the API's pods given, and with or without its log folders."""
    facts = {
        pid: ProcessFacts(pid, cgroup=parse_cgroup(text, root_is_host=node.root_is_host))
        for pid, text in node.cgroups.items()
    }
    return Evidence(facts, PodIndex.of(pods), pod_logs(node) if logs else PodLogs(), infer_workload)


def pod_logs(node: Node) -> PodLogs:
    """The log folders of a captured node."""
    links = (parse_container_log_name(name, target) for name, target in node.links.items())
    pods: dict[PodUid, LoggedPod] = {}
    for path in node.pod_dirs:
        folder, _, container = path.partition("/")
        parsed = parse_pod_log_dir(folder)
        if parsed is not None:
            uid, namespace, pod = parsed
            before = pods[uid].containers if uid in pods else ()
            pods[uid] = LoggedPod(namespace, pod, (*before, container) if container else before)
    return PodLogs(dict(link for link in links if link is not None), pods)
