"""Which workload a pod belongs to, by what its metadata says or its name lets guess."""

from __future__ import annotations

import pytest

from gpuledger.core.model import Workload
from gpuledger.parse.objectmeta import ObjectMeta, OwnerReference
from gpuledger.parse.workload import infer_workload, workload_of


def owned(name: str, owner: str, labels: dict[str, str] | None = None) -> ObjectMeta:
    """Metadata of an object whose controller is `owner`: `apps/v1 ReplicaSet web-5d4f8c7b9`."""
    api_version, kind, owner_name = owner.split(" ")
    reference = OwnerReference(kind=kind, name=owner_name, uid="u", api_version=api_version, controller=True)
    return ObjectMeta(name=name, labels=labels, owner_references=[reference])


@pytest.mark.parametrize(
    ("kind", "name", "owner", "labels"),
    [
        pytest.param(
            "Deployment",
            "llm-server",
            "apps/v1 ReplicaSet llm-server-df7f55ddd",
            {"pod-template-hash": "df7f55ddd"},
            id="deployment",
        ),
        pytest.param("ReplicaSet", "by-hand", "apps/v1 ReplicaSet by-hand", {}, id="replicaset-of-its-own"),
        pytest.param(
            "ReplicaSet",
            "web-56d5cc849",
            "apps/v1 ReplicaSet web-56d5cc849",
            {"pod-template-hash": "df7f55ddd"},
            id="hash-that-is-not-in-the-name",
        ),
        pytest.param(
            "Rollout",
            "canary",
            "apps/v1 ReplicaSet canary-56d5cc849",
            {"rollouts-pod-template-hash": "56d5cc849"},
            id="argo-rollout",
        ),
        pytest.param(
            "InferenceService",
            "llama",
            "apps/v1 ReplicaSet llama-predictor-00001-deployment-56d5cc849",
            {
                "pod-template-hash": "56d5cc849",
                "serving.kserve.io/inferenceservice": "llama",
                "serving.knative.dev/service": "llama-predictor",
            },
            id="kserve-over-knative",
        ),
        pytest.param(
            "KnativeService",
            "embed",
            "apps/v1 ReplicaSet embed-00007-deployment-56d5cc849",
            {"pod-template-hash": "56d5cc849", "serving.knative.dev/service": "embed"},
            id="knative-service",
        ),
        pytest.param("StatefulSet", "db", "apps/v1 StatefulSet db", {}, id="statefulset"),
        pytest.param(
            "LeaderWorkerSet",
            "vllm",
            "apps/v1 StatefulSet vllm-0",
            {"leaderworkerset.sigs.k8s.io/name": "vllm"},
            id="leaderworkerset",
        ),
        pytest.param(
            "Notebook", "ada", "apps/v1 StatefulSet ada", {"notebook-name": "ada"}, id="kubeflow-notebook"
        ),
        pytest.param(
            "StatefulSet",
            "db",
            "apps/v1 StatefulSet db",
            {"notebook-name": "ada"},
            id="label-that-does-not-fit-the-name",
        ),
        pytest.param(
            "StatefulSet",
            "adapter",
            "apps/v1 StatefulSet adapter",
            {"notebook-name": "ada"},
            id="label-that-fits-half-a-word",
        ),
        pytest.param("DaemonSet", "dcgm", "apps/v1 DaemonSet dcgm", {}, id="daemonset"),
        pytest.param(
            "ReplicationController", "old", "v1 ReplicationController old", {}, id="replicationcontroller"
        ),
        pytest.param(
            "DeploymentConfig",
            "old",
            "v1 ReplicationController old-3",
            {"deploymentconfig": "old"},
            id="openshift-deploymentconfig",
        ),
        pytest.param("Job", "finetune", "batch/v1 Job finetune", {}, id="job"),
        pytest.param("Job", "sweep-20261130", "batch/v1 Job sweep-20261130", {}, id="job-named-after-a-day"),
        pytest.param(
            "JobSet",
            "pretrain",
            "batch/v1 Job pretrain-workers-0",
            {"jobset.sigs.k8s.io/jobset-name": "pretrain"},
            id="jobset",
        ),
        pytest.param(
            "MPIJob",
            "allreduce",
            "batch/v1 Job allreduce-launcher",
            {"training.kubeflow.org/job-name": "allreduce"},
            id="mpijob-launcher",
        ),
        pytest.param("VolcanoJob", "lm", "batch.volcano.sh/v1alpha1 Job lm", {}, id="volcano-job"),
        pytest.param(
            "PyTorchJob",
            "bert",
            "kubeflow.org/v1 PyTorchJob bert",
            {"training.kubeflow.org/job-name": "bert"},
            id="pytorchjob",
        ),
        pytest.param(
            "RayCluster",
            "lab",
            "ray.io/v1 RayCluster lab",
            {"ray.io/cluster": "lab"},
            id="raycluster",
        ),
        pytest.param(
            "RayJob",
            "tune",
            "ray.io/v1 RayCluster tune-x7k2p",
            {
                "ray.io/cluster": "tune-x7k2p",
                "ray.io/originated-from-cr-name": "tune",
                "ray.io/originated-from-crd": "RayJob",
            },
            id="rayjob",
        ),
        pytest.param(
            "RayCluster",
            "tune-x7k2p",
            "ray.io/v1 RayCluster tune-x7k2p",
            {"ray.io/originated-from-cr-name": "tune"},
            id="ray-origin-without-its-kind",
        ),
        pytest.param(
            "Workflow", "etl-9x2lp", "argoproj.io/v1alpha1 Workflow etl-9x2lp", {}, id="argo-workflow"
        ),
        pytest.param(
            "SparkApplication",
            "join",
            "v1 Pod join-driver",
            {"sparkoperator.k8s.io/app-name": "join"},
            id="spark-executor",
        ),
        pytest.param("Whatever", "x", "example.com/v1 Whatever x", {}, id="unknown-kind-as-it-stands"),
    ],
)
def test_the_workload_is_what_somebody_deployed(
    kind: str, name: str, owner: str, labels: dict[str, str]
) -> None:
    assert Workload(kind, name) == workload_of(owned("any-pod", owner, labels))


