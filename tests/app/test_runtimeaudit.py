"""What GPU infrastructure is there for is no finding; owner, image and namespace together tell it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuledger.app.node.runtimeaudit import RuntimeAudit
from gpuledger.core.attribution import PodIndex
from gpuledger.core.misuse import PATIENCE_SECONDS, NodeView
from gpuledger.core.model import (
    Gpu,
    GpuUuid,
    Owner,
    Pod,
    PodContainer,
    PodUid,
    ProcessFacts,
    ProcessUse,
    Workload,
)
from gpuledger.core.snapshot import AttributedProcess, RuntimeFinding

DAEMON_SET = Workload("DaemonSet", "nvidia-dcgm-exporter")
IMAGE = "nvcr.io/nvidia/k8s/dcgm-exporter:4.4.0"
EXPORTER = Pod(
    PodUid("uid"),
    "gpu-operator",
    "nvidia-dcgm-exporter-x7k2p",
    phase="Running",
    workload=DAEMON_SET,
    containers=(PodContainer("exporter", image=IMAGE),),
)


def found(pod: Pod) -> tuple[RuntimeFinding, ...]:
    """What is found of a pod that uses a GPU which nobody gave to it, once that has gone on."""
    owner = Owner(pod.namespace, pod.name, "exporter", pod.workload, pod.uid)
    process = AttributedProcess(Gpu(0, GpuUuid("GPU-0")), ProcessUse(7, 1), owner, ProcessFacts(7, name="dcgm"))
    view = NodeView(
        readings=(),
        processes=[process],
        containers=[],
        pods=PodIndex.of([pod]),
        api_is_current=True,
        allocations=[],
        in_host_pid_namespace=True,
    )
    audit = RuntimeAudit(idle_window=3600)
    assert () == audit.findings(view, 0)
    return audit.findings(view, PATIENCE_SECONDS)


def test_a_metrics_exporter_is_exempt() -> None:
    (finding,) = found(EXPORTER)
    assert ("rt-use-without-request", "critical", True) == (finding.check, finding.severity, finding.exempt)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(replace(EXPORTER, namespace="ml"), id="another namespace"),
        pytest.param(replace(EXPORTER, workload=Workload("Job", "x")), id="another owner"),
        pytest.param(
            replace(
                EXPORTER, containers=(*EXPORTER.containers, PodContainer("miner", image="docker.io/x/miner"))
            ),
            id="a foreign container beside",
        ),
    ],
)
def test_what_merely_looks_like_one_is_not(pod: Pod) -> None:
    (finding,) = found(pod)
    assert not finding.exempt
