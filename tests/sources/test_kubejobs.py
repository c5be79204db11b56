"""Whether a CronJob created a pod's Job: a question to the API, asked sparingly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fakes.apiserver import ApiServer, Fault
from fakes.podwatch import eventually, following, gpu_pod, names, pod
from gpuledger.core.model import Workload
from gpuledger.sources.kubeapi import PodSource, connect

if TYPE_CHECKING:
    from pathlib import Path

    from gpuledger.sources.kubehttp import Connection

CRONJOB = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "c1", "controller": True}
NIGHTLY = Workload("CronJob", "nightly")
INFERRED = Workload("CronJob", "nightly", inferred=True)


def job(name: str = "nightly-29934305", *owners: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ml", "ownerReferences": list(owners)},
    }


def workloads(source: PodSource) -> dict[str, Workload]:
    return {known.name: known.workload for known in source.pods().values()}


def asked_jobs(server: ApiServer) -> list[str]:
    return [asked.path for asked in server.requests if "/jobs/" in asked.path]


def test_a_cronjob_is_confirmed_by_its_job_asked_once_for_all_pods(
    server: ApiServer, connection: Connection
) -> None:
    created = server.add(job("nightly-29934305", CRONJOB))
    server.add(gpu_pod("first", created))
    with following(connection) as source:
        eventually({"first": NIGHTLY}, lambda: workloads(source))
        server.add(gpu_pod("second", created))
        eventually({"first": NIGHTLY, "second": NIGHTLY}, lambda: workloads(source))
    assert ["/apis/batch/v1/namespaces/ml/jobs/nightly-29934305"] == asked_jobs(server)


def test_a_job_that_only_looks_like_a_cronjobs_stands_for_itself(
    server: ApiServer, connection: Connection
) -> None:
    server.add(gpu_pod("a", server.add(job())))
    with following(connection) as source:
        eventually({"a": Workload("Job", "nightly-29934305")}, lambda: workloads(source))


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_job_that_cannot_be_seen_leaves_the_guess_and_is_not_asked_for_again(
    server: ApiServer, connection: Connection, status: int
) -> None:
    created = server.add(job("nightly-29934305", CRONJOB))
    server.faults.append(Fault(lambda asked: "/jobs/" in asked.path, times=99, status=status))
    server.add(gpu_pod("first", created))
    with following(connection) as source:
        eventually(1, lambda: len(asked_jobs(server)))
        server.add(gpu_pod("second", created))
        eventually({"first": INFERRED, "second": INFERRED}, lambda: workloads(source))
        server.add(pod("other"))
        eventually({"first", "second", "other"}, lambda: names(source))
        assert (True, 0) == (source.health().up, source.health().failures)
    assert 1 == len(asked_jobs(server))


def test_another_job_that_took_the_name_tells_nothing(server: ApiServer, connection: Connection) -> None:
    gone = server.add(job("nightly-29934305", CRONJOB))
    server.add(gpu_pod("a", gone))
    server.delete(gone)
    server.add(job())
    with following(connection) as source:
        eventually(1, lambda: len(asked_jobs(server)))
        eventually(1, lambda: len(server.watches()))
        assert {"a": INFERRED} == workloads(source)
        assert {} == source._pods._jobs._workloads


def test_only_the_jobs_of_relevant_pods_are_asked_for(
    server: ApiServer, connection: Connection, tmp_path: Path
) -> None:
    created = server.add(job("nightly-29934305", CRONJOB))
    other = gpu_pod("without-a-gpu", created)
    del other["spec"]["containers"][0]["resources"]
    server.add(other)
    with following(connection) as source:
        eventually(1, lambda: len(server.watches()))
        assert {"without-a-gpu": INFERRED} == workloads(source)
    again = connect("kubeconfig", str(server.kubeconfig(tmp_path / "again")))
    with following(again, relevant=lambda _: True) as source:
        eventually({"without-a-gpu": NIGHTLY}, lambda: workloads(source))


def test_pods_do_not_wait_for_a_job_that_does_not_answer(server: ApiServer, connection: Connection) -> None:
    for number in range(3):
        created = server.add(job(f"nightly-2993430{number}", CRONJOB))
        server.add(gpu_pod(f"pod-{number}", created))
    server.faults.append(Fault(lambda asked: "/jobs/" in asked.path, delay=2.0, status=500))
    with following(connection) as source:
        eventually({"pod-0", "pod-1", "pod-2"}, lambda: names(source))
        assert [] == server.watches()
        assert {"pod-0": INFERRED, "pod-1": INFERRED, "pod-2": INFERRED} == workloads(source)
        eventually(1, lambda: len(server.watches()))
    assert 1 == len(asked_jobs(server))


def test_what_was_told_of_jobs_is_forgotten_with_their_pods(server: ApiServer, connection: Connection) -> None:
    created = server.add(job("nightly-29934305", CRONJOB))
    first, second = server.add(gpu_pod("first", created)), server.add(gpu_pod("second", created))
    with following(connection) as source:
        eventually({NIGHTLY}, lambda: set(workloads(source).values()))
        server.delete(first)
        eventually({"second": NIGHTLY}, lambda: workloads(source))
        server.delete(second)
        jobs = source._pods._jobs
        eventually(0, lambda: len(jobs._workloads) + len(jobs._asked_at))
