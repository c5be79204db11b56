"""Who is on which GPU of a real node, asked of the Prometheus that scrapes its exporter."""

from __future__ import annotations

import os
import signal
import urllib.request
from typing import TYPE_CHECKING

import pytest

from cluster.containers import read_running
from cluster.exporter import exporting
from cluster.gpus import SM_RATIO, memory_of
from cluster.node import kubectl, kubectl_get
from tools.daemon import until
from tools.exposition import Exposition

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.containers import Running, RunningContainer
    from cluster.gpus import NodeGpus
    from cluster.node import Node
    from tools.prometheus import Prometheus

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

REQUESTED = {
    ("llm", "server"): ("Deployment", "nvidia.com/gpu.shared"),
    ("notebook", "jupyter"): ("StatefulSet", "nvidia.com/gpu"),
    ("finetune", "trainer"): ("Job", "nvidia.com/gpu"),
    ("nightly", "eval"): ("CronJob", "nvidia.com/mig-1g.5gb"),
    ("debug-shell", "sh"): ("Pod", "nvidia.com/gpu"),
}
UNREQUESTED = {
    ("llm", "logs"): "Deployment",
    ("agent", "agent"): "DaemonSet",
    ("gpu-monitor", "main"): "StaticPod",
    ("sneaky", "miner"): "Pod",
    ("host-tools", "tools"): "Pod",
}
KINDS = {app: kind for app, (kind, _) in REQUESTED.items()} | UNREQUESTED


def test_every_source_answers(prometheus: Prometheus) -> None:
    samples = prometheus.wait_for("gpuledger_source_up", lambda samples: all(s.value for s in samples))
    assert {s.labels["source"] for s in samples} >= {"kube", "nvml", "podresources"}


@pytest.mark.parametrize(("app", "container"), KINDS, ids=[f"{app}/{container}" for app, container in KINDS])
def test_use_is_booked_on_the_container_and_its_workload(
    prometheus: Prometheus, gpus: NodeGpus, running: Running, namespace: str, app: str, container: str
) -> None:
    used = running[app, container]
    owner = f'namespace="{namespace}",pod="{used.pod}",container="{container}"'
    workload = f'workload_kind="{KINDS[app, container]}",workload="{app}"'
    samples = prometheus.wait_for(f"gpuledger_container_memory_used_bytes{{{owner},{workload}}}")
    memory = sum(map(memory_of, used.pids))
    assert {(gpu.uuid, mig.uuid if mig else ""): memory for gpu, mig in gpus.devices_of(used)} == {
        (s.labels["gpu_uuid"], s.labels.get("mig_uuid", "")): s.value for s in samples
    }
    processes = prometheus.query(f"gpuledger_container_processes{{{owner}}}")
    assert [len(used.pids)] * len(samples) == [s.value for s in processes]


def test_allocations_are_those_that_the_containers_were_told(
    prometheus: Prometheus, gpus: NodeGpus, running: Running, namespace: str
) -> None:
    told = {
        (container, resource, gpu.uuid, mig.uuid if mig else "", 1.0)
        for (app, container), (_, resource) in REQUESTED.items()
        for gpu, mig in gpus.devices_of(running[app, container])
    }
    samples = prometheus.query(f'gpuledger_container_allocated{{namespace="{namespace}"}}')
    labels = ("container", "resource", "gpu_uuid", "mig_uuid")
    assert told == {(*(s.labels.get(label, "") for label in labels), s.value) for s in samples}


def test_use_without_a_request_can_be_asked_for(prometheus: Prometheus, namespace: str) -> None:
    samples = prometheus.query(
        f'gpuledger_container_memory_used_bytes{{namespace="{namespace}"}}'
        " unless on (gpu_uuid, mig_uuid, pod, container) gpuledger_container_allocated"
    )
    assert set(UNREQUESTED) == {(s.labels["workload"], s.labels["container"]) for s in samples}


def test_a_process_of_the_host_is_told_apart(prometheus: Prometheus, host_pid: int) -> None:
    used = prometheus.query_value('sum(gpuledger_unattributed_memory_used_bytes{reason="host"})')
    assert memory_of(host_pid) == used


def test_every_process_is_accounted_for(prometheus: Prometheus, gpus: NodeGpus, running: Running) -> None:
    on_gpus = sum(len(used.pids) * len(gpus.devices_of(used)) for used in running.values())
    samples = prometheus.query("gpuledger_attribution_processes > 0")
    assert {"owned": on_gpus, "host": 1} == {s.labels["result"]: s.value for s in samples}


