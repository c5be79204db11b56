"""`--classic` says what the old script said wherever that was right, and every difference is a known hole."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.auditing import report_of
from audit.old_rules import old_output
from gpuledger.audit.classic import CLASSIC_CHECKS
from gpuledger.audit.report.text import TextStyle, render_text

CAPTURE = Path(__file__).parents[1] / "fixtures/kube-1.36/kubectl-get-pods-A.json"

Object = dict[str, Any]


def classic_output(dump: str, *, every_pod: bool = False) -> str:
    report = report_of(dump.encode(), CLASSIC_CHECKS, every_pod=every_pod, reach=False)
    return "".join(render_text(report, TextStyle(classic=True, every_pod=every_pod)))


# ---- dumps on which the old script was right ----

_names = st.sampled_from(["train", "serve", "notebook", "a", "x-1"])
_images = st.sampled_from(
    [
        "app",
        "app:latest",
        "app:1.0",
        "app:LATEST",
        "app:main",
        "registry.example.com:5000/app",
        "registry.example.com:5000/team/app:2",
        "app@sha256:" + "a" * 64,
        "app:latest@sha256:" + "b" * 64,
    ]
)
_limits = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["1", "500m"]),
        "memory": st.sampled_from(["1Gi", "64Mi"]),
        "nvidia.com/gpu": st.sampled_from(["1", "8", 2]),
    },
)
_amd = st.fixed_dictionaries({"amd.com/gpu": st.sampled_from(["1", "4"]), "cpu": st.just("1")})


@st.composite
def _containers(draw: st.DrawFn) -> Object:
    container: Object = {"name": draw(_names), "image": draw(_images)}
    if draw(st.booleans()):
        container["resources"] = {"limits": draw(st.one_of(_limits, _amd))}
    if draw(st.booleans()):
        container["securityContext"] = {"privileged": draw(st.booleans())}
    return container


_volumes = st.builds(
    lambda name, source: {"name": name, **source},
    _names,
    st.sampled_from([{"hostPath": {"path": "/data"}}, {"hostPath": {"path": "/"}}, {"emptyDir": {}}]),
)
_pods = st.builds(
    lambda name, namespace, phase, containers, volumes: {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {"containers": containers, **({"volumes": volumes} if volumes else {})},
        "status": {"phase": phase},
    },
    _names,
    st.sampled_from(["", "ml", "research"]),
    st.sampled_from(["Running", "Pending", "Unknown"]),
    st.lists(_containers(), min_size=1, max_size=3),
    st.lists(_volumes, max_size=2),
)


@given(st.lists(_pods, max_size=6), st.booleans(), st.sampled_from([None, 4]))
def test_says_what_the_old_script_said(pods: list[Object], every_pod: bool, indent: int | None) -> None:  # noqa: FBT001 - drawn
    dump = json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}, indent=indent)
    assert old_output(dump, every_pod=every_pod) == classic_output(dump, every_pod=every_pod)


# ---- where it was wrong ----


def _pod(*containers: Object, **spec: Any) -> Object:
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ml"},
        "spec": {"containers": [_container(), *containers], **spec},
    }


def _container(**fields: Any) -> Object:
    limits = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    return {"name": "main", "image": "app:1", "resources": {"limits": limits}, **fields}


def _with_limits(**limits: Any) -> Object:
    return _container(resources={"limits": {"cpu": "1", "memory": "1Gi", **limits}})


BARE = {"name": "x", "image": "app:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
GPU_ONLY = {"name": "x", "image": "app:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}


def _alone(container: Object, **spec: Any) -> Object:
    pod = _pod(**spec)
    pod["spec"]["containers"] = [container]
    return pod


HOLES = {
    "init containers ask too": (
        _alone(BARE, initContainers=[_container()]),
        "no GPU pods found",
        "1 pod(s) audited, 1 card(s) requested, 0 finding(s)",
    ),
    "init containers do not add up": (
        _pod(initContainers=[_container(name="init", image="app")]),
        "1 pod(s) audited, 1 card(s) requested, 0 finding(s)",
        "[FINDING] ml/p init: unpinned image (app)",
    ),
    "sidecars count": (
        _pod(initContainers=[_container(name="side", restartPolicy="Always")]),
        "1 card(s) requested",
        "2 card(s) requested",
    ),
    "ephemeral containers are looked at": (
        _pod(
            ephemeralContainers=[{"name": "debug", "image": "busybox", "securityContext": {"privileged": True}}]
        ),
        "0 finding(s)",
        "[FINDING] ml/p debug: privileged container",
    ),
    "unlike cards add up instead of hiding each other": (
        _alone(_with_limits(**{"nvidia.com/gpu": "2", "amd.com/gpu": "1"})),
        "2 card(s) requested",
        "3 card(s) requested",
    ),
    "slices are GPUs": (
        _alone(_with_limits(**{"nvidia.com/mig-1g.10gb": "1"})),
        "no GPU pods found",
        "0 GPU (1 nvidia.com/mig-1g.10gb)",
    ),
    "shares are GPUs": (
        _alone(_with_limits(**{"nvidia.com/gpu.shared": "1"})),
        "no GPU pods found",
        "0 GPU (1 nvidia.com/gpu.shared)",
    ),
    "other vendors are GPUs": (
        _alone(_with_limits(**{"gpu.intel.com/xe": "1"})),
        "no GPU pods found",
        "1 card(s) requested",
    ),
    "every quantity is read: 1k": (
        _alone(_with_limits(**{"nvidia.com/gpu": "1k"})),
        "no GPU pods found",
        "1000 card(s) requested",
    ),
    "every quantity is read: 1.0": (
        _alone(_with_limits(**{"nvidia.com/gpu": "1.0"})),
        "no GPU pods found",
        "1 card(s) requested",
    ),
    "every quantity is read: 500m": (
        _alone(_with_limits(**{"nvidia.com/gpu": "500m"})),
        "no GPU pods found",
        "0.5 card(s) requested",
    ),
    "every quantity is read: 1e3": (
        _alone(_with_limits(**{"nvidia.com/gpu": "1e3"})),
        "no GPU pods found",
        "1000 card(s) requested",
    ),
    "ended pods hold nothing": (
        {**_pod(), "status": {"phase": "Succeeded"}},
        "1 card(s) requested",
        "no GPU pods found",
    ),
    "failed pods hold nothing": (
        {**_pod(), "status": {"phase": "Failed"}},
        "1 card(s) requested",
        "no GPU pods found",
    ),
    "claims are GPUs": (
        _alone(BARE, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}]),
        "no GPU pods found",
        "0 GPU (1 unresolved claim(s))",
    ),
    "KAI's fractions are GPUs": (
        {**_alone(BARE), "metadata": {"name": "p", "namespace": "ml", "annotations": {"gpu-fraction": "0.5"}}},
        "no GPU pods found",
        "1 pod(s) audited",
    ),
    "a malformed digest pins nothing": (
        _alone(_container(image="app@sha256:zz")),
        "0 finding(s)",
        "[FINDING] ml/p main: unpinned image (app@sha256:zz)",
    ),
    "an empty tag pins nothing": (
        _alone(_container(image="app:")),
        "0 finding(s)",
        "[FINDING] ml/p main: unpinned image (app:)",
    ),
    "limits of the pod are limits": (
        _alone(GPU_ONLY, resources={"limits": {"cpu": "1", "memory": "1Gi"}}),
        "[FINDING] ml/p x: no cpu/memory limits",
        "0 finding(s)",
    ),
    "a limit of 0 is none": (
        _alone(_with_limits(**{"nvidia.com/gpu": 1, "memory": "0"})),
        "0 finding(s)",
        "[FINDING] ml/p main: no cpu/memory limits",
    ),
}


@pytest.mark.parametrize(("pod", "old", "new"), HOLES.values(), ids=HOLES.keys())
def test_known_hole(pod: Object, old: str, new: str) -> None:
    dump = json.dumps({"kind": "List", "items": [pod]})
    assert (True, True) == (old in old_output(dump), new in classic_output(dump))
    assert new not in old_output(dump)


def test_differences_on_a_real_cluster_are_known_holes() -> None:
    dump = CAPTURE.read_text()
    old, new = old_output(dump).splitlines(), classic_output(dump).splitlines()
    assert [line for line in old if line not in new] == [
        "ml-training/done                                1 GPU",  # ended
        "[FINDING] ml-training/done c: no cpu/memory limits",
        "6 pod(s) audited, 14 card(s) requested, 8 finding(s)",
        "ALERT 5 of 6 pod(s) need review",
    ]
    assert [line for line in new if line not in old] == [
        "inference/llm-server-df7f55ddd-ftvjq            0 GPU (1 nvidia.com/gpu.shared)",
        "inference/llm-server-df7f55ddd-mtt5x            0 GPU (1 nvidia.com/gpu.shared)",
        "ml-training/nightly-eval-29934305-rs69m         0 GPU (1 nvidia.com/mig-1g.10gb)",
        "[FINDING] inference/llm-server-df7f55ddd-ftvjq log-shipper: no cpu/memory limits",  # a sidecar
        "[FINDING] inference/llm-server-df7f55ddd-mtt5x log-shipper: no cpu/memory limits",
        "[FINDING] ml-training/nightly-eval-29934305-rs69m eval: no cpu/memory limits",
        "8 pod(s) audited, 13 card(s) requested, 10 finding(s)",
        "ALERT 7 of 8 pod(s) need review",
    ]