def test_a_cronjob_read_from_its_jobs_name_is_inferred() -> None:
    pod = owned("nightly-eval-29934305-rs69m", "batch/v1 Job nightly-eval-29934305")
    assert Workload("CronJob", "nightly-eval", inferred=True) == workload_of(pod)


def test_a_static_pod_goes_by_its_manifests_name_on_every_node() -> None:
    pods = [owned(f"kube-proxy-{node}", f"v1 Node {node}") for node in ("node-1", "node-2.example")]
    assert {Workload("StaticPod", "kube-proxy")} == {workload_of(pod) for pod in pods}


def test_a_pod_without_a_controller_is_its_own_workload() -> None:
    bystander = OwnerReference(kind="ConfigMap", name="c", uid="u", api_version="v1")
    assert Workload("Pod", "debug") == workload_of(ObjectMeta(name="debug", owner_references=[bystander]))


@pytest.mark.parametrize(
    ("owner", "workload"),
    [
        pytest.param("batch/v1 CronJob nightly", Workload("CronJob", "nightly"), id="of-a-cronjob"),
        pytest.param(None, Workload("Job", "nightly-29934305"), id="of-nobody"),
    ],
)
def test_a_job_itself_tells_for_sure(owner: str | None, workload: Workload) -> None:
    job = owned("nightly-29934305", owner) if owner else ObjectMeta(name="nightly-29934305")
    assert workload == workload_of(job, kind="Job")


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        pytest.param(
            "llm-server-df7f55ddd-ftvjq", Workload("Deployment", "llm-server", inferred=True), id="deployment"
        ),
        pytest.param(
            "a-b-c-56d5cc849-x2z9l", Workload("Deployment", "a-b-c", inferred=True), id="dashes-in-its-name"
        ),
        pytest.param(
            f"{'a' * 46}-56d5cc849-ftvjq",
            Workload("Deployment", "a" * 46, inferred=True),
            id="just-short-enough-to-be-whole",
        ),
        pytest.param("nightly-29934305-rs69m", Workload("CronJob", "nightly", inferred=True), id="cronjob"),
        pytest.param(
            "nightly-1796062440-rs69m",
            Workload("CronJob", "nightly", inferred=True),
            id="cronjob-before-kubernetes-1.21",
        ),
        pytest.param("sweep-20261130-rs69m", None, id="job-named-after-a-day"),
        pytest.param("sweep-2026113017-rs69m", None, id="job-named-after-an-hour"),
        pytest.param("sweep-1000000000-rs69m", None, id="job-named-after-a-round-number"),
        pytest.param("finetune-xkff6", None, id="job-or-daemonset"),
        pytest.param("notebook-0", None, id="statefulset"),
        pytest.param("web-56d5cc849-ftvja", None, id="suffix-with-a-vowel"),
        pytest.param("web-56d5cc849-ftvj", None, id="suffix-too-short"),
        pytest.param("web-deadbeef1-ftvjq", None, id="hash-with-letters-that-it-never-has"),
        pytest.param("web-5dcc849-ftvjq", None, id="hash-too-short"),
        pytest.param("56d5cc849-ftvjq", None, id="no-name"),
        pytest.param(f"{'a' * 47}-56d5cc849-ftvjq", None, id="perhaps-cut-to-63-characters"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_name_alone_lets_guess_at_most_what_generated_it(pod: str, workload: Workload | None) -> None:
    assert workload == infer_workload(pod)
