"""/metrics as scrapers ask for it: format, encoding, limit, and what is kept between two of them."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gpuledger.app.http import Request, Response
from gpuledger.app.node.scrape import MetricsPage
from gpuledger.core.model import Gpu, GpuReading, GpuUuid, MigUuid, Owner
from gpuledger.core.snapshot import ContainerUse, GpuState, NodeSnapshot, SourceHealth

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

PROMETHEUS_2_42 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3_PROTOBUF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,"
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)

GPU = Gpu(0, GpuUuid("GPU-0"))
SNAPSHOT = NodeSnapshot(
    "node-1",
    taken_at=1_700_000_000.0,
    gpus=(GpuState(GpuReading(GPU, up=True), busy_seconds=1.5),),
    containers=tuple(
        ContainerUse(GPU, MigUuid(""), Owner("ml", f"pod-{n}", "main"), memory_used=n, processes=1)
        for n in range(5)
    ),
)


class Page:
    """The page over a snapshot that a test may exchange."""

    def __init__(self, series_limit: int = 1000) -> None:
        self.snapshot: NodeSnapshot | None = SNAPSHOT
        self.health = [SourceHealth("nvml", up=True, last_success=1_700_000_000.0)]
        self._page = MetricsPage(
            "node-1",
            lambda: self.snapshot,
            lambda: self.health,
            lambda: SNAPSHOT.taken_at,
            series_limit=series_limit,
        )

    def get(self, accept: str = "", encoding: str = "") -> Response:
        headers = {"accept": accept, "accept-encoding": encoding}
        return self._page.answer(Request("GET", "/metrics", {k: v for k, v in headers.items() if v}))

    def series(self, accept: str = "") -> dict[str, list[float]]:
        """Values by name, in the text format."""
        found: dict[str, list[float]] = {}
        for family in parse_text(self.get(accept).body.decode()):
            for sample in family.samples:
                found.setdefault(sample.name, []).append(sample.value)
        return found


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        pytest.param("", TEXT, id="nothing-said"),
        pytest.param("*/*", TEXT, id="anything"),
        pytest.param("text/html,application/xhtml+xml,*/*;q=0.8", TEXT, id="a-browser"),
        pytest.param(PROMETHEUS_2_42, OPENMETRICS, id="prometheus-2.42.0"),
        pytest.param(PROMETHEUS_3, OPENMETRICS, id="prometheus-3.5.3"),
        pytest.param(PROMETHEUS_3_PROTOBUF, OPENMETRICS, id="prometheus-3-with-protobuf"),
        pytest.param("application/openmetrics-text", OPENMETRICS, id="any-version"),
        pytest.param('application/OpenMetrics-Text; Version="1.0.0"', OPENMETRICS, id="case-and-quotes"),
        pytest.param("application/openmetrics-text;version=2.0.0", TEXT, id="only-a-version-to-come"),
        pytest.param("application/openmetrics-text;version=", TEXT, id="no-version"),
        pytest.param("application/openmetrics-text;version", TEXT, id="a-version-without-value"),
        pytest.param("application/openmetrics-text;q=0", TEXT, id="refused"),
        pytest.param("application/openmetrics-text;q=much", TEXT, id="no-weight"),
        pytest.param("application/openmetrics-text;q=nan", TEXT, id="a-weight-that-is-no-number"),
        pytest.param("application/openmetrics-text;q=-1", TEXT, id="a-weight-below-nothing"),
        pytest.param("application/openmetrics-text;q=0.4,text/plain;q=0.5", TEXT, id="text-is-liked-better"),
        pytest.param("text/plain;q=0.5,application/openmetrics-text;q=0.5", OPENMETRICS, id="both-alike"),
        pytest.param("text/plain;q=0", TEXT, id="nothing-acceptable-is-text-all-the-same"),
        pytest.param(",;,;;q=,application/openmetrics-text;;", OPENMETRICS, id="garbage-around"),
    ],
)
def test_the_format_is_what_the_scraper_likes_best(accept: str, content_type: str) -> None:
    assert content_type == Page().get(accept).content_type


@pytest.mark.parametrize(
    ("encoding", "zipped"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("identity", False),
        ("br", False),
        ("gzip;q=some", False),
    ],
)
def test_the_page_is_zipped_for_whom_that_suits(encoding: str, *, zipped: bool) -> None:
    response = Page().get(encoding=encoding)

    assert ("gzip" if zipped else None) == response.headers.get("Content-Encoding")
    body = gzip.decompress(response.body) if zipped else response.body
    assert body.startswith(b"# HELP gpuledger_")
    assert response.headers["Vary"] == "Accept, Accept-Encoding"


def test_both_formats_say_the_same_and_openmetrics_ends() -> None:
    page = Page()
    text = page.get().body.decode()
    openmetrics = page.get(PROMETHEUS_3).body.decode()

    in_text, in_openmetrics = (
        {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
            if sample.name.startswith("gpuledger_")
        }
        for families in (parse_text(text), parse_openmetrics(openmetrics))  # type: ignore[no-untyped-call]
    )
    assert in_text == in_openmetrics
    assert (
        in_text["gpuledger_gpu_busy_seconds_total", ("gpu", "0"), ("gpu_uuid", "GPU-0"), ("node", "node-1")]
        == 1.5
    )
    assert openmetrics.endswith("\n# EOF\n")
    assert openmetrics.count("# EOF") == 1


@pytest.mark.parametrize("accept", ["", PROMETHEUS_3], ids=["text", "openmetrics"])
def test_the_exporter_is_on_the_page_even_without_a_snapshot(accept: str) -> None:
    page = Page()
    page.snapshot = None
    page.health = [SourceHealth("nvml", up=False, failures=3, error="no driver")]

    body = page.get(accept).body.decode()

    assert 'gpuledger_source_up{node="node-1",source="nvml"} 0.0' in body
    assert 'gpuledger_source_failures_total{node="node-1",source="nvml"} 3.0' in body
    assert "gpuledger_build_info" in body
    assert "process_resident_memory_bytes" in body
    assert "gpuledger_gpu_up" not in body
    assert "gpuledger_source_last_success" not in body


def test_series_over_the_limit_are_left_out_and_counted_once_a_snapshot() -> None:
    page = Page(series_limit=3)
    dropped = "gpuledger_series_dropped_total"
    assert len(page.series()["gpuledger_container_memory_used_bytes"]) == 3
    assert page.series()[dropped] == [2.0, 2.0]

    page.get(PROMETHEUS_3)
    assert page.series()[dropped] == [2.0, 2.0]

    page.snapshot = replace(SNAPSHOT)
    assert page.series()[dropped] == [4.0, 4.0]


def test_within_the_limit_nothing_is_counted() -> None:
    assert "gpuledger_series_dropped_total" not in Page(series_limit=5).series()


def test_a_new_snapshot_and_the_health_of_now_are_shown_at_once() -> None:
    page = Page()
    page.get()

    page.snapshot = replace(SNAPSHOT, containers=SNAPSHOT.containers[:1])
    page.health = [SourceHealth("nvml", up=False)]

    series = page.series()
    assert series["gpuledger_container_memory_used_bytes"] == [0.0]
    assert series["gpuledger_source_up"] == [0.0]


def test_the_age_of_the_books_is_told_also_when_they_are_too_old_to_be_shown() -> None:
    page = Page()
    page.snapshot = None

    shown = page.series()

    assert [SNAPSHOT.taken_at] == shown["gpuledger_last_cycle_timestamp_seconds"]
    assert "gpuledger_gpu_up" not in shown
