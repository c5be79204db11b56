"""What `gpuledger cluster` tells of a cluster, as a user would check it by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fakes.apiserver import ApiServer, Asked, Fault
from fakes.clusterview import (
    GPU,
    NOW,
    ClusterView,
    claim,
    device_class,
    node,
    pod,
    quota,
    resource_slice,
    toolkit,
    warning,
)
from fakes.podwatch import BRISK, eventually
from gpuledger.app.cluster.auditbook import AuditBook
from gpuledger.app.cluster.command import chosen_checks
from gpuledger.app.cluster.podintake import AuditFailure, PodIntake
from gpuledger.audit.check import Severity
from gpuledger.audit.checks import CHECKS
from gpuledger.audit.facts import ClusterFacts
from gpuledger.audit.finding import AuditedPod
from gpuledger.audit.policy import Policy, parse_policy
from gpuledger.audit.verdict import Judge
from gpuledger.core.sharding import Shard
from tools.exposition import Exposition

View = Callable[..., ClusterView]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(bookmark_seconds=0.05) as api:
        yield api


@pytest.fixture
def view(server: ApiServer, tmp_path: Path) -> Iterator[View]:
    """Starts a view of the server, and waits until it knows all; a severity may be given."""
    started: list[ClusterView] = []

    def start(minimum: Severity = Severity.MEDIUM) -> ClusterView:
        view = ClusterView(server.kubeconfig(tmp_path / "kubeconfig"), Shard(), BRISK, minimum)
        started.append(view)
        view.start()
        eventually(set[str](), lambda: {feed.kind.name for feed in view.feeds if not feed.listed})
        return view

    yield start
    for each in started:
        each.stop()


def shown(view: ClusterView, policy: Policy | None = None) -> Exposition:
    return Exposition("\n".join([*view.series(policy), ""]))


def values(view: ClusterView, name: str, *labels: str, **which: str) -> dict[tuple[str, ...], float]:
    """The series of that name by these labels, which tell them apart."""
    samples = shown(view).series(name, **which)
    found = {tuple(sample.labels[label] for label in labels): sample.value for sample in samples}
    assert len(samples) == len(found)
    return found


# ---- inventory ----


def test_what_a_node_has_left_is_what_the_scheduler_would_say(server: ApiServer, view: View) -> None:
    server.add(node("node1", 8, labels={"nvidia.com/gpu.product": "NVIDIA-H100", "nvidia.com/gpu.count": "8"}))
    server.add(pod("runs", 3, "node1"))
    server.add(pod("has-ended", 3, "node1", phase="Succeeded"))
    server.add(pod("is-ending", 1, "node1", metadata={"deletionTimestamp": "2026-11-30T00:00:00Z"}))
    server.add(pod("is-bound-and-not-started", 1, "node1", phase="Pending"))
    server.add(pod("waits", 4))
    seen = view()
    asked = {("runs",): 3, ("is-ending",): 1, ("is-bound-and-not-started",): 1, ("waits",): 4}
    assert asked == values(seen, "pod_requested", "pod", resource=GPU)
    gpus = {"node": "node1", "resource": GPU}
    assert (8, 8, 5, 3, 3) == tuple(
        shown(seen).value(f"node_resource_{name}", **gpus)
        for name in ("capacity", "allocatable", "requested", "free", "placeable")
    )
    assert 1.5 == shown(seen).value("node_resource_requested", node="node1", resource="cpu")
    assert {("NVIDIA-H100", "8", "true", "true"): 1} == values(
        seen, "node_info", "product", "cards", "ready", "schedulable"
    )


def test_cards_are_told_apart_from_the_units_that_they_are_advertised_as(server: ApiServer, view: View) -> None:
    shared = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    server.add(node("node1", 8, labels=shared))
    seen = view()
    assert 2 == shown(seen).value("node_cards", node="node1")
    assert 8 == shown(seen).value("node_resource_capacity", node="node1", resource=GPU)
    assert {("time-slicing",): 1} == values(seen, "node_info", "sharing")


def test_devices_that_fall_ill_under_their_pods_leave_less_than_nothing(server: ApiServer, view: View) -> None:
    server.add(node("node1", 8, allocatable={GPU: "6"}))
    server.add(pod("runs", 7, "node1"))
    assert -1 == shown(view()).value("node_resource_free", node="node1", resource=GPU)


@pytest.mark.parametrize("state", [{"unschedulable": True}, {"ready": False}], ids=["cordoned", "not ready"])
def test_free_gpus_that_nobody_can_have_are_told_apart(
    state: dict[str, bool], server: ApiServer, view: View
) -> None:
    server.add(node("node1", 8, **state))
    page = shown(view())
    assert 8 == page.value("node_resource_free", node="node1", resource=GPU)
    assert 0 == page.value("node_resource_placeable", node="node1", resource=GPU)


def test_nodes_without_gpus_are_left_out(server: ApiServer, view: View) -> None:
    server.add(node("cpu-node", 0))
    assert not shown(view()).series("node_info")


def test_a_pod_waits_since_it_was_made_and_for_a_reason(server: ApiServer, view: View) -> None:
    def unscheduled(message: str) -> dict[str, Any]:
        return {"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}

    server.add(pod("too-big", 9, status=unscheduled("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")))
    server.add(pod("queued-by-kueue", 1, spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}))
    server.add(pod("asks-for-no-gpu", 0))
    created = 1796083200.0 - 86400  # 2026-11-30
    assert {("too-big", "insufficient-gpu"): created, ("queued-by-kueue", "gated"): created} == pytest.approx(
        values(view(), "pod_pending_since_timestamp_seconds", "pod", "reason"), abs=86400
    )


def test_quotas_on_gpus_are_shown_and_others_are_not(server: ApiServer, view: View) -> None:
    server.add(quota("gpus", hard=4, used=3))
    cpu = quota("cpus", 1, 1)
    cpu["spec"] = cpu["status"] = {"hard": {"requests.cpu": "4"}}
    server.add(cpu)
    seen = view()
    assert {("gpus", f"requests.{GPU}"): 4} == values(seen, "quota_hard", "quota", "resource")
    assert {("gpus", f"requests.{GPU}"): 3} == values(seen, "quota_used", "quota", "resource")


# ---- devices by claim ----


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_devices_are_counted_over_claims_each_once(version: str, server: ApiServer, view: View) -> None:
    def other_version(asked: Asked) -> bool:
        return "/resource.k8s.io/" in asked.path and f"/{version}/" not in asked.path

    server.faults.append(Fault(other_version, times=10**6, status=404))
    server.add(resource_slice("node1", 1, "gpu-0", version=version))
    server.add(resource_slice("node1", 2, "gpu-0", "gpu-1", "gpu-2", version=version))
    server.add(claim("shared-by-pods", "gpu-0", "gpu-1", version=version))
    server.add(claim("waits", version=version, of="h100"))
    server.add(device_class("h100", version=version))
    seen = view()
    assert {("node1",): 3} == values(seen, "dra_pool_devices", "node")
    assert {("node1",): 2} == values(seen, "dra_pool_allocated", "pool")
    assert {("shared-by-pods", "allocated"): 2, ("waits", "waiting"): 1} == values(
        seen, "claim_devices", "claim", "state"
    )


def test_what_a_claim_stands_in_for_is_not_counted_twice(server: ApiServer, view: View) -> None:
    server.add(node("node1", 8))
    bridge = {"resourceClaimName": "bridged", "requestMappings": [{"resourceName": GPU}]}
    server.add(pod("bridged", 1, "node1", status={"phase": "Running", "extendedResourceClaimStatus": bridge}))
    server.add(claim("bridged", "gpu-0"))
    seen = view()
    assert 0 == shown(seen).value("node_resource_requested", node="node1", resource=GPU)
    assert {("node1",): 1} == values(seen, "dra_pool_allocated", "pool")


def claims(view: ClusterView) -> dict[tuple[str, str, str], float]:
    return {
        (each.labels["claim"], each.labels["device_class"], each.labels["state"]): each.value
        for each in shown(view).series("claim_devices")
    }


def unresolved(view: ClusterView) -> set[str]:
    return {each.labels["claim"] for each in shown(view).series("claim_unresolved")}


def test_what_a_claim_is_for_is_unresolved_until_its_class_tells(server: ApiServer, view: View) -> None:
    server.add(claim("waits", of="h100"))
    server.add(claim("runs", "gpu-0", of="h100"))
    seen = view()
    assert {"waits"} == unresolved(seen)
    assert {("runs", "h100", "allocated"): 1} == claims(seen)
    known = server.add(device_class("h100"))
    eventually(set[str](), lambda: unresolved(seen))
    assert {("waits", "h100", "waiting"): 1, ("runs", "h100", "allocated"): 1} == claims(seen)
    server.delete(known)
    eventually({"waits"}, lambda: unresolved(seen))


def test_a_claim_for_all_gpus_is_unresolved_until_it_has_them(server: ApiServer, view: View) -> None:
    greedy = server.add(claim("greedy", allocationMode="All"))
    seen = view()
    assert ({"greedy"}, {}) == (unresolved(seen), claims(seen))
    server.update({**claim("greedy", "gpu-0", "gpu-1"), "metadata": greedy["metadata"]})
    eventually({("greedy", "gpu.nvidia.com", "allocated"): 2.0}, lambda: claims(seen))
    assert set() == unresolved(seen)


def test_claims_on_other_devices_are_left_out(server: ApiServer, view: View) -> None:
    server.add(device_class("fast", "device.driver == 'dra.net'"))
    server.add(claim("nic", of="fast", allocationMode="All"))
    seen = view()
    assert (set(), {}) == (unresolved(seen), claims(seen))


def test_a_quota_on_a_class_is_one_on_gpus_where_the_class_is(server: ApiServer, view: View) -> None:
    amounts = {"h100.deviceclass.resource.k8s.io/devices": "4"}
    server.add(quota("gpus", 4, 0) | {"spec": {"hard": amounts}, "status": {"hard": amounts, "used": amounts}})
    seen = view()
    assert {} == values(seen, "quota_hard", "resource")
    server.add(device_class("h100"))
    eventually({(*amounts,): 4.0}, lambda: values(seen, "quota_hard", "resource"))


def test_a_server_without_dra_is_asked_no_further(server: ApiServer, tmp_path: Path) -> None:
    server.faults.append(Fault(lambda asked: "resource.k8s.io" in asked.path, times=10**6, status=404))
    seen = ClusterView(server.kubeconfig(tmp_path / "kubeconfig"), Shard(), BRISK)
    seen.start()
    known = {"pods", "nodes", "resourcequotas", "namespaces", "events"}
    eventually(known, lambda: {feed.kind.name for feed in seen.feeds if (is_up := feed.health()) and is_up.up})
    assert known == {feed.kind.name for feed in seen.feeds if feed.health() is not None}
    seen.stop()


# ---- findings ----

VISIBLE = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}


def severities(view: ClusterView, check: str) -> set[str]:
    return {sample.labels["severity"] for sample in shown(view).series("audit_finding", check=check)}


def test_a_finding_is_judged_anew_when_the_cluster_closes_the_way(server: ApiServer, view: View) -> None:
    server.add(pod("sneaky", 0, "node1", container=VISIBLE))
    seen = view()
    assert {"high"} == severities(seen, "gpu-env-bypass")
    server.add(toolkit("toolkit", "node1", unprivileged=True))
    eventually({"critical"}, lambda: severities(seen, "gpu-env-bypass"))
    server.add(toolkit("toolkit", "node1", unprivileged=False))
    eventually(set[str](), lambda: severities(seen, "gpu-env-bypass"))


def test_findings_that_nothing_new_concerns_are_not_judged_again(server: ApiServer, view: View) -> None:
    def text(seen: ClusterView) -> bytes:
        seen.books.refresh(Policy(), NOW)
        (finding,) = next(texts for spec, texts in seen.books.columns() if spec.name == "audit_finding")
        return finding

    server.add(pod("sneaky", 0, "node1", container=VISIBLE))
    seen = view()
    first = text(seen)
    assert first is text(seen)
    server.add(node("node2"))
    server.add(claim("of-another"))
    eventually({"node2"}, lambda: {each.metadata.name for each in seen.books.nodes.objects.values()})
    assert first is text(seen)
    server.add(node("node1"))
    eventually(2, lambda: len(seen.books.nodes.objects))
    assert first is not text(seen)


def test_a_node_that_offers_gpus_by_claim_alone_is_a_node_with_gpus(server: ApiServer, view: View) -> None:
    server.add(node("node1", 0))
    server.add(pod("root", 0, "node1", container={"securityContext": {"privileged": True}}))
    seen = view()
    eventually({"high"}, lambda: severities(seen, "gpu-privileged"))
    server.add(resource_slice("node1", 1, "gpu-0"))
    eventually({"critical"}, lambda: severities(seen, "gpu-privileged"))


def test_a_pod_is_a_gpu_pod_once_its_claims_class_tells(server: ApiServer, view: View) -> None:
    server.add(claim("device", of="fast"))
    uses = {"resourceClaims": [{"name": "device", "resourceClaimName": "device"}]}
    server.add(pod("p", 0, image="registry.example/app:latest", spec=uses))
    seen = view()
    assert {"medium"} == severities(seen, "image-latest")
    server.add(device_class("fast", "device.driver == 'dra.net'"))
    eventually(set[str](), lambda: severities(seen, "image-latest"))


def test_a_claim_on_another_device_entitles_to_no_gpu(server: ApiServer, view: View) -> None:
    nic = claim("nic", "eth0")
    for result in nic["status"]["allocation"]["devices"]["results"]:
        result["driver"] = "dra.net"
    nic["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "dra.net"
    server.add(
        pod(
            "sneaky",
            0,
            "node1",
            container=VISIBLE | {"resources": {"claims": [{"name": "nic"}]}},
            spec={"resourceClaims": [{"name": "nic", "resourceClaimName": "nic"}]},
        )
    )
    seen = view()
    server.add(nic)
    eventually({"high"}, lambda: severities(seen, "gpu-env-bypass"))


def test_workloads_are_counted_and_what_is_excused_is_counted_apart(server: ApiServer, view: View) -> None:
    for number in range(3):
        owner = {"kind": "StatefulSet", "name": "spy", "controller": True, "apiVersion": "apps/v1"}
        server.add(pod(f"spy-{number}", container=VISIBLE, metadata={"ownerReferences": [owner]}))
    seen = view()
    assert {("StatefulSet", "spy", "gpu-env-bypass"): 3} == values(
        seen, "audit_workload_pods_affected", "workload_kind", "workload", "check"
    )
    text = "exceptions: [{match: {check: gpu-env-bypass}, reason: known, owner: us, expires: 2027-01-15}]"
    policy = parse_policy(text, CHECKS)
    page = shown(seen, policy)
    assert not page.series("audit_finding")
    assert not page.series("audit_workload_pods_affected")
    assert 3 == page.value("audit_exempted", workload="spy")
    seen.books.refresh(policy, NOW + 86400)
    columns = {spec.name: b"".join(texts) for spec, texts in seen.books.columns()}
    assert (3, b"") == (columns["audit_finding"].count(b"\n"), columns["audit_exempted"])


def test_a_pod_that_waits_becomes_a_finding_by_waiting(server: ApiServer, view: View) -> None:
    made = "2027-01-15T07:50:00Z"  # ten minutes before NOW
    server.add(pod("waits", 1, metadata={"creationTimestamp": made}))
    seen = view(Severity.LOW)
    assert set() == severities(seen, "gpu-pending")
    seen.intake.now = lambda: NOW + 600
    assert {"low"} == severities(seen, "gpu-pending")


def test_a_check_that_fails_is_counted_and_costs_only_that_pod() -> None:
    def explode(_: object) -> Any:
        raise ZeroDivisionError

    intake = PodIntake(chosen_checks(Severity.MEDIUM), (), lambda: NOW)
    broken = [type(check)(**{**_fields(check), "pod_rule": explode, "of": ()}) for check in intake.checks[:1]]
    intake.checks = broken
    (record,) = intake.parser().parse_list(_listed(pod("p", 1, "node1"))).items
    assert {"ZeroDivisionError": 1} == dict(intake.failures)
    assert AuditFailure("Pod ml/p", "ZeroDivisionError: ") == record.audited
    assert record.lines is not None


def test_pods_of_which_the_audit_failed_count_until_it_succeeds_or_they_go(
    caplog: pytest.LogCaptureFixture,
) -> None:
    book = AuditBook(Judge(CHECKS, ClusterFacts(), NOW, Severity.INFO))
    failure = AuditFailure("Pod ml/\x1b[2J", "KeyError: 'x'")
    for uid in ("a", "b", "a"):
        book.put(uid, failure)
    assert 2 == book.failed
    book.put("a", AuditedPod("ml", "a", "Pod", "Pod", "a"))
    assert 1 == book.failed
    book.put("b", None)
    assert 0 == book.failed
    assert [r"Pod ml/\x1b[2J can't be audited: KeyError: 'x'"] * 2 == caplog.messages


def _fields(check: Any) -> dict[str, Any]:
    return {name: getattr(check, name) for name in check.__dataclass_fields__ if name != "_"}


def _listed(*objects: dict[str, Any]) -> bytes:
    for index, each in enumerate(objects):
        each["metadata"].setdefault("uid", f"uid-{index}")
    return json.dumps({"metadata": {"resourceVersion": "1"}, "items": objects}).encode()


def test_a_malformed_pod_costs_only_itself() -> None:
    intake = PodIntake(chosen_checks(Severity.MEDIUM), (), lambda: NOW)
    page = intake.parser().parse_list(_listed(pod("good", 1), {"metadata": {}, "spec": {"containers": 7}}))
    assert (1, 1) == (len(page.items), len(page.malformed))


# ---- what is over is gone ----


def test_a_pod_that_is_gone_is_gone_from_the_next_page(server: ApiServer, view: View) -> None:
    server.add(node("node1", 8))
    doomed = server.add(pod("doomed", 2, "node1", container=VISIBLE))
    server.add(warning(doomed, "BackOff", 4))
    seen = view()
    assert {("BackOff",): 4} == values(seen, "pod_warning_events", "reason", pod="doomed")
    assert any('pod="doomed"' in line for line in seen.series())
    server.delete(doomed)
    eventually(set[str](), lambda: {line for line in seen.series() if "doomed" in line})
    assert 0 == shown(seen).value("node_resource_requested", node="node1", resource=GPU)


def test_a_new_list_leaves_no_gap(server: ApiServer, view: View) -> None:
    for number in range(50):
        server.add(pod(f"p-{number}", 1, "node1"))
    seen = view()
    for _ in range(3):
        lists = len(server.lists())
        server.add(pod("news", 0, "node1"))
        server.compact()
        server.cut()
        while len(server.lists()) == lists:
            assert 50 == len(shown(seen).series("pod_info"))
    assert 50 == len(shown(seen).series("pod_info"))


def test_what_is_known_outlives_the_api(server: ApiServer, view: View) -> None:
    server.add(pod("runs", 1, "node1"))
    seen = view()
    before = seen.series()
    server.refuse()
    eventually({False}, lambda: {health.up for feed in seen.feeds if (health := feed.health())})
    assert before == seen.series()


def test_nothing_grows_over_ten_thousand_generations_of_pods(view: View) -> None:
    seen = view()
    books, parser = seen.books, seen.intake.parser()

    def live(first: int, last: int) -> None:
        for number in range(first, last):
            made = pod(f"p-{number}", 1, f"n-{number}", container=VISIBLE, metadata={"uid": f"u-{number}"})
            (record,) = parser.parse_list(_listed(made)).items
            books.pods.put(record)
            books.pods.remove(record.uid)

    live(0, 1000)
    before = psutil.Process().memory_info().rss
    live(1000, 11_000)
    assert [] == seen.series()
    assert psutil.Process().memory_info().rss - before < 2 * 2**20
