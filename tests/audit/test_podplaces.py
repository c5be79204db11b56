"""Pods are found wherever a kind keeps them, and a GPU that no pod was found for is told."""

import json
from typing import Any

import pytest

from audit.auditing import audited
from gpuledger.parse.dump import Located, Unreadable, parse_dump
from gpuledger.parse.manifests import PodManifest

Object = dict[str, Any]

GPU = {"limits": {"nvidia.com/gpu": 1}}
POD_SPEC = {"containers": [{"name": "main", "image": "app:1", "resources": GPU}]}
TEMPLATE = {"spec": POD_SPEC}

WORKLOADS = {
    "Deployment": ({"template": TEMPLATE}, ["spec.template.spec"]),
    "CronJob": ({"jobTemplate": {"spec": {"template": TEMPLATE}}}, ["spec.jobTemplate.spec.template.spec"]),
    "Rollout": ({"template": TEMPLATE}, ["spec.template.spec"]),
    "PyTorchJob": (
        {"pytorchReplicaSpecs": {"Master": {"template": TEMPLATE}, "Worker": {"template": TEMPLATE}}},
        ["spec.pytorchReplicaSpecs.Master.template.spec", "spec.pytorchReplicaSpecs.Worker.template.spec"],
    ),
    "RayCluster": (
        {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [{"template": TEMPLATE}]},
        ["spec.headGroupSpec.template.spec", "spec.workerGroupSpecs[0].template.spec"],
    ),
    "JobSet": (
        {"replicatedJobs": [{"template": {"spec": {"template": TEMPLATE}}}]},
        ["spec.replicatedJobs[0].template.spec.template.spec"],
    ),
    "LeaderWorkerSet": (
        {"leaderWorkerTemplate": {"leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}},
        ["spec.leaderWorkerTemplate.leaderTemplate.spec", "spec.leaderWorkerTemplate.workerTemplate.spec"],
    ),
    "InferenceService": (
        {"predictor": {"minReplicas": 1, **POD_SPEC, "workerSpec": POD_SPEC}},
        ["spec.predictor", "spec.predictor.workerSpec"],
    ),
    "Workflow": (
        {
            "templates": [
                {"container": {"image": "a"}},
                {"script": {"image": "a"}},
                {"containerSet": {"containers": [{"name": "c", "image": "a"}]}},
            ]
        },
        ["spec.templates[0]", "spec.templates[1]", "spec.templates[2]"],
    ),
    "Service": ({"ports": []}, []),
}


def _path(found: Located | Unreadable) -> str:
    assert isinstance(found, Located)
    assert isinstance(found.item, PodManifest)
    return found.item.path


@pytest.mark.parametrize(
    ("kind", "spec", "paths"), [(kind, *rest) for kind, rest in WORKLOADS.items()], ids=WORKLOADS
)
def test_pod_templates_are_found_wherever_a_kind_keeps_them(kind: str, spec: Object, paths: list[str]) -> None:
    data = json.dumps({"kind": kind, "metadata": {"name": "x"}, "spec": spec}).encode()
    assert [_path(found) for found in parse_dump([data])] == paths


PLACED = {"transformer": {"containers": [{"name": "k", "image": "x:1"}]}}

UNPLACED = {
    "beside a template": (
        {"predictor": {"triton": {"resources": GPU}}, **PLACED},
        "predictor.triton.resources.limits",
    ),
    "in what a place leaves": (
        {"predictor": {**PLACED["transformer"], "model": {"resources": GPU}}},
        "predictor.model.resources.limits",
    ),
    "beside a pod's spec": ({"template": {**TEMPLATE, "resources": GPU}}, "template.resources.limits"),
    "in a container's field of its own": (
        {"containers": [{"name": "a", "image": "x", "computeResources": GPU}]},
        "containers[0].computeResources.limits",
    ),
    "in a Tekton step": (
        {"steps": [{"image": "x", "computeResources": GPU}]},
        "steps[0].computeResources.limits",
    ),
    "per node of a TrainJob": ({"trainer": {"resourcesPerNode": GPU}}, "trainer.resourcesPerNode.limits"),
    "as a request": (
        {"worker": {"resources": {"requests": {"nvidia.com/gpu": "2"}}}},
        "worker.resources.requests",
    ),
    "an amount nobody can read": ({"worker": {"limits": {"nvidia.com/gpu": "{{n}}"}}}, "worker.limits"),
}


@pytest.mark.parametrize(("spec", "path"), UNPLACED.values(), ids=UNPLACED)
def test_a_gpu_that_is_asked_for_outside_of_every_template_is_told(spec: Object, path: str) -> None:
    data = json.dumps({"kind": "X", "metadata": {"name": "x"}, "spec": spec}).encode()
    *_, last = parse_dump([data])
    message = f"X x: no pod template found that asks for nvidia.com/gpu at `spec.{path}.nvidia.com/gpu`"
    assert last == Unreadable(message)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"gpu": {"name": "nvidia.com/gpu", "quantity": 1}}, id="name of SparkApplication"),
        pytest.param({"podSpecPatch": '{"containers":[{"limits":{"nvidia.com/gpu":"1"}}]}'}, id="JSON"),
        pytest.param({"values": "resources:\n  limits:\n    nvidia.com/gpu: 1\n"}, id="YAML"),
        pytest.param({"patch": '"{\\"nvidia.com/mig-1g.5gb\\": 1}"'}, id="JSON in JSON"),
    ],
)
def test_a_text_that_asks_for_a_gpu_is_told(value: Object) -> None:
    (found,) = parse_dump([json.dumps({"kind": "X", "metadata": {"name": "x"}, "spec": value}).encode()])
    assert isinstance(found, Unreadable)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param("ClusterQueue", {"spec": {"quota": {"nvidia.com/gpu": 9}}}, id="a queue"),
        pytest.param("NodePool", {"spec": {"limits": {"nvidia.com/gpu": 9}}}, id="nodes to be made"),
        pytest.param("ConfigMap", {"data": {"config": "nvidia.com/gpu: shared"}}, id="settings"),
        pytest.param("X", {"spec": {"resources": {"limits": {"nvidia.com/gpu": "0"}}}}, id="none of it"),
        pytest.param("X", {"spec": {"tolerations": [{"key": "nvidia.com/gpu"}]}}, id="a toleration"),
        pytest.param("X", {"spec": {"matchExpressions": [{"key": "nvidia.com/gpu"}]}}, id="an expression"),
        pytest.param("X", {"spec": {"nodeSelector": {"nvidia.com/mig-capable": "true"}}}, id="a label"),
        pytest.param("X", {"spec": {"minResources": {"nvidia.com/gpu": 8}, "template": {}}}, id="of a gang"),
        pytest.param("X", {"status": {"usage": {"nvidia.com/gpu": 1}}}, id="what is used"),
        pytest.param("X", {"spec": {"note": "needs nvidia.com/gpu, see https://a/b"}}, id="prose"),
    ],
)
def test_who_names_a_gpu_without_asking_for_it_is_no_problem(kind: str, value: Object) -> None:
    assert list(parse_dump([json.dumps({"kind": kind, "metadata": {"name": "x"}, **value}).encode()])) == []


