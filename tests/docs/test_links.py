"""Links between pages lead somewhere: to files that there are, and to headings that they have."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "deploy", "rules", "dashboards", "benchmarks", "tests")
LINKED = ROOT / "deploy" / "helm" / "gpuledger" / "rules"
"""A link to rules/, and a copy of it in the sdist, from where its pages' links lead nowhere."""

PAGES = sorted(
    page
    for page in chain(ROOT.glob("*.md"), *(ROOT.joinpath(folder).rglob("*.md") for folder in FOLDERS))
    if LINKED not in page.parents
)

_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)


def read_prose(page: Path) -> str:
    """A page without its blocks of code, in which brackets and hashes mean something else."""
    return _FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the page's headings."""
    titles = [
        re.sub(r"\[(.+?)\]\(.+?\)", r"\1", match["text"]) for match in _HEADING.finditer(read_prose(page))
    ]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    broken = []
    for match in _LINK.finditer(read_prose(page)):
        target, _, anchor = match["target"].partition("#")
        if "://" in target:
            continue
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(match["target"])

    assert [] == broken


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}

    assert [] == [name for name in sorted(pages) if f"({name})" not in index]
