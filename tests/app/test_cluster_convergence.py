"""Whatever happens to the cluster and on the way to it: the page is what a fresh look at the end would give.

For one exporter, and for the union of three shards.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from fakes.apiserver import ApiServer, Fault, a_list, a_watch
from fakes.clusterview import (
    GPU,
    NOW,
    NVIDIAS,
    ClusterView,
    claim,
    device_class,
    node,
    pod,
    quota,
    resource_slice,
    toolkit,
)
from fakes.podwatch import eventually
from gpuledger.app.audit.command import read_advisories
from gpuledger.app.cluster.command import chosen_checks
from gpuledger.audit.check import Severity
from gpuledger.audit.checks import CHECKS
from gpuledger.audit.engine import Audit
from gpuledger.audit.policy import Policy, parse_policy
from gpuledger.audit.subject import AuditContext
from gpuledger.audit.verdict import Judge
from gpuledger.core.sharding import Shard
from gpuledger.parse.manifests import ManifestError, parse_objects
from gpuledger.sources.listwatch import Pace
from tools.exposition import Exposition

if TYPE_CHECKING:
    from fakes.apistore import Object

PACE = Pace(watch=1, margin=0.2, answer=0.5, backoff=0.005, backoff_max=0.02)
NODES = ("node1", "node2")
STOCK = ("capacity", "allocatable", "requested", "free")
POLICY = parse_policy(
    """
exceptions:
  - {match: {workload: Pod/p1}, reason: a test, owner: us}
  - {match: {check: gpu-privileged}, reason: another, owner: us, expires: 2026-01-01}
