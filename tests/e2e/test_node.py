"""What a user finds in Prometheus of a node with eight GPUs and everybody who may be on one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from e2e.rig import SCRAPES
from fakes.tenants import bare
from fakes.world import DRIVER_SHARE, MIB
from gpuledger.app.node.loop import KUBELET_INTERVAL_SECONDS
from tools.honesty import assert_honest
from tools.prometheus import VERSIONS

if TYPE_CHECKING:
    from e2e.rig import Rig
    from tools.prometheus import Sample

pytestmark = pytest.mark.e2e


def absent(samples: list[Sample]) -> bool:
    return not samples


def by(rig: Rig, query: str, *labels: str) -> dict[tuple[str, ...], float]:
    """The values that the newer Prometheus has for the query, by these labels, which tell them apart."""
    samples = rig.prometheus.query(query)
    values = {tuple(sample.labels.get(label, "") for label in labels): sample.value for sample in samples}
    assert len(samples) == len(values), samples
    return values


def test_a_pod_with_two_gpus_uses_each_as_its_processes_do(rig: Rig) -> None:
    first, second = (gpu.uuid for gpu in rig.gpus[:2])
    pod = '{job="node",namespace="research",pod="train-0",container="trainer"}'
    memory = {(first,): 20_500 * MIB, (second,): 21_500 * MIB}
    assert memory == by(rig, f"gpuledger_container_memory_used_bytes{pod}", "gpu_uuid")
    assert {(first,): 2, (second,): 2} == by(rig, f"gpuledger_container_processes{pod}", "gpu_uuid")
    allocated = {(first, "nvidia.com/gpu"): 1, (second, "nvidia.com/gpu"): 1}
    assert allocated == by(rig, f"gpuledger_container_allocated{pod}", "gpu_uuid", "resource")


def test_what_the_kubelet_has_to_give_is_counted_without_the_api(rig: Rig) -> None:
    whole = [gpu for gpu in rig.gpus if not gpu.migs]
    given = by(rig, 'gpuledger_kubelet_allocatable_devices{job="node"}', "resource")
    assert {("nvidia.com/gpu",): len(whole)} == given


def test_pods_that_share_a_gpu_are_told_apart_by_their_processes(rig: Rig) -> None:
    gpu = f'{{job="node",gpu_uuid="{rig.gpus[2].uuid}"}}'
    memory = {("chat-6d4cf56db6-x7k2p",): 8_000 * MIB, ("notebook",): 3_000 * MIB}
    assert memory == by(rig, f"gpuledger_container_memory_used_bytes{gpu}", "pod")
    shares = {("chat-6d4cf56db6-x7k2p",): 0.3, ("notebook",): 0.2}
    assert shares == pytest.approx(by(rig, f"gpuledger_container_sm_utilization_ratio{gpu}", "pod"))
    held = {
        ("chat-6d4cf56db6-x7k2p", "nvidia.com/gpu.shared"): 1,
        ("notebook", "nvidia.com/gpu.shared"): 1,
    }
    assert held == by(rig, f"gpuledger_container_allocated{gpu}", "pod", "resource")


def test_busy_seconds_grow_as_fast_as_the_processes_work(rig: Rig) -> None:
    counter = f'gpuledger_container_sm_busy_seconds_total{{job="node",gpu_uuid="{rig.gpus[2].uuid}"}}'
    rig.prometheus.wait_for(f"count({counter} offset 5s) == 2")
    expected = {("chat-6d4cf56db6-x7k2p",): 0.3, ("notebook",): 0.2}
    assert expected == pytest.approx(by(rig, f"rate({counter}[4s])", "pod"), rel=0.25)


def test_a_mig_device_has_an_owner_of_its_own(rig: Rig) -> None:
    labels = ("mig_uuid", "pod")
    expected = {(rig.mig.uuid, "nightly-29453760-q9zlm"): 900 * MIB}
    mig_gpu = f'{{job="node",gpu_uuid="{rig.gpus[3].uuid}"}}'
    assert expected == by(rig, f"gpuledger_container_memory_used_bytes{mig_gpu}", *labels)
    allocated = {(rig.mig.uuid, "nightly-29453760-q9zlm", "nvidia.com/mig-1g.5gb"): 1}
    assert allocated == by(rig, f"gpuledger_container_allocated{mig_gpu}", *labels, "resource")
    assert not by(rig, f"gpuledger_container_sm_utilization_ratio{mig_gpu}")
    used = {(mig.uuid,): mig.memory_used for mig in rig.gpus[3].migs}
    assert used == by(rig, f"gpuledger_mig_memory_used_bytes{mig_gpu}", "mig_uuid")
    profile = by(rig, f'gpuledger_mig_info{{job="node",mig_uuid="{rig.mig.uuid}"}}', "profile")
    assert {("1g.5gb",): 1} == profile


def test_what_no_pod_owns_is_booked_by_reason(rig: Rig) -> None:
    used = 'gpuledger_unattributed_memory_used_bytes{job="node",reason!="driver"}'
    expected = {
        (rig.gpus[4].uuid, "host", "ollama.service"): 6_000 * MIB,
        (rig.gpus[5].uuid, "container", ""): 2_500 * MIB,
    }
    assert expected == by(rig, used, "gpu_uuid", "reason", "unit")
    processes = by(rig, 'gpuledger_unattributed_processes{job="node"}', "gpu_uuid", "reason", "unit")
    assert dict.fromkeys(expected, 1) == processes


def test_an_allocated_gpu_without_a_process_is_held_and_unused(rig: Rig) -> None:
    pod = '{job="node",pod="forgotten-6d4cf56db6-x7k2p"}'
    gpu = (rig.gpus[6].uuid,)
    assert {gpu: 1} == by(rig, f"gpuledger_container_allocated{pod}", "gpu_uuid")
    assert {gpu: 0} == by(rig, f"gpuledger_container_processes{pod}", "gpu_uuid")
    assert {gpu: 0} == by(rig, f"gpuledger_container_memory_used_bytes{pod}", "gpu_uuid")
    counter = f"gpuledger_container_allocated_seconds_total{pod}"
    rig.prometheus.wait_for(f"{counter} offset 5s")
    assert {gpu: 1} == pytest.approx(by(rig, f"rate({counter}[4s])", "gpu_uuid"), rel=0.1)


def test_a_pod_that_asked_for_no_gpu_is_seen_on_it(rig: Rig) -> None:
    pod = '{job="node",namespace="monitoring",container="agent"}'
    assert {(rig.gpus[7].uuid,): 300 * MIB} == by(
        rig, f"gpuledger_container_memory_used_bytes{pod}", "gpu_uuid"
    )
    assert not by(rig, f"gpuledger_container_allocated{pod}")


def test_pods_carry_their_workload(rig: Rig) -> None:
    info = by(rig, 'gpuledger_pod_info{job="node"}', "pod", "workload_kind", "workload", "workload_inferred")
    expected = {
        ("train-0", "StatefulSet", "train", "false"),
        ("chat-6d4cf56db6-x7k2p", "Deployment", "chat", "false"),
        ("notebook", "Pod", "notebook", "false"),
        ("nightly-29453760-q9zlm", "CronJob", "nightly", "false"),
        ("forgotten-6d4cf56db6-x7k2p", "Deployment", "forgotten", "false"),
        ("snoop-w4jbr", "DaemonSet", "snoop", "false"),
    }
    assert expected == set(info)
    using = "group by (workload_kind, workload) (gpuledger_container_processes)"
    assert {labels[1:3] for labels in expected} == set(by(rig, using, "workload_kind", "workload"))


def test_the_books_balance_on_every_gpu(rig: Rig) -> None:
    booked = '{__name__=~"gpuledger_(container|unattributed)_memory_used_bytes",job="node"}'
    device = 'gpuledger_gpu_memory_used_bytes{job="node"}'
    rest = f"sum by (gpu_uuid) ({booked}) - on (gpu_uuid) {device}"
    assert {(gpu.uuid,): 0 for gpu in rig.gpus} == by(rig, rest, "gpu_uuid")
    assert {(gpu.uuid,): gpu.memory_used for gpu in rig.gpus} == by(rig, device, "gpu_uuid")
    driver = by(rig, 'gpuledger_unattributed_memory_used_bytes{job="node",reason="driver"}', "gpu_uuid")
    whole = {(gpu.uuid,): DRIVER_SHARE for gpu in rig.gpus if not gpu.migs}
    assert whole.items() <= driver.items()


def test_a_driver_error_is_counted_and_names_who_was_there(rig: Rig) -> None:
    rig.world.scenario.add_event(rig.gpus[2], 31)
    rig.world.publish()
    error = f'job="node",gpu_uuid="{rig.gpus[2].uuid}",xid="31"'
    rig.prometheus.wait_for(f"gpuledger_gpu_xid_errors_total{{{error}}} == 1")
    assert (
        0
        <= (rig.prometheus.query_value(f"time() - gpuledger_gpu_xid_last_timestamp_seconds{{{error}}}") or -1)
        < 5
    )
    assert {("chat-6d4cf56db6-x7k2p",), ("notebook",)} == set(
        by(rig, f"gpuledger_gpu_xid_pod_info{{{error}}}", "pod")
    )


def test_every_source_answers_and_nothing_is_made_up(rig: Rig) -> None:
    sources = by(rig, 'gpuledger_source_up{job="node"}', "source")
    assert {(name,): 1 for name in ("nvml", "podresources", "podlogs", "procfs", "kube")} == sources
    assert_honest(rig.node, rig.world)


def test_a_pod_that_ends_is_gone_once_the_kubelet_was_asked_and_its_counters_a_little_later(rig: Rig) -> None:
    gpu = rig.gpus[7]
    tenant = rig.world.admit(bare("brief"), gpu.uuid)
    rig.world.run(tenant, gpu, memory=100 * MIB, sm=10)
    rig.world.publish()
    rig.prometheus.wait_for('gpuledger_container_sm_busy_seconds_total{job="node",pod="brief"} > 0.1')

    rig.world.remove(tenant)
    rig.world.publish()
    ended = time.monotonic()
    now = ("container_memory_used_bytes", "container_allocated", "pod_info")
    scrape = rig.node.wait_for("the end", lambda s: not any(s.series(name, pod="brief") for name in now))
    assert time.monotonic() - ended < KUBELET_INTERVAL_SECONDS + 3
    busy = scrape.value("container_sm_busy_seconds_total", pod="brief")
    assert busy is not None

    rig.prometheus.wait_for('gpuledger_container_memory_used_bytes{job="node",pod="brief"}', absent, timeout=3)
    counter = 'gpuledger_container_sm_busy_seconds_total{job="node",pod="brief"}'
    assert busy == rig.prometheus.query_value(counter)
    rig.prometheus.wait_for(counter, absent)
    assert 'pod="brief"' not in rig.node.scrape().text


@pytest.mark.parametrize("version", VERSIONS)
def test_prometheus_has_nothing_to_complain_of(rig: Rig, version: str) -> None:
    prometheus = rig.prometheuses[version]
    assert {("up", "")} == {(target.health, target.error) for target in prometheus.targets()}
    assert not prometheus.complaints()


def test_both_formats_say_the_same(rig: Rig) -> None:
    counts = 'count by (job) ({__name__=~"gpuledger_.*"})'
    rig.prometheus.wait_for(f"count(count_values('series', {counts})) == 1")
    assert {(job,) for job in SCRAPES} == set(by(rig, counts, "job"))
