"""Every check explains itself, and the catalogue is what it says."""

import re
from pathlib import Path

import pytest

from gpuledger.audit.check import Check
from gpuledger.audit.checks import CHECKS, STATIC_CHECKS
from gpuledger.audit.docs import render_checks

ROOT = Path(__file__).parents[2]
FILES = ROOT / "exporter/gpuledger/audit/checks"

EVERY_CHECK = [pytest.param(check, id=check.id) for check in CHECKS.values()]


def test_a_check_is_named_as_its_file() -> None:
    files = {path.stem for path in FILES.glob("*.py")} - {"__init__"}
    assert files == {check.id.replace("-", "_") for check in STATIC_CHECKS}


@pytest.mark.parametrize("check", EVERY_CHECK)
def test_a_check_explains_itself(check: Check) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", check.id)
    assert not check.title.endswith(".")
    assert not check.flags.endswith(".")
    assert [text[-1] for text in (check.why, check.remediation)] == [".", "."]
    assert all(reference.startswith("https://") for reference in check.references)
    assert check.references


def test_what_covers_a_check_exists() -> None:
    assert {other for check in CHECKS.values() for other in check.covered_by} <= CHECKS.keys()


def test_docs_are_in_sync() -> None:
    assert (ROOT / "docs/checks.md").read_text() == "".join(render_checks())
