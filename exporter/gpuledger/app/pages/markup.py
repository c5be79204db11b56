"""What the pages are made of: escaped text, cells to sort by, tables, and the document around them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import NewType

from gpuledger.app.http import Response
from gpuledger.app.pages.amounts import UNKNOWN, clock, percent
from gpuledger.core.snapshot import SourceHealth

Html = NewType("Html", str)
"""Markup; every text in it has been escaped."""

_STYLE = files(__package__).joinpath("style.css").read_text("utf-8")
_SCRIPT = files(__package__).joinpath("live.js").read_text("utf-8")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Nothing but our own style and script has any effect, whatever gets into a page."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table; `sort` is the number to sort by where the text is none, `style` its CSS classes."""

    content: Html
    sort: float | None = None
    style: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row; plain strings are text."""

    cells: Sequence[Cell | str]
    style: str = ""


def text(value: str, style: str = "") -> Cell:
    """Text."""
    return Cell(Html(escape(value)), style=style)


def number(value: float | None, shown: str, style: str = "") -> Cell:
    """A number as `shown`, aligned and sorted as one."""
    return Cell(Html(escape(shown)), value, f"n {style}".strip())


def link(label: str, address: str) -> Cell:
    """A link to a page of this server."""
    return Cell(Html(f'<a href="{escape(address)}">{escape(label)}</a>'))


def meter(ratio: float | None, shown: str | None = None) -> Html:
    """A bar, and its value beside it; for what is unknown only that it is."""
    label = escape(percent(ratio) if shown is None else shown)
    if ratio is None:
        return Html(label)
    bounded = min(1.0, max(0.0, ratio))
    return Html(f'<meter min="0" max="1" value="{bounded:.3f}"></meter> <span class="v">{label}</span>')


def bar(ratio: float | None, shown: str | None = None) -> Cell:
    """A cell with a bar."""
    return Cell(meter(ratio, shown), ratio, "n")


def badge(label: str, severity: str) -> Html:
    """A short remark that has to be seen; `severity` is the audit's, or `info`."""
    return Html(f'<span class="badge {escape(severity)}">{escape(label)}</span>')


def badges(labels: Iterable[tuple[str, str]]) -> Html:
    """Several of them, as label and severity."""
    return Html(" ".join(badge(label, severity) for label, severity in labels))


def table(head: Sequence[str], rows: Iterable[Row], *, kind: str) -> Html:
    """A table; a `#` before a column's name aligns it as numbers, a `~` hides it where there is little room.

    Tables of one kind are sorted alike.
    """
    columns = [_column(name) for name in head]
    heads = "".join(f'<th scope="col"{_class(style)}>{escape(name)}</th>' for name, style in columns)
    body = "".join(
        f"<tr{_class(row.style)}>" + "".join(map(_cell, row.cells, columns)) + "</tr>" for row in rows
    )
    return Html(
        f'<div class="scroll"><table data-kind="{escape(kind)}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def section(title: str, head: Sequence[str], rows: Sequence[Row], empty: str, note: str = "") -> Html:
    """A table under a heading with a note; without rows, a sentence instead."""
    content = table(head, rows, kind=title) if rows else Html(f'<p class="dim">{escape(empty)}</p>')
    aside = f" <small>{escape(note)}</small>" if note else ""
    return Html(f"<section><h2>{escape(title)}{aside}</h2>{content}</section>")


def sources_section(sources: Iterable[SourceHealth]) -> Html:
    """How each source of evidence is doing."""
    rows = [
        Row(
            [
                source.name,
                "up" if source.up else text("down", "bad"),
                clock(source.last_success),
                number(source.failures, str(source.failures)),
                text(source.error, "dim wrap"),
            ]
        )
        for source in sources
    ]
    return section("Sources of evidence", ("Source", "State", "Last answer", "#Failures", ""), rows, "None.")


def document(title: str, heading: str, note: str, sections: Iterable[Html], links: Sequence[str] = ()) -> Html:
    """The whole page, which loads itself anew where there is no JavaScript; `links` are shown as addresses."""
    ways = "".join(f' · <a href="{escape(address)}">{escape(address)}</a>' for address in links)
    return Html(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<noscript><meta http-equiv="refresh" content="5"></noscript>'
        f"<title>{escape(title)} · gpuledger</title><style>{_STYLE}</style></head><body>"
        f'<header><h1>{escape(heading)}</h1><p id="state" role="status"></p></header>'
        f'<main><p class="dim">{escape(note)}{ways}</p>{"".join(sections)}</main>'
        f"<script>{_SCRIPT}</script></body></html>"
    )


def answer(page: Html) -> Response:
    """The page as an answer; names that are no Unicode show a mark in their place."""
    return Response(200, page.encode(errors="replace"), "text/html; charset=utf-8", HEADERS)


def _column(name: str) -> tuple[str, str]:
    styles = {"#": "n", "~": "wide"}
    found = []
    while name[:1] in styles:
        found.append(styles[name[0]])
        name = name[1:]
    return name, " ".join(found)


def _cell(cell: Cell | str, column: tuple[str, str]) -> str:
    """A cell. Where rows are shown as lines, for want of room, numbers bear their column's name."""
    name, style = column
    known = text(cell) if isinstance(cell, str) else cell
    classes = f"{known.style} wide".strip() if "wide" in style else known.style
    label = f' data-label="{escape(name)}"' if "n" in style.split() and known.content else ""
    sort = f' data-sort="{known.sort:.10g}"' if known.sort is not None else ""
    unknown = ' data-sort=""' if known.sort is None and known.content in (UNKNOWN, "") else ""
    return f"<td{_class(classes)}{label}{sort}{unknown}>{known.content}</td>"


def _class(style: str) -> str:
    return f' class="{escape(style)}"' if style else ""
