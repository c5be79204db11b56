"""What users of other scanners complained about: each complaint is a test."""

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from audit.auditing import NOON, audited, findings
from gpuledger.audit.policy import Match, Policy, PolicyException
from gpuledger.audit.report.model import Report
from gpuledger.audit.report.text import TextStyle, render_text

Object = dict[str, Any]

LIMITS = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
PRIVILEGED: Object = {"securityContext": {"privileged": True}}


def _container(name: str = "main", **fields: Any) -> Object:
    return {"name": name, "image": "app:1", "resources": {"limits": LIMITS}, **fields}


def _pod(*containers: Object, meta: Object | None = None, **spec: Any) -> Object:
    meta = {"name": "p", "namespace": "ml", **(meta or {})}
    return {"kind": "Pod", "metadata": meta, "spec": {"containers": [*containers] or [_container()], **spec}}


def _report(*objects: Object, checks: tuple[str, ...] = (), **options: Any) -> Report:
    return audited(json.dumps({"items": list(objects)}), *checks, **options)


def _owned(name: str, owner: str = "DaemonSet", **meta: Any) -> Object:
    return {
        "name": name,
        "ownerReferences": [{"kind": owner, "name": "own", "uid": "o", "controller": True}],
        **meta,
    }


def _lines(report: Report) -> list[str]:
    return [
        line.rstrip()
        for line in render_text(report, TextStyle(inventory=False))
        if line.startswith("[FINDING]")
    ]


def test_a_missing_cpu_limit_is_information_alone() -> None:
    report = _report(_pod({**_container(), "resources": {"limits": {"memory": "1Gi", "nvidia.com/gpu": 1}}}))
    assert ["info"] == [str(finding.severity) for finding in findings(report) if finding.check == "cpu-limit"]


def test_only_the_container_at_fault_is_blamed() -> None:
    report = _report(_pod(_container("good"), _container("bad", **PRIVILEGED)), checks=("gpu-privileged",))
    assert ["bad"] == [finding.container for finding in findings(report)]


def test_the_security_context_of_the_pod_counts() -> None:
    report = _report(_pod(securityContext={"runAsNonRoot": True}), checks=("run-as-non-root",))
    assert findings(report) == []


def test_replicas_are_one_line() -> None:
    pods = [_pod(_container(**PRIVILEGED), meta=_owned(f"own-{n}", uid=f"u{n}")) for n in range(5)]
    detail = "critical, gpu-privileged; and 4 more of DaemonSet own"
    expected = f"[FINDING] ml/own-0 main: privileged container sees every GPU ({detail})"
    assert [expected] == _lines(_report(*pods, checks=("gpu-privileged",)))


def test_an_object_in_two_dumps_is_audited_once() -> None:
    pod = _pod(meta={"uid": "u"})
    assert 1 == _report(pod, pod).totals().pods


def test_pods_whose_names_the_server_makes_are_told_apart() -> None:
    pods = [_pod(meta={"name": "", "generateName": name}) for name in ("train-", "eval-")]
    audited = [judged.pod for judged in _report(*pods).pods()]
    assert ["train-?", "eval-?"] == [pod.name for pod in audited] == [pod.workload for pod in audited]


def test_manifests_without_uid_are_never_taken_for_the_same() -> None:
    assert 2 == _report(_pod(), _pod()).totals().pods


def test_a_controller_in_a_cluster_asks_for_nothing_beside_its_pods() -> None:
    template = {"spec": _pod()["spec"]}
    deployment = {"kind": "Deployment", "metadata": {"name": "own", "uid": "d"}, "spec": {"template": template}}
    report = _report(deployment, _pod(meta={"uid": "p"}))
    assert (2, Decimal(1)) == (report.totals().pods, report.totals().cards)


def test_one_place_is_not_reported_by_two_checks() -> None:
    report = _report(_pod(_container(**PRIVILEGED)))
    assert ["gpu-privileged"] == [
        finding.check for finding in findings(report) if "privileged" in finding.check
    ]


# ---- exceptions ----


def _policy(**match: str) -> Policy:
    return Policy((PolicyException(Match(**match), "agreed", "platform"),))


@pytest.mark.parametrize(
    ("match", "excused"),
    [
        pytest.param({"check": "gpu-privileged"}, ["a", "b"], id="check"),
        pytest.param({"check": "gpu-*"}, ["a", "b"], id="checks by pattern"),
        pytest.param({"container": "a"}, ["a"], id="one container"),
        pytest.param({"workload": "DaemonSet/own"}, ["a", "b"], id="workload"),
        pytest.param({"namespace": "m?"}, ["a", "b"], id="namespace by pattern"),
        pytest.param({"namespace": "ml", "container": "b", "check": "privileged"}, [], id="another check"),
        pytest.param({"workload": "Deployment/own"}, [], id="another kind"),
    ],
)
def test_an_exception_covers_what_it_names_and_no_more(match: dict[str, str], excused: list[str]) -> None:
    pod = _pod(_container("a", **PRIVILEGED), _container("b", **PRIVILEGED), meta=_owned("own-x", uid="u"))
    report = _report(pod, checks=("gpu-privileged",), policy=_policy(**match))
    (judged,) = report.pods()
    assert excused == [finding.container for finding in judged.exempt]
    assert len(excused) == report.totals().exempt


def test_exempt_is_not_absent() -> None:
    totals = _report(_pod(_container(**PRIVILEGED)), checks=("gpu-privileged",), policy=_policy()).totals()
    assert (1, 0, 1) == (totals.pods, totals.findings.total(), totals.exempt)


IGNORE = {"ignore.gpuledger.io/gpu-privileged": "reviewed in June"}


