"""A kind of object of the whole cluster: found at the version that the server has, listed in pages."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from fakes.apiserver import ApiServer, Asked, Fault
from fakes.clusterview import claim, pod
from fakes.podwatch import BRISK, eventually
from gpuledger.parse.clusterobjects import CLAIMS
from gpuledger.parse.kubeobjects import parse_pod_list, parse_watch_event
from gpuledger.parse.manifests import ResourceClaim
from gpuledger.sources import clusterwatch
from gpuledger.sources.clusterwatch import Feed, Kind

if TYPE_CHECKING:
    from gpuledger.sources.kubehttp import Connection

PATHS = tuple(f"/apis/resource.k8s.io/{version}/resourceclaims" for version in ("v1", "v1beta1"))
CLAIM_KIND = Kind("resourceclaims", PATHS, CLAIMS.parse_list, CLAIMS.parse_event)


class Counted:
    """A sink that knows how many objects were listed; -1 before."""

    def __init__(self) -> None:
        self.count = -1

    def replace(self, objects: Sequence[object]) -> None:
        self.count = len(objects)

    def put(self, _new: object) -> None:
        self.count += 1

    def remove(self, _uid: str) -> None:
        self.count -= 1


Follow = Callable[[], tuple[Feed[ResourceClaim], Counted]]


@pytest.fixture
def follow(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Follow]:
    """Starts to follow claims, in a hurry."""
    monkeypatch.setattr(clusterwatch, "_PROBE_AGAIN_SECONDS", 0.02)
    stop, threads = threading.Event(), []

    def start() -> tuple[Feed[ResourceClaim], Counted]:
        sink = Counted()
        feed = Feed(connection, CLAIM_KIND, sink, BRISK)
        threads.append(threading.Thread(target=feed.run, args=(stop,), daemon=True))
        threads[-1].start()
        return feed, sink

    yield start
    stop.set()
    for thread in threads:
        thread.join(2.0)
        assert not thread.is_alive()


def asked_for(version: str) -> Callable[[Asked], bool]:
    return lambda asked: f"/{version}/" in asked.path


def test_the_newest_version_that_the_server_has_is_followed(server: ApiServer, follow: Follow) -> None:
    server.faults.append(Fault(asked_for("v1"), times=100, status=404))
    server.add(claim("c", "gpu-0", version="v1beta1"))
    feed, sink = follow()
    eventually(1, lambda: sink.count)
    eventually({PATHS[1]}, lambda: {asked.path for asked in server.watches()})
    assert feed.listed


def test_a_kind_that_the_server_lacks_is_no_trouble(server: ApiServer, follow: Follow) -> None:
    server.faults.append(Fault(times=100, status=404))
    feed, sink = follow()
    eventually([*PATHS], lambda: [asked.path for asked in server.requests])
    assert (None, -1, False) == (feed.health(), sink.count, feed.listed)


def test_a_server_that_does_not_answer_is_asked_again_and_that_shows(server: ApiServer, follow: Follow) -> None:
    server.faults.append(Fault(times=3, status=500))
    feed, sink = follow()
    eventually(0, lambda: sink.count)
    health = feed.health()
    assert health is not None
    assert (True, "") == (health.up, health.error)
    assert 3 < len(server.requests)


def test_a_kind_that_we_may_not_see_is_said_to_be_refused(server: ApiServer, follow: Follow) -> None:
    server.faults.append(Fault(times=100, status=403))
    feed, _ = follow()
    eventually({403}, lambda: {403 for health in [feed.health()] if health and "403" in health.error})


def test_the_first_list_comes_in_pages_too(server: ApiServer, connection: Connection) -> None:
    for number in range(501):
        server.add(pod(f"p-{number}"))

    sink, stop = Counted(), threading.Event()
    feed = Feed(connection, Kind("pods", ("/api/v1/pods",), parse_pod_list, parse_watch_event), sink, BRISK)
    thread = threading.Thread(target=feed.run, args=(stop,), daemon=True)
    thread.start()
    eventually(501, lambda: sink.count)
    stop.set()
    thread.join(2.0)
    first, second = server.lists()
    assert {"limit": "500"} == first.query
    assert {"limit", "continue"} == second.query.keys()