def test_a_gpu_without_a_place_hides_no_template_of_its_object() -> None:
    spec = {"predictor": {"triton": {"resources": GPU}}, "worker": TEMPLATE}
    data = json.dumps({"kind": "X", "metadata": {"name": "a"}, "spec": spec}).encode()
    assert [type(found) for found in parse_dump([data])] == [Located, Unreadable]


def test_a_pod_of_argo_has_its_sidecars_and_what_the_workflow_gives_it() -> None:
    sidecar = {"name": "s", "image": "y:1", "securityContext": {"privileged": True}}
    template = {"name": "t", "container": {"image": "x:1", "resources": GPU}, "sidecars": [sidecar]}
    spec = {
        "volumes": [{"name": "h", "hostPath": {"path": "/dev"}}],
        "hostNetwork": True,
        "templates": [template],
    }
    report = audited(json.dumps({"kind": "Workflow", "metadata": {"name": "w"}, "spec": spec}))
    high = ("gpu-privileged", "gpu-device-hostpath", "host-namespaces")
    (judged,) = report.pods()
    assert report.totals().cards == 1
    assert {(each.check, each.container) for each in judged.reported if each.check in high} == {
        ("gpu-privileged", "s"),
        ("gpu-device-hostpath", ""),
        ("host-namespaces", ""),
    }


def test_a_pod_of_argo_has_the_annotations_of_its_workflow_and_its_own() -> None:
    template = {"container": {"image": "x:1"}, "metadata": {"annotations": {"gpu-fraction": "0.5"}}}
    common = {"annotations": {"gpu-memory": "1000", "gpu-fraction": "0.1"}}
    spec = {"podMetadata": common, "templates": [template]}
    report = audited(json.dumps({"kind": "Workflow", "metadata": {"name": "w"}, "spec": spec}))
    assert [judged.pod.fractions for judged in report.pods()] == [{"gpu-fraction": "0.5", "gpu-memory": "1000"}]


@pytest.mark.parametrize("field", ["sidecars", "volumes"])
def test_a_malformed_template_of_argo_is_told(field: str) -> None:
    template = {"container": {"image": "x"}, field: 5}
    data = json.dumps({"kind": "Workflow", "spec": {"templates": [template]}}).encode()
    (found,) = parse_dump([data])
    assert isinstance(found, Unreadable)


def test_a_template_that_is_malformed_is_told_with_its_place() -> None:
    data = json.dumps(
        {"kind": "Job", "metadata": {"name": "x"}, "spec": {"template": {"spec": {"containers": [{}]}}}}
    )
    assert [Unreadable("object 1: Job x: missing field `name` at `spec.template.spec.containers[0]`")] == list(
        parse_dump([data.encode()])
    )


def test_an_old_revision_without_replicas_is_left_out() -> None:
    owner = [{"kind": "Deployment", "name": "x", "uid": "u", "controller": True}]
    old = {
        "kind": "ReplicaSet",
        "metadata": {"name": "x-1", "ownerReferences": owner},
        "spec": {"replicas": 0, "template": TEMPLATE},
    }
    assert list(parse_dump([json.dumps(old).encode()])) == []
