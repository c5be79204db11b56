"""Each complaint that docs/complaints.md answers names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "complaints.md"

ROWS = [
    line.strip("| ").split(" | ")
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| complaint")
]
NAMED = sorted({tuple(name.split("::")) for _, _, tests in ROWS for name in re.findall(r"`([^`]+)`", tests)})


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_each_test_that_is_named_exists(file: str, name: str) -> None:
    assert re.search(rf"^(def {name}\(|{name} = )", (TESTS / file).read_text(), re.MULTILINE)


@pytest.mark.parametrize("row", ROWS, ids=[complaint[:40] for complaint, *_ in ROWS])
def test_each_complaint_is_answered_and_shown(row: list[str]) -> None:
    complaint, here, tests = row

    assert complaint
    assert here
    assert "`" in tests
