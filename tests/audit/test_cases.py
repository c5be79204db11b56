"""Every check flags its `flags-*` cases and passes its `passes-*` cases."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from audit.auditing import audited, findings
from gpuledger.audit.checks import STATIC_CHECKS

CASES = Path(__file__).parent / "cases"


def _cases(kind: str) -> Sequence[object]:
    return [
        pytest.param(path, id=f"{path.parent.name}/{path.stem}")
        for path in sorted(CASES.glob(f"*/{kind}-*.yaml"))
    ]


@pytest.mark.parametrize("kind", ["flags", "passes"])
def test_every_check_has_cases(kind: str) -> None:
    assert {check.id for check in STATIC_CHECKS} == {
        path.parent.name for path in CASES.glob(f"*/{kind}-*.yaml")
    }


@pytest.mark.parametrize("path", _cases("flags"))
def test_flags(path: Path) -> None:
    text = path.read_text()
    first, _, _ = text.partition("\n")
    severities = [str(finding.severity) for finding in findings(audited(text, path.parent.name))]
    expected = first.removeprefix("# severity: ") if first.startswith("# severity: ") else severities[0]
    assert expected in severities


@pytest.mark.parametrize("path", _cases("passes"))
def test_passes(path: Path) -> None:
    assert findings(audited(path.read_text(), path.parent.name)) == []
