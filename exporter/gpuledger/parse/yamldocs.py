"""Multi-document YAML, a document at a time, as Kubernetes reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

_MARKER = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_MAX_NODES = 5_000_000


class YamlError(ValueError):
    """A document that is not YAML, in one line."""


class _Loader(yaml.CSafeLoader):
    """Timestamps, `=` and numbers of base 60 (12:30:45) stay text, as in Kubernetes' own YAML (go-yaml).

    A key that stands twice is an error, as in kubectl's strict validation: whichever counts hides the other.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        keys = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if (key.tag, key.value) in keys:
                    problem = f"the key {key.value!r} stands twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                keys.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


_MERGE = "tag:yaml.org,2002:merge"


_AS_TEXT = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")
_NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$"),
    "tag:yaml.org,2002:float": re.compile(
        r"(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, _NUMBERS.get(tag, pattern)) for tag, pattern in resolvers if tag not in _AS_TEXT]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def split_yaml(text: str) -> Iterator[tuple[int, str]]:
    """The documents of a stream that hold anything, each with the number of its first line, from 1.

    A line that begins with `---` always starts a document: inside a block scalar it would be indented.
    """
    starts = [0, *(match.end() for match in _MARKER.finditer(text))]
    ends = [*(match.start() for match in _MARKER.finditer(text)), len(text)]
    line, counted = 1, 0
    for start, end in zip(starts, ends, strict=True):
        document = text[start:end]
        content = re.search(r"^[^\S\n]*[^\s#]", document, re.MULTILINE)
        if content:
            first = start + content.start()
            line, counted = line + text.count("\n", counted, first), first
            yield line, document


def parse_yaml(document: str) -> Any:
    """The plain value of one document.

    Raises:
        YamlError: the text is not YAML, or its aliases stand for more than any manifest holds.
    """
    try:
        value = yaml.load(document, _Loader)  # noqa: S506 - derives from CSafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlError(f"not YAML: {' '.join(str(error).split())}") from error
    if "*" in document and _size(value, {}) > _MAX_NODES:
        raise YamlError("aliases expand to too large a document")
    return value


def _size(value: object, known: dict[int, float]) -> float:
    """How many nodes the value has once its aliases are followed; infinite if it contains itself."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = float("inf")
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(value)]
