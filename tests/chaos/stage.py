"""What the tests of this folder share: when the node is complete, and the row that each writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.exposition import Exposition
    from tools.node import Node

Record = Callable[[str, str, str], None]
"""Takes what happens, what is lost by it, and after how long all is right again."""


def everybody_is_there(scrape: Exposition) -> bool:
    """Whether the eight pods are seen, with what they were allocated."""
    used, held = (scrape.series(f"container_{name}") for name in ("memory_used_bytes", "allocated"))
    return len(used) == len(held) == 8


def address(node: Node) -> str:
    """Its host:port."""
    return node.url.removeprefix("http://")
