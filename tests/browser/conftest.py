"""What all tests of this folder share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from browser.chromium import running_chromium
from browser.demo import running_demo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for a module's tests, and no longer: while it runs, so does Playwright's event loop."""
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo's URL."""
    with running_demo(tmp_path_factory.mktemp("demo")) as url:
        yield url
