"""What is written is what prometheus_client's parsers read, in both formats, hostile labels included."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gpuledger.core.spec import MetricSpec, counter, gauge
from gpuledger.metrics.exposition import Family, Row, render_openmetrics, render_text

GAUGE = gauge("things_bytes", ("name",), 'Things of "every" \\ kind.')
COUNTER = counter("seen_total", ("name",), "Things seen.")

rows = st.lists(
    st.tuples(st.tuples(st.text(max_size=20)), st.floats(allow_nan=False)),
    max_size=8,
    unique_by=lambda row: row[0],
)


def read_back(text: str, parse: object) -> list[Row]:
    families = parse(text)  # type: ignore[operator]
    return [((sample.labels["name"],), sample.value) for family in families for sample in family.samples]


@given(rows)
def test_text_reads_back(values: list[Row]) -> None:
    written = render_text([Family(GAUGE, values)])

    assert [((label.encode(errors="replace").decode(),), value) for (label,), value in values] == read_back(
        written, parse_text
    )


@given(rows)
def test_openmetrics_reads_back(values: list[Row]) -> None:
    written = render_openmetrics([Family(GAUGE, values)]) + "# EOF\n"

    assert [((label.encode(errors="replace").decode(),), value) for (label,), value in values] == read_back(
        written, parse_openmetrics
    )


def test_a_counter_keeps_its_suffix_on_the_series_and_loses_it_on_the_family_in_openmetrics() -> None:
    family = Family(COUNTER, [(("a",), 1.0)])

    assert render_text([family]) == (
        "# HELP gpuledger_seen_total Things seen.\n# TYPE gpuledger_seen_total counter\n"
        'gpuledger_seen_total{name="a"} 1.0\n'
    )
    assert render_openmetrics([family]) == (
        "# HELP gpuledger_seen Things seen.\n# TYPE gpuledger_seen counter\n"
        'gpuledger_seen_total{name="a"} 1.0\n'
    )


@pytest.mark.parametrize("spec", [GAUGE, COUNTER], ids=["gauge", "counter"])
def test_a_row_with_the_wrong_number_of_labels_is_refused(spec: MetricSpec) -> None:
    with pytest.raises(ValueError, match="2 label values for 1 labels"):
        Family(spec, [(("a", "b"), 1.0)])


def test_a_lone_surrogate_from_a_file_name_does_not_break_the_page() -> None:
    assert b'name="?"' in render_text([Family(GAUGE, [(("\udcff",), 1.0)])]).encode()
