"""CEL selectors of devices, as far as they say outright which devices they select.

Nothing is evaluated: comparisons with literals are read, joined by `&&`, `||` and parentheses. The grammar is
that of the Common Expression Language, the variable `device` that of resource.k8s.io.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|&&|\|\||(?:[^\s"'&|?()\[\]{}/]|(?<=\.)\?)+|\S)""",
    re.DOTALL,
)
"""A string, an operator, a bracket or a run of anything else, with `.?` in it; space and comments are none."""
_LITERAL = r'"[^"\\]*"'
_OPENING, _CLOSING = "([{", ")]}"
_DEEPEST = 30
"""Parentheses within each other; nobody writes more."""


def parse_selected(expression: str, subject: str) -> frozenset[str] | None:
    """The values that `subject` may have where the expression is true; None where it does not tell.

    `subject` is written without spaces and with double quotes, such as `device.driver`.
    """
    tokens = [_plain(token) for token in _TOKEN.findall(expression) if token]
    return _values(tokens, subject, _DEEPEST)


def _values(tokens: Sequence[str], subject: str, depth: int) -> frozenset[str] | None:
    if not depth or len(_split(tokens, "?")) > 1:
        return None
    alternatives = _split(tokens, "||")
    if len(alternatives) > 1:
        found = [_values(each, subject, depth - 1) for each in alternatives]
        return None if None in found else frozenset[str]().union(*filter(None, found))
    terms = _split(tokens, "&&")
    if len(terms) > 1:
        told = [values for each in terms if (values := _values(each, subject, depth - 1)) is not None]
        return frozenset.intersection(*told) if told else None
    if tokens and tokens[0] == "(" and _end(tokens) == len(tokens) - 1:
        return _values(tokens[1:-1], subject, depth - 1)
    return _compared("".join(tokens), subject)


def _compared(term: str, subject: str) -> frozenset[str] | None:
    """What the term, which is no conjunction, compares the subject with."""
    name = re.escape(subject)
    choices = rf"{name}=={_LITERAL}|{_LITERAL}=={name}|{name}in\[{_LITERAL}(?:,{_LITERAL})*\]"
    if not re.fullmatch(choices, term):
        return None
    return frozenset(literal[1:-1] for literal in re.findall(_LITERAL, term.replace(subject, "")))


def _split(tokens: Sequence[str], operator: str) -> list[Sequence[str]]:
    """The parts between the operator, where it stands in no parentheses."""
    parts, depth, start = [], 0, 0
    for index, token in enumerate(tokens):
        depth += (token in _OPENING) - (token in _CLOSING)
        if token == operator and not depth:
            parts.append(tokens[start:index])
            start = index + 1
    return [*parts, tokens[start:]]


def _end(tokens: Sequence[str]) -> int:
    """Where the parenthesis is closed with which the tokens begin; -1 where it is not."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token in _OPENING) - (token in _CLOSING)
        if not depth:
            return index
    return -1


def _plain(token: str) -> str:
    """A string in double quotes, where it needs no escape for that."""
    inner = token[1:-1]
    return f'"{inner}"' if token.startswith("'") and len(token) > 1 and '"' not in inner else token
