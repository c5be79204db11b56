"""Pods, as a real API server sent them and as they may come otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuledger.core.model import ContainerId, Pod, PodContainer, Termination, Workload
from gpuledger.parse.kubelist import MalformedObject, WatchEvent, parse_status_message
from gpuledger.parse.kubeobjects import parse_job, parse_pod, parse_pod_list, parse_watch_event

CAPTURE = Path(__file__).parent.parent / "fixtures" / "kube-1.36"


@pytest.fixture(scope="module")
def node1() -> dict[str, Pod]:
    """The pods of a real node, by name."""
    pods = parse_pod_list((CAPTURE / "api-pods-node1.json").read_bytes())
    assert ((), "", "651") == (pods.malformed, pods.continue_token, pods.resource_version)
    return {pod.name: pod for pod in pods.items}


def pod_json(**parts: Any) -> dict[str, Any]:
    """A pod that is as small as the API allows, with `parts` of its metadata, spec and status."""
    return {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u1",
            "resourceVersion": "7",
            **parts.pop("metadata", {}),
        },
        "spec": {"containers": [{"name": "c"}], **parts.pop("spec", {})},
        "status": parts.pop("status", {}),
    }


def parsed(**parts: Any) -> Pod:
    return parse_pod(json.dumps(pod_json(**parts)).encode())


def test_every_pod_of_a_real_node_has_its_workload(node1: dict[str, Pod]) -> None:
    expected = {
        "llm-server-df7f55ddd-ftvjq": Workload("Deployment", "llm-server"),
        "llm-server-df7f55ddd-mtt5x": Workload("Deployment", "llm-server"),
        "node-agent-dtk2p": Workload("DaemonSet", "node-agent"),
        "static-gpu-daemon-node1": Workload("StaticPod", "static-gpu-daemon"),
        "crashy": Workload("Pod", "crashy"),
        "done": Workload("Pod", "done"),
        "finetune-xkff6": Workload("Job", "finetune"),
        "nightly-eval-29934305-rs69m": Workload("CronJob", "nightly-eval", inferred=True),
        "debug-shell": Workload("Pod", "debug-shell"),
        "notebook-0": Workload("StatefulSet", "notebook"),
        "sneaky": Workload("Pod", "sneaky"),
    }
    assert expected == {name: pod.workload for name, pod in node1.items()}


def test_every_pod_of_a_real_node_has_its_containers_in_starting_order(node1: dict[str, Pod]) -> None:
    server = [("fetch-weights", "init"), ("log-shipper", "sidecar"), ("server", "regular")]
    expected = {
        "llm-server-df7f55ddd-ftvjq": server,
        "llm-server-df7f55ddd-mtt5x": server,
        "node-agent-dtk2p": [("agent", "regular")],
        "static-gpu-daemon-node1": [("main", "regular")],
        "crashy": [("c", "regular")],
        "done": [("c", "regular")],
        "finetune-xkff6": [("trainer", "regular")],
        "nightly-eval-29934305-rs69m": [("eval", "regular")],
        "debug-shell": [("sh", "regular")],
        "notebook-0": [("jupyter", "regular"), ("sync", "regular")],
        "sneaky": [("miner", "regular"), ("dbg", "ephemeral")],
    }
    assert expected == {
        name: [(container.name, container.kind) for container in pod.containers] for name, pod in node1.items()
    }


def test_every_container_of_a_real_node_has_the_id_of_its_log_file(node1: dict[str, Pod]) -> None:
    """Each container that the API names has an id of 64 digits, all of them different."""
    ids = [container.container_id or "" for pod in node1.values() for container in pod.containers]
    assert {64} == {len(each) for each in ids}
    assert len(ids) == len({int(each, 16) for each in ids})


def test_what_a_real_pod_requests_is_its_extended_resources_alone(node1: dict[str, Pod]) -> None:
    expected = {
        "llm-server-df7f55ddd-ftvjq": {"nvidia.com/gpu.shared": 1.0},
        "llm-server-df7f55ddd-mtt5x": {"nvidia.com/gpu.shared": 1.0},
        "node-agent-dtk2p": {},
        "static-gpu-daemon-node1": {},
        "crashy": {"nvidia.com/gpu": 1.0},
        "done": {"nvidia.com/gpu": 1.0},
        "finetune-xkff6": {"nvidia.com/gpu": 2.0},
        "nightly-eval-29934305-rs69m": {"nvidia.com/mig-1g.10gb": 1.0},
        "debug-shell": {"nvidia.com/gpu": 1.0},
        "notebook-0": {"nvidia.com/gpu": 1.0},
        "sneaky": {},
    }
    assert expected == {name: dict(pod.requests) for name, pod in node1.items()}


def test_a_crash_looping_container_keeps_its_earlier_runs(node1: dict[str, Pod]) -> None:
    (container,) = node1["crashy"].containers
    assert PodContainer(
        name="c",
        container_id=ContainerId("5e49437914248a8d00ca860ae6616489b5a6e762cf3a792c112a1a4fef3b2c7b"),
        past_container_ids=(ContainerId("7637348483d03a5a201bae2ba4cd1e6d443736cb75b162e87d9f0cacc0445131"),),
        ready=False,
        restarts=3,
        last_terminated=Termination("Error", 137, 1796058307.0),
        image="localhost/busybox:1",
        requests={"nvidia.com/gpu": 1.0},
    ) == replace(container, requests=dict(container.requests))


def test_a_real_static_pod_has_the_uid_that_its_cgroup_bears(node1: dict[str, Pod]) -> None:
    pod = node1["static-gpu-daemon-node1"]
    assert ("0683b54f-d643-4b9e-b5b7-829e1e699e6c", "59c4df0a0ccce5b7aad9ad5d4e5233db") == (
        pod.uid,
        pod.config_hash,
    )
    assert {None} == {pod.config_hash for name, pod in node1.items() if name != "static-gpu-daemon-node1"}


def test_the_facts_of_a_real_pod(node1: dict[str, Pod]) -> None:
    pod = node1["done"]
    assert ("ml-training", "node1", "Succeeded", "BestEffort") == (pod.namespace, pod.node, pod.phase, pod.qos)
    assert (False, True, 1796058252.0, None) == (pod.ready, pod.terminal, pod.created_at, pod.deleted_at)


def test_a_real_watch_folds_to_what_the_list_of_its_last_version_says(node1: dict[str, Pod]) -> None:
    known: dict[str, Pod] = {}
    version = ""
    for line in (CAPTURE / "api-watch.jsonl").read_bytes().splitlines():
        event = parse_watch_event(line)
        version = event.resource_version
        if event.object is not None:
            known[event.uid] = event.object
        elif event.type == "DELETED":
            del known[event.uid]
    assert "651" == version
    assert node1 == {pod.name: pod for pod in known.values() if pod.node == "node1"}


def test_pages_of_a_real_list_are_bound_by_their_token() -> None:
    first, second = (parse_pod_list((CAPTURE / f"api-pods-page{n}.json").read_bytes()) for n in (1, 2))
    assert [5, 5] == [len(page.items) for page in (first, second)]
    assert first.resource_version == second.resource_version == "664"
    assert first.continue_token
    assert first.continue_token != second.continue_token
    assert not {pod.uid for pod in first.items} & {pod.uid for pod in second.items}


def test_a_real_watch_from_a_forgotten_version_is_an_error_with_its_status() -> None:
    event = parse_watch_event((CAPTURE / "api-watch-410.jsonl").read_bytes())
    assert WatchEvent("ERROR", status=410, message="too old resource version: 1 (297)") == event


def test_real_refusals_say_why() -> None:
    assert "Unauthorized" == parse_status_message((CAPTURE / "api-401.json").read_bytes())
    assert "cannot list resource" in parse_status_message((CAPTURE / "api-403.json").read_bytes())
    assert "" == parse_status_message(b"<html>502 Bad Gateway</html>")


@pytest.mark.parametrize("runtime", ["containerd", "cri-o", "docker"])
def test_a_container_id_loses_its_runtime(runtime: str) -> None:
    pod = parsed(status={"containerStatuses": [{"name": "c", "containerID": f"{runtime}://abc"}]})
    assert "abc" == pod.containers[0].container_id


def test_a_container_that_waits_has_no_id_and_is_not_ready() -> None:
    pod = parsed(status={"containerStatuses": [{"name": "c", "containerID": "", "state": {"waiting": {}}}]})
    assert PodContainer("c") == pod.containers[0]


def test_a_container_without_a_status_is_known_by_its_spec() -> None:
    assert (PodContainer("c"),) == parsed().containers


@pytest.mark.parametrize(
    ("status", "ready"), [("True", True), ("False", False), ("Unknown", None), (None, None)]
)
def test_readiness_is_what_the_condition_says_or_unknown(status: str | None, ready: bool | None) -> None:  # noqa: FBT001 - a table's column
    conditions = [{"type": "Initialized", "status": "True"}]
    if status:
        conditions.append({"type": "Ready", "status": status})
    assert ready is parsed(status={"conditions": conditions}).ready


def test_a_pod_that_is_being_deleted_says_since_when() -> None:
    pod = parsed(metadata={"deletionTimestamp": "2026-11-30T17:04:36Z"})
    assert 1796058276.0 == pod.deleted_at


def test_a_config_hash_that_anybody_can_write_does_not_make_a_static_pod() -> None:
    annotations = {"kubernetes.io/config.hash": "59c4df0a0ccce5b7aad9ad5d4e5233db"}
    assert parsed(metadata={"annotations": annotations}).config_hash is None


def gpus(requests: object = None, limits: object = None, name: str = "c", **more: str) -> dict[str, Any]:
    resources = {
        "requests": requests and {"nvidia.com/gpu": requests},
        "limits": limits and {"nvidia.com/gpu": limits},
    }
    return {"name": name, "resources": resources, **more}


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        pytest.param({"containers": [gpus("2", "2")]}, {"nvidia.com/gpu": 2.0}, id="request"),
        pytest.param(
            {"containers": [gpus(limits="1")]}, {"nvidia.com/gpu": 1.0}, id="limit-alone-is-a-request"
        ),
        pytest.param({"containers": [gpus(limits=1)]}, {"nvidia.com/gpu": 1.0}, id="number-without-quotes"),
        pytest.param({"containers": [gpus("0", "0")]}, {}, id="zero-is-no-request"),
        pytest.param({"containers": [gpus("many")]}, {}, id="no-number-is-no-request"),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]},
            {},
            id="not-extended",
        ),
        pytest.param(
            # kubernetes/kubernetes#134880: init 1, sidecar 1, init 2, app 1
            {
                "initContainers": [
                    gpus("1", name="a"),
                    gpus("1", name="b", restartPolicy="Always"),
                    gpus("2", name="d"),
                ],
                "containers": [gpus("1")],
            },
            {"nvidia.com/gpu": 3.0},
            id="init-beside-the-sidecars-before-it",
        ),
        pytest.param(
            {"containers": [gpus("1")], "overhead": {"nvidia.com/gpu": "1", "cpu": "1"}},
            {"nvidia.com/gpu": 2.0},
            id="overhead",
        ),
        pytest.param(
            {"containers": [{"name": "c"}], "ephemeralContainers": [gpus("1", name="e")]}, {}, id="ephemeral"
        ),
    ],
)
def test_a_pod_requests_what_the_scheduler_counts(spec: dict[str, Any], requests: dict[str, float]) -> None:
    assert requests == dict(parsed(spec=spec).requests)


def test_nulls_are_as_good_as_nothing() -> None:
    spec = {"containers": None, "initContainers": None, "nodeName": None, "overhead": None}
    status = {"containerStatuses": None, "conditions": None}
    pod = parsed(metadata={"labels": None, "ownerReferences": None}, spec=spec, status=status)
    assert ((), "", {}) == (pod.containers, pod.node, dict(pod.requests))


@pytest.mark.parametrize(
    ("broken", "name", "problem"),
    [
        pytest.param(
            {"spec": {"containers": "a string"}, "metadata": {"name": "b"}},
            "b",
            "Expected `array | null`, got `str` - at `$.spec.containers`",
            id="containers-no-list",
        ),
        pytest.param({"metadata": {"name": "b"}}, "b", "missing required field `spec`", id="no-spec"),
        pytest.param(
            {"metadata": {"name": "b", "creationTimestamp": "yesterday"}, "spec": {}},
            "b",
            "Invalid RFC3339 encoded datetime - at `$.metadata.creationTimestamp`",
            id="time-that-is-none",
        ),
        pytest.param(
            {"metadata": {"name": 5}, "spec": {}}, "", "got `int` - at `$.metadata.name`", id="no-name"
        ),
        pytest.param("text", "", "got `str`", id="no-object"),
        pytest.param(None, "", "got `null`", id="null"),
    ],
)
def test_a_malformed_pod_costs_only_itself_and_is_named(broken: object, name: str, problem: str) -> None:
    items = [pod_json(metadata={"name": "a"}), broken, pod_json(metadata={"name": "z"})]
    body = json.dumps({"metadata": {"resourceVersion": "9", "continue": "next"}, "items": items}).encode()
    pods = parse_pod_list(body)
    assert ["a", "z"] == [pod.name for pod in pods.items]
    [malformed] = pods.malformed
    assert name == malformed.name
    assert problem in malformed.problem
    assert ("9", "next") == (pods.resource_version, pods.continue_token)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"kind":"Status","metadata":{},"code":500}', b'{"items":[]']
)
def test_what_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="not what the Kubernetes API sends"):
        parse_pod_list(body)


def event(kind: str, obj: object) -> WatchEvent[Pod]:
    return parse_watch_event(json.dumps({"type": kind, "object": obj}).encode())


def test_a_malformed_object_of_an_event_is_known_by_its_metadata() -> None:
    actual = event("MODIFIED", {**pod_json(), "spec": {"containers": 5}})
    assert actual.malformed is not None
    assert "at `$.spec.containers`" in actual.malformed.problem
    known = replace(actual.malformed, problem="")
    expected: WatchEvent[Pod] = WatchEvent("MODIFIED", uid="u1", resource_version="7", malformed=known)
    assert expected == replace(actual, malformed=known)
    assert MalformedObject("u1", "ns", "p", "") == known


def test_an_event_of_an_object_with_malformed_metadata_is_one() -> None:
    broken = pod_json(metadata={"name": "b", "uid": "u2", "creationTimestamp": "yesterday"})
    malformed = event("ADDED", broken).malformed
    assert malformed is not None
    assert ("u2", "b") == (malformed.uid, malformed.name)


def test_a_deletion_needs_no_more_than_metadata() -> None:
    assert WatchEvent("DELETED", uid="u1", resource_version="7") == event("DELETED", {**pod_json(), "spec": 5})


def test_a_bookmark_moves_the_version() -> None:
    bookmark = {
        "kind": "Pod",
        "metadata": {"resourceVersion": "651"},
        "spec": {"containers": None},
        "status": {},
    }
    assert WatchEvent("BOOKMARK", resource_version="651") == event("BOOKMARK", bookmark)


@pytest.mark.parametrize(
    "line",
    [b"", b'{"type":"ADDED"', b'{"type":"RENAMED","object":{"metadata":{}}}', b'{"type":"ADDED","object":{}}'],
)
def test_what_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="not what the Kubernetes API sends"):
        parse_watch_event(line)


def test_a_job_names_its_uid_and_the_cronjob_that_created_it() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "c1", "controller": True}
    job = {"metadata": {"name": "nightly-29934305", "uid": "j1", "ownerReferences": [owner]}, "spec": {}}
    assert ("j1", Workload("CronJob", "nightly")) == parse_job(json.dumps(job).encode())
