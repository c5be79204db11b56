"""GPU use that is not as it was asked for is found, and nothing is found where evidence is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuledger.core.attribution import PodIndex
from gpuledger.core.misuse import MIB, Misuse, NodeView, Patience, misuse
from gpuledger.core.model import (
    Allocation,
    Gpu,
    GpuReading,
    GpuUuid,
    Memory,
    MigUuid,
    Owner,
    Pod,
    PodContainer,
    PodUid,
    ProcessFacts,
    ProcessUse,
    Unattributed,
)
from gpuledger.core.snapshot import AttributedProcess, ContainerUse, Holder

GPU, OTHER = (Gpu(index, GpuUuid(f"GPU-{index}")) for index in range(2))
OWNER = Owner("ml", "train", "main", pod_uid=PodUid("uid"))
GIB = 2**30


def process(holder: Holder = OWNER, gpu: Gpu = GPU, name: str = "python", mig: str = "") -> AttributedProcess:
    return AttributedProcess(gpu, ProcessUse(7, GIB, MigUuid(mig)), holder, ProcessFacts(7, name=name))


def given(gpu: Gpu | None = GPU, container: str = "main", mig: str | None = None) -> Allocation:
    uuid, mig_uuid = (gpu.uuid if gpu else None), (MigUuid(mig) if mig else None)
    return Allocation("ml", "train", container, "nvidia.com/gpu", "id", uuid, mig_uuid)


def reading(gpu: Gpu = GPU, *pids: int, used: int = 0, busy: float = 0.0) -> GpuReading:
    return GpuReading(
        gpu,
        up=True,
        memory=Memory(80 * GIB, used, 80 * GIB - used),
        values={"gpu_utilization_ratio": {(): busy}},
        processes=tuple(ProcessUse(pid, GIB) for pid in pids),
    )


def use(**said: Any) -> ContainerUse:
    return ContainerUse(GPU, MigUuid(""), OWNER, **{"allocated": {"nvidia.com/gpu": 1}, **said})


def pod(requests: dict[str, float] | None = None, phase: str = "Running", **said: Any) -> Pod:
    container = PodContainer("main", requests={"nvidia.com/gpu": 1.0} if requests is None else requests)
    return Pod(PodUid("uid"), "ml", "train", phase=phase, containers=(container,), **said)


def view(**said: Any) -> NodeView:
    """A node on which all is well, but for what is said."""
    well: dict[str, Any] = {
        "readings": [reading(GPU, 7)],
        "processes": [],
        "containers": [],
        "pods": PodIndex.of([said.pop("pod", pod())]),
        "api_is_current": True,
        "allocations": [given()],
        "in_host_pid_namespace": True,
    }
    return NodeView(**{**well, **said})


UNRESOLVED = given(None)
BY_CLAIM: dict[str, Any] = {"asks_otherwise": True}


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(view(processes=[process()]), [], id="uses what it was given"),
        pytest.param(
            view(processes=[process()], allocations=[], pod=pod({})),
            ["rt-use-without-request"],
            id="was given nothing",
        ),
        pytest.param(
            view(processes=[process()], allocations=[given(container="other")], pod=pod({})),
            ["rt-use-without-request"],
            id="another container of the pod was given it",
        ),
        pytest.param(
            view(processes=[process(replace(OWNER, container=""))]),
            [],
            id="some container of the pod was given it",
        ),
        pytest.param(
            view(processes=[process()], allocations=[], pod=pod(**BY_CLAIM)), [], id="asks by claim, untold"
        ),
        pytest.param(view(processes=[process()], allocations=None), [], id="the kubelet is silent"),
        pytest.param(view(processes=[process(gpu=OTHER)]), ["rt-use-wrong-device"], id="uses another GPU"),
        pytest.param(
            view(processes=[process(gpu=OTHER)], allocations=[UNRESOLVED]),
            [],
            id="who knows which it was given",
        ),
        pytest.param(
            view(processes=[process(mig="MIG-2")], allocations=[given(mig="MIG-1")]),
            ["rt-use-wrong-device"],
            id="uses another MIG device",
        ),
        pytest.param(
            view(processes=[process(mig="MIG-1")], allocations=[given(mig="MIG-1")]),
            [],
            id="uses its MIG device",
        ),
        pytest.param(
            view(processes=[process(Unattributed("host"))]), ["rt-host-process"], id="a process of the host"
        ),
        pytest.param(
            view(processes=[process(Unattributed("container"), name="nv-hostengine")]),
            ["rt-host-process"],
            id="a container of another runtime, whatever it calls itself",
        ),
        pytest.param(
            view(processes=[process(Unattributed("host"), name="nvidia-cuda-mps")]),
            [],
            id="the driver's services",
        ),
        pytest.param(view(processes=[process(Unattributed("permission"))]), [], id="nobody knows whose"),
        pytest.param(
            view(processes=[process()], allocations=[], pod=pod(phase="Failed")),
            ["rt-orphan"],
            id="its pod has ended",
        ),
        pytest.param(
            view(processes=[process()], allocations=[], pods=PodIndex()), ["rt-orphan"], id="its pod is gone"
        ),
        pytest.param(
            view(processes=[process()], pods=PodIndex(), api_is_current=False), [], id="the API is away"
        ),
        pytest.param(
            view(processes=[process(Unattributed("pod-unknown"))]), ["rt-orphan"], id="a pod that nothing names"
        ),
        pytest.param(view(readings=[reading(used=60 * GIB)]), ["rt-ghost"], id="memory without a process"),
        pytest.param(view(readings=[reading(busy=1.0)]), ["rt-ghost"], id="busy without a process"),
        pytest.param(view(readings=[reading(used=GIB // 2)]), [], id="the driver's own memory"),
        pytest.param(
            view(readings=[reading(busy=1.0)], in_host_pid_namespace=False),
            [],
            id="where processes can't be seen",
        ),
        pytest.param(
            view(readings=[replace(reading(busy=1.0), processes=None)]), [], id="no list of processes"
        ),
        pytest.param(
            view(containers=[use(processes=0, sm_ratio=0.0)]), ["rt-idle"], id="holds and uses nothing"
        ),
        pytest.param(
            view(containers=[use(processes=1, memory_used=GIB, sm_ratio=0.0)]),
            ["rt-idle-holding-memory"],
            id="holds memory and computes nothing",
        ),
        pytest.param(
            view(containers=[use(processes=1, memory_used=GIB, sm_ratio=None)]), [], id="how busy is not told"
        ),
        pytest.param(view(containers=[use(processes=None)]), [], id="what is used is not told"),
        pytest.param(view(containers=[use(active=False)]), [], id="it has ended"),
        pytest.param(
            view(
                containers=[use(processes=1, memory_used=5000 * MIB, sm_ratio=1.0)],
                pod=pod({"nvidia.com/gpu": 1.0, "nvidia.com/gpumem": 4000.0}),
            ),
            ["rt-over-share"],
            id="more than HAMi's share",
        ),
        pytest.param(
            view(
                containers=[use(processes=1, memory_used=41 * GIB, sm_ratio=1.0)],
                pod=pod(gpu_fraction=0.5, asks_otherwise=True),
            ),
            ["rt-over-share"],
            id="more than KAI's fraction",
        ),
        pytest.param(
            view(
                containers=[use(processes=1, memory_used=39 * GIB, sm_ratio=1.0)],
                pod=pod({"nvidia.com/gpu": 1.0, "nvidia.com/gpumem-percentage": 50.0}),
            ),
            [],
            id="within its percentage",
        ),
        pytest.param(
            view(allocations=[given(), given(OTHER)]), ["rt-alloc-drift"], id="given more than asked for"
        ),
        pytest.param(view(allocations=[]), ["rt-alloc-drift"], id="given less than asked for"),
        pytest.param(view(allocations=[], pod=pod(phase="Pending")), [], id="not given yet"),
        pytest.param(view(allocations=[], pod=pod(**BY_CLAIM)), [], id="given by claim"),
    ],
)
def test_a_cycle(node: NodeView, expected: list[str]) -> None:
    assert expected == [each.check for each in misuse(node)]


def test_what_does_not_last_is_no_finding() -> None:
    patience = Patience(idle=600)
    once, idle = Misuse("rt-host-process"), Misuse("rt-idle", OWNER)
    assert () == patience.outlasted([once, idle], 0)
    assert (once,) == patience.outlasted([once, idle], 30)
    assert (once, idle) == patience.outlasted([once, idle], 600)
    assert (once,) == patience.outlasted([once], 601)
    assert (once,) == patience.outlasted([once, idle], 1200)
