"""Why a pod waits, in one word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuledger.parse.manifests import PodManifest, parse_objects
from gpuledger.parse.waiting import parse_waiting


def pod(message: str | None = None, phase: str = "Pending", **spec: Any) -> PodManifest:
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]
    status = {"phase": phase, "conditions": conditions if message is not None else []}
    document = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [], **spec}, "status": status}
    (manifest,) = parse_objects(json.dumps([document]).encode())
    assert isinstance(manifest, PodManifest)
    return manifest


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", "insufficient-gpu"),
        (
            "0/9 nodes are available: 1 had untolerated taint {x: y}, 8 Insufficient nvidia.com/mig-1g.5gb.",
            "insufficient-gpu",
        ),
        ("0/3 nodes are available: 3 Insufficient memory.", "insufficient-resources"),
        ("0/3 nodes are available: 3 Too many pods.", "insufficient-resources"),
        ("0/3 nodes are available: 3 had untolerated taint {a: b}. preemption: 3 Insufficient cpu.", "taint"),
        ("0/3 nodes are available: 3 node(s) had volume node affinity conflict.", "volume"),
        ("pod has unbound immediate PersistentVolumeClaims", "volume"),
        ("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", "affinity"),
        ("0/3 nodes are available: 3 cannot allocate all claims.", "claim"),
        ("no nodes available to schedule pods", "unschedulable"),
    ],
)
def test_the_schedulers_messages(message: str, expected: str) -> None:
    assert expected == parse_waiting(pod(message))


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        pytest.param(pod(), "queued", id="nobody has looked at it"),
        pytest.param(pod("", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]), "gated", id="held back"),
        pytest.param(pod(nodeName="node1"), None, id="bound and not started"),
        pytest.param(pod("1 Insufficient cpu", phase="Failed"), None, id="failed before it was bound"),
    ],
)
def test_who_waits_at_all(waiting: PodManifest, expected: str | None) -> None:
    assert expected == parse_waiting(waiting)
