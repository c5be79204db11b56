"""How rules get what is decided elsewhere: XID tiers and settings, here and in what is made of them."""

from __future__ import annotations

import re
import runpy
from typing import Any

import pytest

from tools.rulefiles import ROOT, RULE_FILES

GENERATE: dict[str, Any] = runpy.run_path(str(ROOT / "rules" / "generate.py"))
MARKERS = sorted(
    {
        marker
        for path in RULE_FILES
        for marker in re.findall(r"  # ((?:tier|setting): .+)$", path.read_text(), re.MULTILINE)
    }
)


@pytest.mark.parametrize(
    ("line", "filled"),
    [
        ('x{a!="b", c=~"d|e"}  # setting: s', 'x{a!="b", c=~"NEW"}  # setting: s'),
        (") * 60 > 0.5  # setting: s", ") * 60 > NEW  # setting: s"),
        ('unit!~"(a|b)[.]service"  # setting: s', 'unit!~"NEW"  # setting: s'),
        ('x{a="b"}  # a comment: of another kind\n', 'x{a="b"}  # a comment: of another kind\n'),
    ],
)
def test_a_marker_stands_for_the_last_string_or_number_before_it(line: str, filled: str) -> None:
    assert filled == GENERATE["fill_markers"](line, {"setting: s": "NEW"})


@pytest.mark.parametrize("marker", MARKERS)
def test_each_marker_can_be_replaced_by_a_template(marker: str) -> None:
    for path in RULE_FILES:
        text = path.read_text()
        values = dict.fromkeys(MARKERS, "kept") | {marker: "{{ .Values.mine }}"}

        filled = GENERATE["fill_markers"](text, values)

        assert len(re.findall(rf"  # {marker}$", text, re.MULTILINE)) == filled.count("{{ .Values.mine }}")


def test_a_marker_that_nothing_is_known_of_is_an_error() -> None:
    with pytest.raises(KeyError, match="setting: no-such"):
        GENERATE["fill_markers"]("x > 1  # setting: no-such", {})


def test_every_setting_is_used() -> None:
    assert {f"setting: {name}" for name in GENERATE["read_settings"]()} == {
        marker for marker in MARKERS if marker.startswith("setting")
    }
