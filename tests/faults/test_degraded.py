"""One documented query says on which node attribution is degraded, and because of what."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from fakes.tenants import NODE
from tools.documented import read_queries
from tools.node import Node
from tools.prometheus import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fakes.world import World
    from tools.prometheus import Sample

pytestmark = pytest.mark.e2e

QUERIES = read_queries("attribution.md")
DEGRADED = QUERIES["attribution is degraded, by what is missing"]
AGE = QUERIES["age of what a silent source told, in seconds"]
WITHOUT_API = QUERIES["nodes that were given no API to ask"]

NOWHERE = "/nonexistent"
WHAT_IS_WRONG = {
    "well": set[str](),
    "unprivileged": set(),
    "no-kubelet": {"podresources"},
    "no-logs": {"podlogs", "pod-unknown"},
    "no-host-pid": {"procfs", "pid-namespace"},
    "refused": {"permission"},
}
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
REFUSED = f"""
mount -t proc -o hidepid=1,gid=65534 proc "$0"
exec {" ".join(UNPRIVILEGED)} "$@"
"""
"""The same, beside a /proc that lets nobody look at others' processes."""


@contextmanager
def scraped(tmp_path: Path, **nodes: Node) -> Iterator[Prometheus]:
    with ExitStack() as stack:
        addresses = {
            name: stack.enter_context(node).url.removeprefix("http://") for name, node in nodes.items()
        }
        yield stack.enter_context(Prometheus(tmp_path, addresses, interval="500ms"))


def missing(samples: list[Sample]) -> dict[str, set[str]]:
    """What the query names, by node."""
    by_node: dict[str, set[str]] = {}
    for sample in samples:
        labels = sample.labels
        by_node.setdefault(labels["node"], set()).add(labels.get("source") or labels["result"])
    return by_node


def test_each_cause_is_named_on_its_node_and_on_no_other(world: World, tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    proc.mkdir()
    namespace = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    hidden = ("unshare", "--mount", "sh", "-ec", REFUSED, str(proc))
    no_logs = (f"--path.pod-logs={NOWHERE}", f"--path.container-logs={NOWHERE}")
    with scraped(
        tmp_path,
        a=Node(world, "--node-name=well"),
        b=Node(world, "--node-name=no-kubelet", f"--path.podresources={NOWHERE}"),
        c=Node(world, "--node-name=no-logs", *no_logs),
        d=Node(world, "--node-name=no-host-pid", prefix=namespace),
        e=Node(world, "--node-name=unprivileged", prefix=UNPRIVILEGED),
        f=Node(world, "--node-name=refused", f"--path.procfs={proc}", prefix=hidden),
    ) as prometheus:
        expected = {node: causes for node, causes in WHAT_IS_WRONG.items() if causes}
        prometheus.wait_for(DEGRADED, lambda samples: missing(samples) == expected)
        prometheus.wait_for(f"count(gpuledger_gpu_memory_used_bytes) == {2 * len(WHAT_IS_WRONG)}")
        assert WHAT_IS_WRONG.keys() == {s.labels["node"] for s in prometheus.query(WITHOUT_API)}


def test_labels_that_outlive_the_api_are_known_to_age(world: World, tmp_path: Path) -> None:
    api, flags = world.serve_api()
    owned = 'gpuledger_container_memory_used_bytes{workload_kind="StatefulSet",workload="train"}'
    with scraped(tmp_path, node=Node(world, *flags)) as prometheus:
        prometheus.wait_for(owned)
        prometheus.wait_for(DEGRADED, lambda samples: not samples)
        assert not prometheus.query(WITHOUT_API)

        api.refuse()
        prometheus.wait_for(DEGRADED, lambda samples: missing(samples) == {NODE: {"kube"}})
        prometheus.wait_for(f"({AGE}) > 3")
        assert prometheus.query(owned)

        api.accept()
        prometheus.wait_for(DEGRADED, lambda samples: not samples)
        assert not prometheus.query(AGE)