""",
    CHECKS,
)

PODS = st.builds(
    pod,
    st.sampled_from(["p1", "p2", "p3", "p4"]),
    gpus=st.integers(0, 3),
    node=st.sampled_from(["", *NODES]),
    phase=st.sampled_from(["Pending", "Running", "Running", "Succeeded", "Failed"]),
    image=st.sampled_from(["registry.example/app:1", "registry.example/app:latest"]),
    container=st.sampled_from(
        [
            {},
            {"securityContext": {"privileged": True}},
            {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]},
        ]
    ),
    spec=st.sampled_from([{}, {"resourceClaims": [{"name": "device", "resourceClaimName": "c1"}]}]),
)
MALFORMED = {"containers": 5}
SPOILED = PODS.map(lambda pod: {**pod, "spec": MALFORMED})
CLASSES = st.sampled_from(["gpu.nvidia.com", "own"])
OTHERS = st.one_of(
    st.builds(
        node,
        st.sampled_from(NODES),
        gpus=st.sampled_from([0, 8]),
        labels=st.sampled_from([{}, {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.count": "2"}]),
        allocatable=st.sampled_from([{}, {"nvidia.com/gpu": "1"}]),
        ready=st.booleans(),
        unschedulable=st.booleans(),
    ),
    st.builds(quota, st.sampled_from(["q1", "q2"]), hard=st.integers(1, 4), used=st.integers(0, 4)),
    st.builds(toolkit, st.just("toolkit"), st.sampled_from(NODES), unprivileged=st.booleans()),
    st.builds(claim, st.sampled_from(["c1", "c2"]), st.sampled_from(["gpu-0", "gpu-1"]), of=CLASSES),
    st.builds(claim, st.sampled_from(["c1", "c2"]), of=CLASSES),
    st.builds(device_class, st.just("own"), st.sampled_from([NVIDIAS, "device.driver == 'dra.net'", "x"])),
    st.builds(resource_slice, st.just("node1"), st.integers(1, 2), st.just("gpu-0"), st.just("gpu-1")),
)
FAULTS = st.builds(
    Fault,
    where=st.sampled_from([a_list, a_watch]),
    times=st.integers(1, 3),
    status=st.sampled_from([200, 200, 403, 410, 429, 500]),
    after=st.integers(0, 700),
    then=st.sampled_from(["", "cut"]),
)


class AnyCluster(RuleBasedStateMachine):
    """Writes to a cluster and trouble on the way to it, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.api = ApiServer(bookmark_seconds=0.05).__enter__()
        self.folder = tempfile.TemporaryDirectory()
        self.kubeconfig = self.api.kubeconfig(Path(self.folder.name) / "kubeconfig")
        self.policy = Policy()
        self.alone, *self.shards = self.views = [
            ClusterView(self.kubeconfig, shard, PACE) for shard in (Shard(), *(Shard(n, 3) for n in range(3)))
        ]
        for view in self.views:
            view.start()
        self.written: dict[tuple[str, str], Object] = {}

    @rule(obj=st.one_of(PODS, OTHERS, SPOILED))
    def write(self, obj: Object) -> None:
        """Create an object, or change it: then it stays the one that it is."""
        key = (obj["kind"], obj["metadata"]["name"])
        if key in self.written:
            obj["metadata"]["uid"] = self.written[key]["metadata"]["uid"]
        self.written[key] = self.api.add(obj)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.written:
            self.api.delete(self.written.pop(data.draw(st.sampled_from(sorted(self.written)))))

    @rule(new=PODS)
    def replace(self, new: Object) -> None:
        """Another pod of the same name, as a StatefulSet makes it."""
        key = ("Pod", new["metadata"]["name"])
        if key in self.written:
            self.api.delete(self.written.pop(key))
        self.write(new)

    @rule(obj=PODS)
    def spoil_and_mend(self, obj: Object) -> None:
        self.write({**obj, "spec": MALFORMED})
        self.write(obj)

    @rule(policy=st.sampled_from([Policy(), POLICY]))
    def grant(self, policy: Policy) -> None:
        """The policy changes."""
        self.policy = policy
        for view in self.views:
            view.series(policy)

    @rule(seconds=st.sampled_from([0.005, 0.05]))
    def let_some_time_pass(self, seconds: float) -> None:
        time.sleep(seconds)

    @rule()
    def compact(self) -> None:
        self.api.compact()

    @rule(fault=FAULTS)
    def trouble(self, fault: Fault) -> None:
        self.api.faults.append(fault)
        self.api.cut()

    def teardown(self) -> None:
        self.api.faults.clear()
        fresh = ClusterView(self.kubeconfig, Shard(), PACE)
        fresh.start()
        try:
            eventually(set[str](), lambda: {feed.kind.name for feed in fresh.feeds if not feed.listed})
            truth = fresh.series(self.policy)
            well_formed = [each for each in self.written.values() if each.get("spec") != MALFORMED]
            self.check_against_an_audit(well_formed, truth)
            for view in (fresh, *self.views):
                eventually(len(self.written) - len(well_formed), view.unreadable)
            eventually(truth, lambda: self.alone.series(self.policy))
            whole = _added(truth)
            eventually(whole, lambda: _added(*(each.series(self.policy) for each in self.shards)))
        finally:
            for view in (fresh, *self.views):
                view.stop()
            self.api.__exit__()
            self.folder.cleanup()

    def check_against_an_audit(self, objects: list[Object], series: list[str]) -> None:
        """Findings, stock and quotas are those of `gpuledger audit` on a dump of the cluster."""
        checks = chosen_checks(Severity.INFO)
        audit = Audit(checks, AuditContext(NOW, advisories=read_advisories()))
        items = parse_objects(json.dumps(objects).encode())
        found = [audit.take(each) for each in items if not isinstance(each, ManifestError)]
        judge = Judge(CHECKS, audit.facts, NOW, Severity.INFO, self.policy)
        judged = [judge.pod(each) for each in found if each is not None]
        expected = {
            (each.pod.name if each.pod.kind == "Pod" else "", hit.container, hit.check, str(hit.severity))
            for each in judged
            for hit in each.reported
        }
        page = Exposition("\n".join(series) + "\n")
        labels = [sample.labels for sample in page.series("audit_finding")]
        actual = {(each["pod"], each["container"], each["check"], each["severity"]) for each in labels}
        assert expected == actual
        stock = {
            (name, node.node): amount
            for node in audit.facts.inventory.nodes()
            for each in node.resources
            for name in STOCK
            if (amount := getattr(each, name)) is not None
        }
        assert stock == {
            (name, sample.labels["node"]): sample.value
            for name in STOCK
            for sample in page.series(f"node_resource_{name}", resource=GPU)
        }
        used = {each.quota: each.used for each in audit.facts.inventory.quotas()}
        assert used == {sample.labels["quota"]: sample.value for sample in page.series("quota_used")}


def _added(*pages: list[str]) -> tuple[dict[str, float], list[str]]:
    """The union of pages, where what may stand on several is summed; and what stands on several and may not."""
    sums: Counter[str] = Counter()
    pages_of: Counter[str] = Counter()
    for page in pages:
        for line in page:
            series, value = line.rsplit(" ", 1)
            sums[series] += float(value)  # type: ignore[assignment] # counters count in floats too
            pages_of[series] += 1
    several = [series for series, count in pages_of.items() if count > 1]
    shared = ("gpuledger_audit_workload_pods_affected", "gpuledger_audit_exempted")
    return dict(sums), [series for series in several if not series.startswith(shared)]


TestAnyCluster = AnyCluster.TestCase
TestAnyCluster.settings = settings(
    max_examples=settings().max_examples // 20,
    stateful_step_count=25,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # every step waits for servers: shrinking takes hours
)