def test_owned_and_unowned_memory_add_up_to_the_devices(prometheus: Prometheus) -> None:
    booked = 'sum by (gpu_uuid) ({__name__=~"gpuledger_(container|unattributed)_memory_used_bytes"})'
    difference = prometheus.query(f"{booked} - on (gpu_uuid) gpuledger_gpu_memory_used_bytes")
    assert [s.value for s in difference] == [0] * 8


def test_time_on_the_multiprocessors_is_booked_where_the_driver_tells_it(
    prometheus: Prometheus, gpus: NodeGpus, running: Running, namespace: str
) -> None:
    used = {
        (used.pod, used.name, gpu.uuid): SM_RATIO * len(used.pids)
        for used in running.values()
        for gpu, mig in gpus.devices_of(used)
        if mig is None
    }
    samples = prometheus.query(f'gpuledger_container_sm_utilization_ratio{{namespace="{namespace}"}}')
    labels = ("pod", "container", "gpu_uuid")
    assert used == {tuple(s.labels[label] for label in labels): pytest.approx(s.value) for s in samples}


def test_held_time_is_counted_by_the_second(prometheus: Prometheus) -> None:
    held = 'rate(gpuledger_container_allocated_seconds_total{container="jupyter"}[10s])'
    prometheus.wait_for(held, lambda samples: [s for s in samples if abs(s.value - 1) < 0.1] != [])


def test_pods_are_shown_as_kubectl_shows_them(prometheus: Prometheus, namespace: str) -> None:
    told = {
        (pod["metadata"]["name"], pod["metadata"]["uid"], pod["status"]["qosClass"], pod["status"]["phase"])
        for pod in kubectl_get("pods", "-n", namespace)
    }
    samples = prometheus.query(
        "gpuledger_pod_info * on (namespace, pod) group_right (uid, qos) (gpuledger_pod_status_phase == 1)"
    )
    labels = ("pod", "uid", "qos", "phase")
    assert told == {tuple(s.labels[label] for label in labels) for s in samples}


def test_a_restarted_container_keeps_its_owner(
    prometheus: Prometheus, gpus: NodeGpus, running: Running, namespace: str, host_pid: int
) -> None:
    killed = running["sneaky", "miner"]
    os.kill(killed.pids[0], signal.SIGKILL)

    def restarted() -> list[RunningContainer]:
        now = read_running(namespace).get(("sneaky", "miner"), killed)
        return [now] if now != killed else []

    (miner,) = until(restarted, 60, lambda: kubectl("describe", "pod", "sneaky", "-n", namespace))
    running["sneaky", "miner"] = miner
    gpus.run(running.values(), [host_pid])
    memory = memory_of(miner.pids[0])
    container = f'namespace="{namespace}",pod="sneaky",container="miner"'
    prometheus.wait_for(f"gpuledger_container_memory_used_bytes{{{container}}} == {memory}")
    prometheus.wait_for(f"gpuledger_pod_container_restarts_total{{{container}}} == 1")


def test_a_deleted_pod_leaves_no_gauge_behind(
    prometheus: Prometheus, gpus: NodeGpus, running: Running, namespace: str, host_pid: int
) -> None:
    names = '__name__=~"gpuledger_(container|pod)_.*",__name__!~".*_total"'
    shown = f'{{{names},namespace="{namespace}",pod="debug-shell"}}'
    assert {"gpuledger_container_allocated", "gpuledger_container_memory_used_bytes", "gpuledger_pod_info"} <= {
        s.labels["__name__"] for s in prometheus.query(shown)
    }
    kubectl("delete", "pod", "debug-shell", "-n", namespace)
    del running["debug-shell", "sh"]
    gpus.run(running.values(), [host_pid])
    prometheus.wait_for(shown, lambda samples: samples == [], timeout=10)


def test_without_the_api_the_kubelets_log_folders_name_pods(
    node: Node, gpus: NodeGpus, running: Running, namespace: str, tmp_path: Path
) -> None:
    owners = {(container.pod, container.name) for container in running.values()}

    def shown(address: str) -> dict[tuple[str, str], str]:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as reply:
            page = Exposition(reply.read().decode())
        series = page.series("container_memory_used_bytes", namespace=namespace)
        return {(s.labels["pod"], s.labels["container"]): s.labels["workload"] for s in series}

    with exporting(node, gpus, tmp_path, "--kube=off") as address:
        until(lambda: set(shown(address)) == owners, 15, lambda: f"{shown(address)} instead of {owners}")
        assert shown(address)[running["llm", "server"].pod, "server"] == "llm"


def test_prometheus_has_no_complaint(prometheus: Prometheus) -> None:
    assert prometheus.complaints() == []
