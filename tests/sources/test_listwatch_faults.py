"""List and watch against a server that refuses, talks nonsense, falls silent or is not there."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fakes.apiserver import ApiServer, Fault, a_list, a_watch
from fakes.podwatch import NODE, eventually, following, gpu_pod, names, pod, synced
from gpuledger.sources import kubehttp
from gpuledger.sources.listwatch import Pace

if TYPE_CHECKING:
    from gpuledger.core.model import Pod
    from gpuledger.sources.kubeapi import PodSource
    from gpuledger.sources.kubehttp import Connection


@pytest.mark.parametrize("status", [403, 404, 429, 500, 503, 504])
@pytest.mark.parametrize("where", [a_list, a_watch])
def test_a_refusal_is_told_and_survived(
    server: ApiServer, connection: Connection, status: int, where: Any
) -> None:
    server.add(pod("a"))
    server.faults.append(Fault(where, times=3, status=status))
    with following(connection) as source:
        eventually(3, lambda: source.health().failures)
        eventually({"a"}, lambda: names(source))
        synced(source)


def error_event(code: int) -> bytes:
    return b'{"type":"ERROR","object":{"kind":"Status","code":%d,"message":"m"}}\n' % code


@pytest.mark.parametrize(
    ("fault", "then"),
    [
        pytest.param(Fault(a_watch, status=403), "list", id="403"),
        pytest.param(Fault(a_watch, status=410), "list", id="410"),
        pytest.param(Fault(a_watch, status=504), "list", id="504-as-for-a-version-of-the-future"),
        pytest.param(Fault(a_watch, status=429), "watch", id="429"),
        pytest.param(Fault(a_watch, body=b"{", then="cut"), "watch", id="cut"),
        pytest.param(Fault(a_watch, body=error_event(500)), "list", id="error-event"),
        pytest.param(
            Fault(a_watch, body=error_event(429)), "list", id="error-event-of-a-status-to-resume-after"
        ),
        pytest.param(Fault(a_watch, body=b"{}\n"), "list", id="nonsense"),
    ],
)
def test_what_puts_the_version_in_doubt_leads_to_a_list_and_the_rest_to_a_watch_from_there(
    server: ApiServer, connection: Connection, fault: Fault, then: str
) -> None:
    server.faults.append(fault)
    with following(connection):
        eventually("more", lambda: "more" if len(server.requests) > 2 else "")
    assert then == ("watch" if a_watch(server.requests[2]) else "list")


def test_a_forgotten_version_is_no_failure(server: ApiServer, connection: Connection) -> None:
    server.faults.append(Fault(a_watch, status=410))
    with following(connection) as source:
        eventually(2, lambda: len(server.watches()))
        synced(source)
        assert 0 == source.health().failures


def test_while_the_server_refuses_the_error_says_what_and_what_to_do(
    server: ApiServer, connection: Connection
) -> None:
    server.faults.append(Fault(times=10_000, status=403))
    with following(connection) as source:
        advice = "bind the role that the deployment comes with to this service account"
        eventually(f"GET /api/v1/pods: 403: Forbidden; {advice}", lambda: source.health().error)
        assert (False, None) == (source.health().up, source.health().last_success)


def test_waits_grow_up_to_their_bound(server: ApiServer, connection: Connection) -> None:
    server.faults.append(Fault(a_list, times=6, status=500))
    with following(connection, Pace(backoff=0.1, backoff_max=0.4)) as source:
        synced(source)
    times = [asked.at for asked in server.lists()]
    waits = [later - earlier for earlier, later in pairwise(times)]
    for bound, wait in zip([0.1, 0.2, 0.4, 0.4, 0.4, 0.4], waits, strict=True):
        assert bound / 2 <= wait <= bound + 2.0


def test_waits_begin_anew_after_a_watch_that_went_well(server: ApiServer, connection: Connection) -> None:
    server.faults.append(Fault(a_list, times=3, status=500))
    with following(connection, Pace(watch=1, backoff=0.4, backoff_max=30.0)):
        eventually(1, lambda: len(server.watches()))
        server.faults.append(Fault(a_watch, status=500))
        eventually(3, lambda: len(server.watches()))
    refused, listed = server.watches()[1], server.lists()[-1]
    assert 0.2 <= listed.at - refused.at < 1.6


def test_the_server_is_left_alone_for_as_long_as_it_asks(server: ApiServer, connection: Connection) -> None:
    server.faults.append(Fault(a_list, status=429, retry_after="1"))
    with following(connection) as source:
        synced(source)
    first, second = server.lists()
    assert 1.0 <= second.at - first.at


def test_a_retry_after_that_is_a_date_is_no_reason_to_fail(server: ApiServer, connection: Connection) -> None:
    server.faults.append(Fault(a_list, status=503, retry_after="Wed, 21 Oct 2026 07:28:00 GMT"))
    with following(connection) as source:
        synced(source)


# ---- what the server says is nonsense ----


def test_a_malformed_pod_costs_only_itself(server: ApiServer, connection: Connection) -> None:
    server.add(pod("a"))
    server.add({**pod("b"), "spec": {"nodeName": NODE, "containers": "none"}})
    with following(connection) as source:
        eventually({"a"}, lambda: names(source))
        server.add({**pod("c"), "spec": {"nodeName": NODE, "containers": 5}})
        server.add(pod("d"))
        eventually({"a", "d"}, lambda: names(source))
        assert (2, 0) == (source.health().malformed, source.health().failures)


def malformed(name: str, **metadata: Any) -> dict[str, Any]:
    return {**pod(name, **metadata), "spec": {"nodeName": NODE, "containers": 5}}


def unreadable(source: PodSource) -> int:
    count = source.health().unreadable
    assert count is not None
    return count


def left_out(source: PodSource) -> int:
    count = source.health().malformed
    assert count is not None
    return count


def test_what_cannot_be_read_counts_until_it_is_mended_or_gone(
    server: ApiServer, connection: Connection
) -> None:
    listed = server.add(malformed("listed"))
    was_well = server.add(pod("was-well"))
    with following(connection) as source:
        eventually((1, {"was-well"}), lambda: (unreadable(source), names(source)))
        came = server.add(malformed("came"))
        server.add({**malformed("was-well"), "metadata": was_well["metadata"]})
        eventually((3, set[str]()), lambda: (unreadable(source), names(source)))
        server.delete(came)
        eventually(2, lambda: unreadable(source))
        server.add({**pod("listed"), "metadata": listed["metadata"]})
        eventually((1, {"listed"}), lambda: (unreadable(source), names(source)))
        server.refuse()
        server.delete(was_well)
        server.compact()
        server.accept()
        eventually(0, lambda: unreadable(source))


def test_what_cannot_be_read_is_named_in_the_log_once(
    server: ApiServer, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    server.add(malformed("a"))
    with following(connection) as source:
        eventually(1, lambda: unreadable(source))
        b = server.add(malformed("b\x1b[2J"))
        server.add({**b, "status": {"phase": "Failed"}})
        eventually(3, lambda: left_out(source))
        server.faults.append(Fault(a_watch, status=410))
        server.cut()
        eventually(2, lambda: len(server.lists()))
        eventually(5, lambda: left_out(source))
        assert 2 == unreadable(source)
    told = [record.getMessage() for record in caplog.records if "can't be read" in record.getMessage()]
    problem = (
        "can't be read: not what the Kubernetes API sends: "
        "Expected `array | null`, got `int` - at `$.spec.containers`"
    )
    assert [f"pods ml/a {problem}", f"pods ml/b\\x1b[2J {problem}"] == told


def test_of_very_many_that_cannot_be_read_the_log_names_some(
    server: ApiServer, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    for index in range(50):
        server.add(malformed(f"p{index}"))
    with following(connection) as source:
        eventually(50, lambda: unreadable(source))
    told = [record.getMessage() for record in caplog.records if "can't be read" in record.getMessage()]
    assert (21, "pods: 30 more can't be read") == (len(told), told[-1])


@pytest.mark.parametrize("where", [a_list, a_watch])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>\n<body>captive portal</body>\n</html>\n", id="a-page-for-people"),
        pytest.param(b'{"kind":"Status","code":500}\n', id="a-status-with-200"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_an_answer_that_is_none_is_told_and_asked_for_again(
    server: ApiServer, connection: Connection, where: Any, body: bytes
) -> None:
    server.add(pod("a"))
    server.faults.append(Fault(where, body=body))
    with following(connection) as source:
        eventually(1, lambda: source.health().failures)
        eventually({"a"}, lambda: names(source))
        synced(source)


def test_an_answer_without_end_is_given_up(
    server: ApiServer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubehttp, "_MAX_BODY_BYTES", 10_000)
    monkeypatch.setattr(kubehttp, "_MAX_LINE_BYTES", 10_000)
    server.faults += [Fault(a_list, body=b" " * 100_000), Fault(a_watch, body=b" " * 100_000)]
    errors = set()
    with following(connection, Pace(backoff=0.2)) as source:
        while source.health().failures < 2:
            errors.add(source.health().error.partition(";")[0])
            time.sleep(0.01)
        errors.add(source.health().error.partition(";")[0])
    assert {
        "",
        "GET /api/v1/pods: the answer is larger than 10000 bytes",
        "GET /api/v1/pods: a line is longer than 10000 bytes",
    } == errors


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(a_list, then="cut"), id="cut-before-the-body"),
        pytest.param(Fault(a_list, after=80, then="cut"), id="cut-within-the-body"),
        pytest.param(Fault(a_list, delay=3600.0), id="no-answer"),
        pytest.param(Fault(a_list, then="silence", after=80), id="silence-within-the-body"),
        pytest.param(Fault(a_list, then="drip"), id="drips"),
    ],
)
def test_a_list_that_does_not_arrive_is_given_up_and_asked_for_again(
    server: ApiServer, connection: Connection, fault: Fault
) -> None:
    server.add(pod("a"))
    server.faults.append(fault)
    with following(connection, Pace(answer=0.5, backoff=0.02)) as source:
        eventually({"a"}, lambda: names(source))
        assert 1 == source.health().failures


# ---- outages ----


def test_what_is_known_outlives_an_outage_and_catches_up_after_it(
    server: ApiServer, connection: Connection
) -> None:
    gone = server.add(pod("goes"))
    server.add(pod("stays"))
    with following(connection) as source:
        eventually({"goes", "stays"}, lambda: names(source))
        server.refuse()
        eventually("down", lambda: "up" if source.health().up else "down")
        before = source.health().last_success
        server.delete(gone)
        server.add(pod("comes"))
        time.sleep(0.3)
        assert {"goes", "stays"} == names(source)
        assert (False, before) == (source.health().up, source.health().last_success)
        assert "Connection refused" in source.health().error
        server.accept()
        eventually({"stays", "comes"}, lambda: names(source))
        synced(source)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_cut_connections_leave_nothing_behind(server: ApiServer, connection: Connection) -> None:
    with following(connection) as source:
        eventually(1, lambda: len(server.watches()))
        threads, files = threading.active_count(), open_files()
        for number in range(20):
            server.cut()
            eventually(2 + number, lambda: len(server.watches()))
        eventually(0, lambda: max(0, threading.active_count() - threads))
        eventually(0, lambda: max(0, open_files() - files))
        synced(source)


def test_a_fault_of_our_own_does_not_end_the_watch(
    server: ApiServer, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    def relevant(_: Pod) -> bool:
        raise KeyError(next(faults))

    faults = iter(["once"])
    job = server.add(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j-29934305", "namespace": "ml"}}
    )
    server.add(gpu_pod("a", job))
    with following(connection, relevant=relevant) as source:
        eventually({"a"}, lambda: names(source))
        eventually(2, lambda: len(server.lists()))
    assert "kube: unexpected failure" in caplog.text
