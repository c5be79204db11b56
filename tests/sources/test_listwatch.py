"""List and watch against a server that does both as the real one does, and fails as it does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from fakes.apiserver import ApiServer, Fault, a_list, a_watch
from fakes.podwatch import NODE, eventually, following, names, pod, synced
from gpuledger.core.model import PodUid
from gpuledger.sources import kubehttp
from gpuledger.sources.listwatch import Pace

if TYPE_CHECKING:
    from gpuledger.sources.kubehttp import Connection


def test_the_pods_of_this_node_are_listed_and_then_watched_from_there(
    server: ApiServer, connection: Connection
) -> None:
    server.add(pod("mine"))
    server.add(pod("elsewhere", node="node2"))
    with following(connection) as source:
        eventually({"mine"}, lambda: names(source))
        eventually(1, lambda: len(server.watches()))
    listed, watched = server.requests
    selected = {"fieldSelector": f"spec.nodeName={NODE}"}
    assert {**selected, "limit": "500", "resourceVersion": "0"} == listed.query
    assert {
        **selected,
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "102",
        "timeoutSeconds": "60",
    } == watched.query
    assert listed.headers["user-agent"].startswith("gpuledger/")


def test_pods_come_change_and_go_as_they_do(server: ApiServer, connection: Connection) -> None:
    with following(connection) as source:
        synced(source)
        written = server.add(pod("a", phase="Pending"))
        eventually({"a"}, lambda: names(source))
        server.update(pod("a", uid=written["metadata"]["uid"]))
        eventually(["Running"], lambda: [known.phase for known in source.pods().values()])
        server.delete(written)
        eventually(set[str](), lambda: names(source))


def test_a_pod_is_known_as_soon_as_it_is_bound_to_the_node(server: ApiServer, connection: Connection) -> None:
    written = server.add(pod("a", node="", phase="Pending"))
    with following(connection) as source:
        synced(source)
        assert set() == names(source)
        server.update(pod("a", uid=written["metadata"]["uid"]))
        eventually({"a"}, lambda: names(source))


def test_a_pod_that_takes_the_name_of_a_deleted_one_is_another_pod(
    server: ApiServer, connection: Connection
) -> None:
    with following(connection) as source:
        synced(source)
        first = server.add(pod("notebook-0"))
        server.delete(first)
        second = server.add(pod("notebook-0"))
        eventually({second["metadata"]["uid"]}, lambda: set(source.pods()))


def test_what_a_reader_holds_never_changes_under_its_eyes(server: ApiServer, connection: Connection) -> None:
    server.add(pod("a"))
    with following(connection) as source:
        eventually({"a"}, lambda: names(source))
        held = source.pods()
        server.add(pod("b"))
        eventually({"a", "b"}, lambda: names(source))
        assert ["a"] == [known.name for known in held.values()]
        with pytest.raises(TypeError):
            held[PodUid("x")] = next(iter(held.values()))  # type: ignore[index] # that is the point


def test_a_list_of_many_pods_comes_compressed(server: ApiServer, connection: Connection) -> None:
    for number in range(600):
        server.add(pod(f"pod-{number}"))
    with following(connection) as source:
        eventually(600, lambda: len(source.pods()))
    assert ["gzip"] == [asked.headers["accept-encoding"] for asked in server.lists()]


def test_a_list_in_pages_is_taken_whole(server: ApiServer, connection: Connection) -> None:
    with following(connection) as source:
        synced(source)
        server.refuse()
        for number in range(1001):
            server.add(pod(f"pod-{number}"))
        server.compact()
        server.accept()
        eventually(1001, lambda: len(source.pods()))
    pages = server.lists()[-3:]
    assert [False, True, True] == ["continue" in page.query for page in pages]
    assert {"500"} == {page.query["limit"] for page in pages}
    assert not any("resourceVersion" in page.query for page in pages)


# ---- the watch goes on ----


def test_a_watch_that_the_server_ends_goes_on_from_where_it_was(
    server: ApiServer, connection: Connection
) -> None:
    pace = Pace(watch=1, backoff=0.02)
    with following(connection, pace) as source:
        eventually(1, lambda: len(server.watches()))
        server.add(pod("a"))
        eventually(3, lambda: len(server.watches()))
        assert {"a"} == names(source)
        assert (0, True) == (source.health().failures, source.health().up)
    assert ["100", "101", "101"] == [asked.query["resourceVersion"] for asked in server.watches()][:3]
    assert 1 == len(server.lists())


@pytest.mark.parametrize("keep_alive", [True, False])
def test_a_watch_may_be_quiet_for_as_long_as_it_lasts(
    server: ApiServer, connection: Connection, monkeypatch: pytest.MonkeyPatch, *, keep_alive: bool
) -> None:
    server.keep_alive = keep_alive
    monkeypatch.setattr(kubehttp, "_SILENCE_SECONDS", 0.3)
    with following(connection, Pace(watch=1)) as source:
        eventually(2, lambda: len(server.watches()))
        assert 0 == source.health().failures


def test_a_bookmark_spares_the_list_after_a_compaction(server: ApiServer, connection: Connection) -> None:
    server.bookmark_seconds = 0.05
    with following(connection) as source:
        eventually(1, lambda: len(server.watches()))
        for number in range(5):
            server.add(pod(f"elsewhere-{number}", node="node2"))
        time.sleep(0.3)
        server.compact()
        server.cut()
        server.add(pod("a"))
        eventually({"a"}, lambda: names(source))
    assert 1 == len(server.lists())
    assert "105" == server.watches()[-1].query["resourceVersion"]


def test_a_watch_that_is_cut_within_an_event_loses_nothing(server: ApiServer, connection: Connection) -> None:
    server.faults.append(Fault(a_watch, after=450, then="cut"))
    with following(connection) as source:
        eventually(1, lambda: len(server.watches()))
        for number in range(4):
            server.add(pod(f"pod-{number}"))
        eventually({f"pod-{number}" for number in range(4)}, lambda: names(source))
        assert (0, 0) == (source.health().malformed, source.health().unreadable)
    assert 1 == len(server.lists())
    assert 2 == len(server.watches())


def test_a_watch_that_falls_silent_is_given_up_and_resumed(server: ApiServer, connection: Connection) -> None:
    server.faults.append(Fault(a_watch, then="silence"))
    with following(connection, Pace(watch=1, margin=0.2, backoff=0.02)) as source:
        eventually(1, lambda: len(server.watches()))
        server.add(pod("a"))
        eventually({"a"}, lambda: names(source))
    first, second, *_ = server.watches()
    assert first.query["resourceVersion"] == second.query["resourceVersion"] == "100"
    assert second.at - first.at >= 1.2


def test_a_watch_that_outlasts_its_end_is_given_up(server: ApiServer, connection: Connection) -> None:
    """It drips on, so that no silence betrays it."""
    server.add(pod("a"))
    server.faults.append(Fault(a_watch, then="drip", body=b'{"type":"ADDED"' * 200))
    with following(connection, Pace(watch=1, margin=0.0, backoff=0.02)) as source:
        eventually(2, lambda: len(server.watches()))
        assert {"a"} == names(source)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(a_watch, status=410), id="status"),
        pytest.param(Fault(lambda _: False), id="event"),
    ],
)
def test_a_forgotten_version_leads_to_a_new_list_while_nothing_known_is_dropped(
    server: ApiServer, connection: Connection, fault: Fault
) -> None:
    server.add(pod("stays"))
    gone = server.add(pod("goes"))
    with following(connection) as source:
        eventually({"stays", "goes"}, lambda: names(source))
        eventually(1, lambda: len(server.watches()))
        server.refuse()
        server.delete(gone)
        server.compact()
        server.faults += [fault, Fault(a_list, delay=0.3)]
        server.accept()
        eventually(2, lambda: len(server.lists()))
        assert {"stays", "goes"} == names(source)
        eventually({"stays"}, lambda: names(source))
    assert "resourceVersion" not in server.lists()[-1].query


def test_a_page_that_expires_makes_the_list_begin_again(server: ApiServer, connection: Connection) -> None:
    with following(connection) as source:
        synced(source)
        server.refuse()
        for number in range(501):
            server.add(pod(f"pod-{number}"))
        server.compact()
        server.faults.append(Fault(lambda asked: "continue" in asked.query, status=410))
        server.accept()
        eventually(501, lambda: len(source.pods()))


def test_forgotten_versions_one_after_another_do_not_make_it_hammer_the_server(
    server: ApiServer, connection: Connection
) -> None:
    server.faults.append(Fault(a_watch, times=1000, status=410))
    with following(connection, Pace(backoff=0.1, backoff_max=0.4)):
        time.sleep(1.0)
    assert len(server.lists()) <= 7