def test_annotations_excuse_manifests() -> None:
    report = _report(_pod(_container(**PRIVILEGED), meta={"annotations": IGNORE}), checks=("gpu-privileged",))
    assert ["reviewed in June"] == [finding.exempt for judged in report.pods() for finding in judged.exempt]


def test_annotations_of_the_pod_template_count() -> None:
    template = {"metadata": {"annotations": IGNORE}, "spec": _pod(_container(**PRIVILEGED))["spec"]}
    job = {"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    assert findings(_report(job, checks=("gpu-privileged",))) == []


def test_annotations_excuse_one_container() -> None:
    pod = _pod(
        _container("a", **PRIVILEGED),
        _container("b", **PRIVILEGED),
        meta={"annotations": {"ignore.gpuledger.io/gpu-privileged.a": "reviewed"}},
    )
    assert ["b"] == [finding.container for finding in findings(_report(pod, checks=("gpu-privileged",)))]


def test_annotations_without_a_reason_excuse_nothing() -> None:
    pod = _pod(_container(**PRIVILEGED), meta={"annotations": {"ignore.gpuledger.io/gpu-privileged": " "}})
    assert 1 == len(findings(_report(pod, checks=("gpu-privileged",))))


def test_tenants_can_not_excuse_live_objects() -> None:
    pod = _pod(_container(**PRIVILEGED), meta={"annotations": IGNORE, "uid": "u"})
    assert 1 == len(findings(_report(pod, checks=("gpu-privileged",))))


# ---- pods that may reach a GPU and most likely don't ----


def test_a_pod_whose_environment_comes_from_elsewhere_is_shown_for_that_alone() -> None:
    container = {"name": "main", "image": "app", "envFrom": [{"configMapRef": {"name": "x"}}]}
    assert ["gpu-env-bypass"] == [finding.check for finding in findings(_report(_pod(container)))]


def test_a_pod_that_most_likely_reaches_no_gpu_is_not_counted_unless_something_is_found() -> None:
    container = {"name": "main", "image": "app", "envFrom": [{"configMapRef": {"name": "x"}}]}
    assert 0 == _report(_pod(container), checks=("gpu-privileged", "memory-limit")).totals().pods


def test_live_objects_are_known_without_their_uid() -> None:
    pod = {**_pod(_container(**PRIVILEGED), meta={"annotations": IGNORE}), "status": {"phase": "Running"}}
    assert 1 == len(findings(_report(pod, checks=("gpu-privileged",))))


def test_a_mount_that_names_a_device_is_one_finding() -> None:
    mount = {"name": "v", "mountPath": "/var/run/nvidia-container-devices/all"}
    pod = _pod(_container(volumeMounts=[mount]), volumes=[{"name": "v", "hostPath": {"path": "/dev/null"}}])
    found = [finding.check for finding in findings(_report(pod))]
    assert ["gpu-volume-bypass"] == [check for check in found if "path" in check or "volume-bypass" in check]


def test_claims_with_findings_are_no_pods_that_need_review() -> None:
    exactly = {"deviceClassName": "gpu.nvidia.com", "adminAccess": True}
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    text = list(render_text(_report(claim, checks=("gpu-dra-admin",)), TextStyle()))
    assert "ALERT device claims need review\n" == text[-1]


# ---- infrastructure ----

PLUGIN = {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.19.0", **PRIVILEGED}


def _infrastructure(namespace: str = "gpu-operator", owner: str = "DaemonSet", *others: Object) -> Object:
    return _pod(PLUGIN, *others, meta={**_owned("plugin-x", owner, uid="u"), "namespace": namespace})


def _stack_like(image: str, namespace: str = "gpu-operator") -> Object:
    container = {"name": "x", "image": image, **PRIVILEGED}
    return _pod(container, meta={**_owned("x", uid="u"), "namespace": namespace})


def test_the_gpu_stack_is_exempt_from_what_it_has_to_do_and_counted() -> None:
    report = _report(_infrastructure(), checks=("gpu-privileged", "memory-limit"))
    assert ["memory-limit"] == [finding.check for finding in findings(report)]
    assert 1 == report.totals().exempt


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(_infrastructure(namespace="ml"), id="namespace of a tenant"),
        pytest.param(_infrastructure(owner="Job"), id="owner that the stack does not have"),
        pytest.param(
            _infrastructure("gpu-operator", "DaemonSet", _container("extra")), id="foreign container beside it"
        ),
        pytest.param(_pod(_container(**PRIVILEGED), meta={"namespace": "gpu-operator"}), id="foreign image"),
        pytest.param(_stack_like("evil.example.com/nvidia/k8s-device-plugin:v0.19.0"), id="foreign registry"),
        pytest.param(_stack_like("evil.example.com/nfd-miner:1", "kube-system"), id="image of a similar name"),
        pytest.param(
            _pod(
                PLUGIN,
                meta={**_owned("plugin-x", uid="u"), "namespace": "gpu-operator"},
                ephemeralContainers=[{"name": "e", "image": "app:1"}],
            ),
            id="foreign ephemeral container",
        ),
    ],
)
def test_the_gpu_stack_can_not_be_faked_by_one_sign(pod: Object) -> None:
    assert 1 == len(findings(_report(pod, checks=("gpu-privileged",))))


# ---- expiry ----


@pytest.mark.parametrize(
    ("expires", "excused"), [("2025-12-31", False), ("2026-01-01", True), ("2026-01-02", True)]
)
def test_expiry_is_looked_at_in_every_run(expires: str, excused: bool) -> None:  # noqa: FBT001 - a table's column
    exception = PolicyException(Match(), "agreed", "platform", date.fromisoformat(expires))
    assert excused != exception.expired(NOON)
    report = _report(_pod(_container(**PRIVILEGED)), checks=("gpu-privileged",), policy=Policy((exception,)))
    assert excused == (report.totals().exempt == 1)
