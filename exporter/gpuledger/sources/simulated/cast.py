"""Who lives in the simulated cluster: some 40 pods in six namespaces, each with a story."""

from __future__ import annotations

from typing import Any

from gpuledger.sources.simulated.day import at_work, busy, by_day, idle
from gpuledger.sources.simulated.hardware import MACHINES
from gpuledger.sources.simulated.tenants import Place, Rhythm, Tenant

_GPU, _SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
_SMALL, _MEDIUM, _LARGE = (f"nvidia.com/mig-{profile}" for profile in ("1g.10gb", "2g.20gb", "3g.40gb"))
_H100, _A100, _L4, _DRA, _T4 = (machine.name for machine in MACHINES)

_FULL = "0/5 nodes are available: 1 node(s) were unschedulable, 4 Insufficient {}."


def _whole(*gpus: int) -> tuple[Place, ...]:
    return tuple(map(Place, gpus))


def _training() -> list[Tenant]:
    """Long runs on whole GPUs; the second worker meets a hot GPU, and one job crashes again and again."""
    pretrain: dict[str, Any] = {
        "namespace": "ml-training", "name": "llama-pretrain", "container": "pytorch", "kind": "PyTorchJob",
        "node": _H100, "asks": {_GPU: 2}, "memory_gib": 71.0, "load": busy(0.93), "process": "pt_main_thread",
    }  # fmt: skip
    return [
        Tenant(**pretrain, role="master", places=_whole(0, 1)),
        Tenant(**pretrain, role="worker", places=_whole(2, 3)),
        Tenant(
            namespace="ml-training", name="finetune", container="trainer", kind="Job", node=_H100,
            asks={_GPU: 1}, places=_whole(4), memory_gib=61.0, load=busy(0.88),
        ),
        Tenant(
            namespace="ml-training", name="ablation-17", container="trainer", kind="Job", node=_H100,
            asks={_GPU: 1}, places=_whole(5), memory_gib=38.0, load=busy(0.7),
            rhythm=Rhythm(45, 20, crashes=True), trouble=True,
        ),
        *(
            Tenant(
                namespace="ml-training", name="moe-pretrain", container="pytorch", kind="PyTorchJob",
                role="worker", ordinal=number, asks={_GPU: 8}, waits=_FULL.format(_GPU), trouble=True,
            )
            for number in range(2)
        ),
    ]  # fmt: skip


def _research() -> list[Tenant]:
    """Notebooks: those who come in the morning, and those who left theirs behind."""

    def notebook(who: str, node: str, resource: str, place: Place, gib: float, **more: Any) -> Tenant:
        return Tenant(
            namespace="research", name=f"notebook-{who}", container="jupyter", kind="StatefulSet", node=node,
            asks={resource: 1}, places=(place,), memory_gib=gib, **more,
        )  # fmt: skip

    latest = {"image": "quay.io/jupyter/pytorch-notebook:latest"}
    return [
        notebook("alice", _H100, _GPU, Place(6), 24.0, load=at_work(0.8), trouble=True),
        notebook("bob", _H100, _GPU, Place(7), 9.0, load=idle, trouble=True),
        notebook("carol", _A100, _SMALL, Place(3, 0), 4.0, load=at_work(0.5)),
        notebook("dave", _A100, _SMALL, Place(3, 1), 2.5, load=idle, trouble=True),
        notebook("erin", _A100, _MEDIUM, Place(2, 1), 11.0, load=at_work(0.6), container_spec=latest),
        Tenant(
            namespace="research", name="diffusion", container="train", kind="StatefulSet", node=_A100,
            asks={_GPU: 1}, places=_whole(1), memory_gib=52.0, load=busy(0.8),
        ),
        Tenant(
            namespace="research", name="notebook-frank", container="jupyter", kind="StatefulSet",
            asks={_GPU: 1}, trouble=True,
            waits="0/5 nodes are available: 5 node(s) didn't match Pod's node affinity/selector.",
        ),
    ]  # fmt: skip


def _inference() -> list[Tenant]:
    """Services that share GPUs, as busy as the public is, and two that share a claim."""

    def service(name: str, replica: int, place: Place, gib: float, level: float) -> Tenant:
        return Tenant(
            namespace="inference", name=name, container="server", ordinal=replica, node=_L4, asks={_SHARED: 1},
            places=(place,), memory_gib=gib, load=by_day(level),
        )  # fmt: skip

    vllm: dict[str, Any] = {
        "namespace": "inference", "name": "vllm-mistral", "container": "vllm", "node": _DRA,
        "claim": "vllm-gpu", "places": _whole(0), "memory_gib": 19.0, "load": by_day(0.45), "process": "vllm",
    }  # fmt: skip
    return [
        *(service("llm-server", number, Place(number, 0), 9.0, 0.55) for number in range(3)),
        *(service("reranker", number, Place(number, 1), 4.0, 0.25) for number in range(2)),
        *(service("ocr", number, Place(number + 1, 2), 3.0, 0.2) for number in range(2)),
        service("translate", 0, Place(0, 2), 5.0, 0.3),
        *(Tenant(**vllm, ordinal=number) for number in range(2)),
        *(
            Tenant(
                namespace="inference", name="embeddings", container="server", ordinal=number, node=_A100,
                asks={_SMALL: 1}, places=(Place(3, 2 + number),), memory_gib=6.0, load=by_day(0.5),
            )
            for number in range(2)
        ),
        Tenant(
            namespace="inference", name="rag-indexer", container="indexer", node=_A100, asks={_LARGE: 1},
            places=(Place(2, 0),), memory_gib=27.0, load=by_day(0.6),
        ),
    ]  # fmt: skip


