"""Names, labels and help of every metric keep the conventions that Prometheus' users rely on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuledger.core.spec import MetricSpec
from gpuledger.metrics import catalog
from gpuledger.metrics.docs import main as docs_main
from gpuledger.metrics.docs import render_docs

UNITS = ("bytes", "seconds", "ratio", "joules", "watts", "celsius", "hertz")
UNITLESS_GAUGES = re.compile(
    r"(_info|_up|_enabled|_pending|_failed|_successful|_unresolved|_throttled|_unsupported|_ready|_allocated"
    r"|_processes|_rows|_pages|_action|_state|_phase|_allocations|_link_(generation|width)(_max)?"
    r"|_condition|_requested|_cards|_devices|_(capacity|allocatable|free|placeable)|quota_(hard|used)"
    r"|_warning_events|_objects|audit_(finding|workload_pods_affected|exempted|pods_scanned))$"
)
VOCABULARY = {
    *("node", "gpu", "gpu_uuid", "mig_uuid", "namespace", "pod", "container", "workload_kind", "workload"),
    *("pid", "process", "reason", "unit", "resource", "sensor", "clock", "type", "scope", "cause", "xid"),
    *("link", "fan", "reading", "profile", "gpu_instance", "compute_instance", "uid", "qos", "phase"),
    *("workload_inferred", "exit_code", "source", "result", "family", "version", "python_version"),
    *("condition", "product", "sharing", "mig_strategy", "cards", "ready", "schedulable", "quota", "driver"),
    *("pool", "claim", "device_class", "state", "check", "severity"),
    *catalog.GPU_INFO_LABELS,
}

each_spec = pytest.mark.parametrize("spec", catalog.SPECS, ids=lambda spec: spec.name)


@each_spec
def test_a_counter_ends_in_total_and_nothing_else_does(spec: MetricSpec) -> None:
    assert (spec.kind == "counter") == spec.name.endswith("_total")


@each_spec
def test_a_name_says_its_base_unit(spec: MetricSpec) -> None:
    base = spec.name.removesuffix("_total").removesuffix("_max")

    if spec.kind == "gauge":
        assert base.endswith(UNITS) or UNITLESS_GAUGES.search(spec.name)
    assert not re.search(r"percent|_m[bw]|mib|_khz|_mhz|milli", spec.name)


@each_spec
def test_help_is_a_sentence(spec: MetricSpec) -> None:
    assert re.fullmatch(r"[A-Za-z0-9].*\.", spec.help)
    assert "\n" not in spec.help


@each_spec
def test_labels_come_from_the_vocabulary(spec: MetricSpec) -> None:
    assert set(spec.labels) <= VOCABULARY
    assert len(spec.labels) == len(set(spec.labels))


@each_spec
def test_only_process_series_carry_a_pid(spec: MetricSpec) -> None:
    assert ("pid" in spec.labels) == spec.name.startswith("process_")


def test_no_metric_is_declared_twice() -> None:
    assert len(catalog.SPECS) == len(catalog.BY_NAME)


def test_the_reference_page_is_what_the_catalogue_generates(tmp_path: Path) -> None:
    page = tmp_path / "metrics.md"
    page.write_text(render_docs(), encoding="utf-8")
    assert docs_main(["--check", str(page)]) == 0

    page.write_text("stale", encoding="utf-8")
    assert docs_main(["--check", str(page)]) == 1
