"""The fake API server answers as a real one did when it was asked the same."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from fakes.apiserver import ApiServer
from fakes.podwatch import pod

if TYPE_CHECKING:
    from collections.abc import Iterator

CAPTURE = Path(__file__).parent.parent / "fixtures" / "kube-1.36"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(bookmark_seconds=0.1) as api:
        yield api


def captured(name: str) -> Any:
    return json.loads((CAPTURE / name).read_text())


def get(server: ApiServer, path: str) -> Any:
    with urlopen(server.url + path, timeout=5) as answer:
        return json.load(answer)


def watch(server: ApiServer, query: str) -> list[Any]:
    with urlopen(f"{server.url}/api/v1/pods?watch=1&timeoutSeconds=1&{query}", timeout=5) as answer:
        return [json.loads(line) for line in answer]


def refusal(server: ApiServer, path: str) -> Any:
    with pytest.raises(HTTPError) as raised:
        get(server, path)
    with raised.value:
        return json.load(raised.value)


def shape(value: Any) -> Any:
    """Names and types, without the values."""
    return {name: shape(part) for name, part in value.items()} if isinstance(value, dict) else type(value)


def real_pods(server: ApiServer) -> None:
    """Store the pods of a real cluster, as the API does: with their kind."""
    for name in ("api-pods-page1.json", "api-pods-page2.json"):
        for item in captured(name)["items"]:
            server.add({"kind": "Pod", "apiVersion": "v1", **item})


def test_pages_have_the_shape_of_a_real_list(server: ApiServer) -> None:
    real_pods(server)
    real, page = captured("api-pods-page1.json"), get(server, "/api/v1/pods?limit=5")
    assert shape({**real, "items": []}) == shape({**page, "items": []})
    assert [item["metadata"]["name"] for item in real["items"]] == [
        item["metadata"]["name"] for item in page["items"]
    ]
    assert real["items"][0].keys() == page["items"][0].keys()
    assert token_of(real).keys() == token_of(page).keys()
    assert token_of(real)["start"] == token_of(page)["start"]


def token_of(page: dict[str, Any]) -> dict[str, Any]:
    token: dict[str, Any] = json.loads(base64.urlsafe_b64decode(page["metadata"]["continue"] + "=="))
    return token


def test_the_last_page_has_no_token_and_all_are_of_one_version(server: ApiServer) -> None:
    real_pods(server)
    first = get(server, "/api/v1/pods?limit=6")
    server.add(pod("later"))
    last = get(server, f"/api/v1/pods?limit=6&continue={first['metadata']['continue']}")
    assert {"resourceVersion": first["metadata"]["resourceVersion"]} == last["metadata"]
    assert 10 == len(first["items"]) + len(last["items"])


def test_version_0_is_answered_from_the_cache_without_pages(server: ApiServer) -> None:
    real_pods(server)
    whole = get(server, "/api/v1/pods?limit=2&resourceVersion=0")
    assert captured("api-pods-node1.json")["metadata"].keys() == whole["metadata"].keys()
    assert 10 == len(whole["items"])


def test_a_watch_has_the_shape_of_a_real_one(server: ApiServer) -> None:
    real_pods(server)
    real = [json.loads(line) for line in (CAPTURE / "api-watch.jsonl").read_text().splitlines()]
    fake = watch(server, "resourceVersion=100&allowWatchBookmarks=true")
    added = {line["type"]: line for line in fake}["ADDED"]
    assert {"type", "object"} == added.keys()
    assert real[0]["object"].keys() == added["object"].keys()
    assert shape(real[-1]) == shape(fake[-1])
    assert "BOOKMARK" == fake[-1]["type"]


def test_a_watch_sees_objects_enter_and_leave_its_selector(server: ApiServer) -> None:
    server.add(pod("p", node="a"))
    server.update(pod("p", node="b"))
    server.update(pod("p", node="b"))
    server.update(pod("p", node="c"))
    server.update(pod("p", node="b"))
    server.delete(pod("p"))
    query = "resourceVersion=100&fieldSelector=spec.nodeName%3Db"
    events = [line for line in watch(server, query) if line["type"] != "BOOKMARK"]
    assert ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"] == [event["type"] for event in events]
    assert ["102", "103", "104", "105", "106"] == [
        event["object"]["metadata"]["resourceVersion"] for event in events
    ]


def test_a_watch_from_nowhere_begins_with_all_that_there_is(server: ApiServer) -> None:
    server.add(pod("p"))
    assert "p" == watch(server, "")[0]["object"]["metadata"]["name"]


def test_refusals_are_those_of_a_real_server(server: ApiServer) -> None:
    server.add(pod("a"))
    server.add(pod("b"))
    token = get(server, "/api/v1/pods?limit=1")["metadata"]["continue"]
    server.compact()
    (gone,) = watch(server, "resourceVersion=1")
    real = json.loads((CAPTURE / "api-watch-410.jsonl").read_text())
    assert {**real, "object": {**real["object"], "message": "too old resource version: 1 (102)"}} == gone
    assert 410 == refusal(server, f"/api/v1/pods?limit=1&continue={token}")["code"]
    assert 400 == refusal(server, f"/api/v1/pods?resourceVersion=5&continue={token}")["code"]
    assert 404 == refusal(server, "/api/v1/namespaces/ml/pods/c")["code"]
    server.rotate_token("secret")
    assert captured("api-401.json") == refusal(server, "/api/v1/pods")


def test_any_kind_is_served_under_its_group(server: ApiServer) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "ml"}}
    slice_ = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}}
    klass = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}}
    stored = [server.add(obj) for obj in (job, slice_, klass)]
    assert stored[0] == get(server, "/apis/batch/v1/namespaces/ml/jobs/j")
    assert stored[1] == get(server, "/apis/resource.k8s.io/v1/resourceslices/s")
    assert stored[2] == get(server, "/apis/resource.k8s.io/v1/deviceclasses/c")
    assert "ResourceSliceList" == get(server, "/apis/resource.k8s.io/v1/resourceslices")["kind"]
    assert [] == get(server, "/api/v1/namespaces/other/pods")["items"]
