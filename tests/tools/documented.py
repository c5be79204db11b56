"""Queries as the documentation prints them, so that what is printed there is what is tested."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

_QUERY = re.compile(r"^```promql\n# (?P<title>.+)\n(?P<query>(?:.+\n)+?)```$", re.MULTILINE)


def read_queries(page: str) -> dict[str, str]:
    """The PromQL of a page's code blocks, by the comment that each begins with."""
    return {match["title"]: match["query"].strip() for match in _QUERY.finditer((DOCS / page).read_text())}