def _batch() -> list[Tenant]:
    """Jobs that come and go, by schedule, by queue and by claim."""
    gated = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    return [
        Tenant(
            namespace="batch", name="nightly-eval", container="eval", kind="CronJob", node=_A100,
            asks={_SMALL: 1}, places=(Place(3, 5),), memory_gib=6.0, load=busy(0.6), rhythm=Rhythm(60, 40),
        ),
        Tenant(
            namespace="batch", name="render", container="blender", kind="Job", node=_A100, asks={_GPU: 1},
            places=_whole(0), memory_gib=22.0, load=busy(0.75), process="blender", rhythm=Rhythm(90, 60),
        ),
        Tenant(
            namespace="batch", name="simulate", container="gromacs", kind="RayCluster", role="worker",
            node=_DRA, claim="simulate-gpu", places=_whole(1), memory_gib=12.0, load=busy(0.9), process="gmx",
        ),
        Tenant(
            namespace="batch", name="transcode", container="ffmpeg", kind="Job", asks={_SHARED: 1},
            pod_spec=gated,
        ),
        Tenant(
            namespace="batch", name="screening", container="dock", kind="Job", claim="screening-gpus",
            trouble=True,
            waits="0/5 nodes are available: 5 cannot allocate all claims. preemption: not helpful.",
        ),
    ]  # fmt: skip


def _sandbox() -> list[Tenant]:
    """Those who break the rules, one a severity."""
    sees_all = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    return [
        Tenant(
            namespace="sandbox", name="miner", container="xmr", kind="Pod", node=_H100, places=_whole(7),
            memory_gib=3.0, load=busy(0.7), process="kworker/u8:3", image="docker.io/library/alpine",
            rhythm=Rhythm(150, 90), container_spec={"env": sees_all}, trouble=True,
        ),
        Tenant(
            namespace="sandbox", name="debug-shell", container="shell", kind="Pod", node=_A100,
            container_spec={"securityContext": {"privileged": True}, "env": sees_all, "resources": {}},
            pod_spec={"hostPID": True, "volumes": [{"name": "root", "hostPath": {"path": "/"}}]}, trouble=True,
        ),
        Tenant(
            namespace="sandbox", name="profiler", container="nsight", node=_L4, asks={_SHARED: 1},
            places=(Place(3, 0),), memory_gib=2.0, load=at_work(0.4),
            container_spec={"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, trouble=True,
        ),
        Tenant(
            namespace="sandbox", name="hackathon", container="app", node=_L4, asks={_SHARED: 1},
            places=(Place(3, 1),), memory_gib=1.5, load=at_work(0.3, 18, 23),
            container_spec={"securityContext": {"runAsUser": 0}}, trouble=True,
        ),
        Tenant(
            namespace="sandbox", name="course", container="jupyter", kind="StatefulSet", node=_DRA,
            claim="course-gpu", places=_whole(2), memory_gib=6.0, load=at_work(0.5, 13, 16),
            container_spec={"securityContext": {}}, trouble=True,
        ),
    ]  # fmt: skip


def _stack() -> list[Tenant]:
    """The GPU stack's own pods, which are exempt from what they are there for; one finds no driver."""
    privileged = {"securityContext": {"privileged": True}}
    images = {True: "k8s-dra-driver-gpu:v25.3.2", False: "k8s-device-plugin:v0.17.4"}
    plugins = [
        Tenant(
            namespace="gpu-operator", kind="DaemonSet", container="plugin", ordinal=number, node=machine.name,
            name="nvidia-dra-driver" if machine.by_claim else "nvidia-device-plugin",
            image=f"nvcr.io/nvidia/{images[machine.by_claim]}", container_spec=privileged,
        )
        for number, machine in enumerate(MACHINES)
        if machine.driver
    ]  # fmt: skip
    driver = Tenant(
        namespace="gpu-operator", name="nvidia-driver", container="driver", kind="DaemonSet", node=_T4,
        image="nvcr.io/nvidia/driver:580.65.06-ubuntu24.04", container_spec=privileged,
        rhythm=Rhythm(50, 15, crashes=True), trouble=True,
    )  # fmt: skip
    return [*plugins, driver]


TENANTS = (*_training(), *_research(), *_inference(), *_batch(), *_sandbox(), *_stack())
NAMESPACES = tuple(dict.fromkeys(tenant.namespace for tenant in TENANTS))
QUOTAS = {"ml-training": {_GPU: 24}, "research": {_GPU: 4, _SMALL: 3}, "inference": {_SHARED: 12}}
"""GPUs that a namespace may ask for at most."""
