"""Debian's Chromium, driven by Playwright: a visitor who notices what a page should not do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

NARROW, WIDE = 400, 1600
HEIGHT = 900
NO_ICON = "/favicon.ico"
"""What a browser asks for of itself."""


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """The browser, without a window; its sandbox does not work for root."""
    program = shutil.which("chromium")
    assert program, "there is no chromium; `make tools` installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visit(browser: Browser, url: str, *, width: int = WIDE, **options: Any) -> Iterator[Page]:
    """A page that is looked at; fails where it logs anything, raises an error, or asks another host."""
    context = browser.new_context(viewport={"width": width, "height": HEIGHT}, **options)
    try:
        page = context.new_page()
        complaints, hosts = [], set()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        page.goto(url)
        yield page
        assert [] == complaints
        assert {urlsplit(url).netloc} == hosts
    finally:
        context.close()
