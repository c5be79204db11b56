"""A tool that can't be had is said so; it is never replaced by another or left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools import fetch

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


def test_an_unknown_tool_is_named_beside_those_that_there_are() -> None:
    with pytest.raises(fetch.FetchError, match="no tool 'grafana'; there are: prometheus-2, prometheus-3"):
        fetch.tool("grafana")


def test_a_suite_without_the_wanted_version_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suites = fetch.TOOLS["strace-6"].suites
    monkeypatch.setitem(fetch.TOOLS, "strace-1", fetch.Tool(("strace",), "1.", suites))
    monkeypatch.setattr(fetch, "CACHE", tmp_path)
    with pytest.raises(fetch.FetchError, match=r"strace-1: \w+ has version \d.* name another suite"):
        fetch.tool("strace-1")
    assert [path.name for path in tmp_path.iterdir()] == ["strace-1.lock"]
