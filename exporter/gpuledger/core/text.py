"""Text that is safe to show."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text without control characters: names in a manifest are anybody's, and terminals obey them."""
    return text if text.isprintable() else text.encode("unicode_escape", "surrogatepass").decode()
