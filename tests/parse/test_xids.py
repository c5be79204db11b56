"""The XID catalogue: each code has its place, and what disagrees is said to."""

from __future__ import annotations

import pytest

from gpuledger.metrics import catalog
from gpuledger.metrics.xids import read_xids, render_page, render_table
from gpuledger.parse.xids import parse_xids

NEWEST = 172

SMALL = """
version = "7"
tiers.bad = { alert = "GpuBad", meaning = "Bad." }
tiers.good = { alert = "", meaning = "Good." }
actions.RESET = { verdict = "fault", text = "Reset it." }
actions.NOTHING = { verdict = "no-fault", text = "Nothing." }
sources.someone = { title = "Someone", fault = [1], no-fault = [3] }

[xids]
20 = { tier = "good", mnemonic = "T", nvidia = "NOTHING", meaning = "Twenty" }
1 = { tier = "good", mnemonic = "O", nvidia = "NOTHING", meaning = "One" }
3 = { tier = "bad", mnemonic = "H", nvidia = "RESET", meaning = "Three" }
"""


def test_every_code_has_one_tier() -> None:
    catalogue = read_xids()
    tiers = [{xid.code for xid in catalogue.of_tier(tier)} for tier in catalogue.tiers]

    assert list(catalogue.xids) == list(range(1, NEWEST + 1))
    assert sum(len(tier) for tier in tiers) == NEWEST
    assert set().union(*tiers) == set(catalogue.xids)


@pytest.mark.parametrize(
    ("tier", "codes"),
    [
        ("critical", {48, 64, 74, 79, 95, 119, 120}),
        ("warning", {94, 109, *range(144, 151)}),
        ("application", {13, 31, 43}),
        ("informational", {45, 63, 154}),
        ("unclassified", {56, 167, 171}),
    ],
)
def test_well_known_codes_are_where_they_are_expected(tier: str, codes: set[int]) -> None:
    assert codes <= {xid.code for xid in read_xids().of_tier(tier)}


def test_what_calls_for_a_repair_is_no_application_fault_in_nvidias_view() -> None:
    assert not [xid for xid in read_xids().of_tier("critical") if xid.action.verdict == "no-fault"]


def test_a_code_is_disputed_where_sources_contradict_each_other() -> None:
    disputed = {xid.code for xid in read_xids().xids.values() if xid.disputed}

    assert {32, 63, 68, 69, 80, 92, 94, 109} == disputed


def test_codes_come_in_order_with_what_others_say() -> None:
    catalogue = parse_xids(SMALL)

    assert [1, 3, 20] == list(catalogue.xids)
    assert [1, 20] == [xid.code for xid in catalogue.of_tier("good")]
    assert {"nvidia": "no-fault", "someone": "fault"} == catalogue.xids[1].verdicts
    assert [True, True, False] == [xid.disputed for xid in catalogue.xids.values()]


@pytest.mark.parametrize(
    ("code", "tier", "action", "error"),
    [
        pytest.param(4, "ugly", "RESET", KeyError, id="tier"),
        pytest.param(4, "bad", "PRAY", KeyError, id="action"),
        pytest.param(3, "good", "RESET", ValueError, id="twice"),
    ],
)
def test_refuses_what_is_not_declared_or_declared_twice(
    code: int, tier: str, action: str, error: type[Exception]
) -> None:
    line = f'{code} = {{ tier = "{tier}", mnemonic = "X", nvidia = "{action}", meaning = "X" }}'

    with pytest.raises(error):
        parse_xids(f"{SMALL}{line}\n")


def test_a_table_says_what_to_do_and_who_disagrees() -> None:
    rows = render_table(parse_xids(SMALL).of_tier("bad")).splitlines()

    assert ["| 3 | Three | Reset it. | fault: nvidia; none: someone | `H` |"] == rows[2:]


def test_the_page_has_every_code_and_links_each_alert() -> None:
    page = render_page(read_xids())

    assert all(f"\n| {code} | " in page for code in range(1, NEWEST + 1))
    assert "[GpuXidCritical](runbooks/GpuXidCritical.md)" in page


def test_help_names_the_codes_that_call_for_a_repair() -> None:
    codes = ", ".join(str(xid.code) for xid in read_xids().of_tier("critical"))

    assert f": {codes}." in catalog.BY_NAME["gpu_xid_errors_total"].help
