"""Takes the pictures of the pages that the README shows: `python tests/browser/screenshots.py FOLDER`."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from browser.chromium import running_chromium, visit
from browser.demo import running_demo

HOT_AFTER_SECONDS = 66
"""By then the demo has something to show: findings, errors, a GPU that is too hot."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A page as it is photographed; sizes are in pixels."""

    name: str
    path: str
    width: int
    height: int
    scheme: str = "light"
    card: int = 0
    """The GPU, by its place on the page, that stands first in the picture."""


PICTURES = (
    Picture("node", "/node/gpu-h100-1/", 1500, 860, card=3),
    Picture("node-mig", "/node/gpu-a100-1/", 1600, 720, "dark", card=2),
    Picture("node-phone", "/node/gpu-l4-1/", 400, 800),
    Picture("cluster", "/cluster/", 1200, 900),
)


def take(folder: Path) -> None:
    """Take all of them into `folder`, of a demo that runs meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_demo(Path(scratch)) as url,
        running_chromium() as chromium,
    ):
        time.sleep(HOT_AFTER_SECONDS)
        for each in PICTURES:
            with visit(chromium, url + each.path, width=each.width, color_scheme=each.scheme) as page:
                page.set_viewport_size({"width": each.width, "height": each.height})
                if each.card:
                    page.locator(".gpu").nth(each.card).evaluate("card => card.scrollIntoView()")
                page.screenshot(path=folder / f"{each.name}.png")


if __name__ == "__main__":
    take(Path(sys.argv[1]))
