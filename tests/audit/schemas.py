"""As much of JSON Schema (draft 4) and of XML Schema as the published schemas of SARIF and JUnit use."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree as ET

Schema = Mapping[str, Any]

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def _is_a(value: object, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def json_schema_errors(value: Any, schema: Schema, root: Schema, place: str = "$") -> Iterator[str]:
    """What about `value` the schema does not allow; `root` is the document that `$ref` points into."""
    if "$ref" in schema:
        schema = root["definitions"][schema["$ref"].removeprefix("#/definitions/")]
    if unknown := schema.keys() - _KEYWORDS:
        yield f"{place}: the validator does not know {unknown}"
    kinds = schema.get("type", list(_TYPES))
    if not any(_is_a(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        yield f"{place}: {value!r} is no {kinds}"
    elif isinstance(value, dict):
        yield from _object_errors(value, schema, root, place)
    elif isinstance(value, list):
        yield from _array_errors(value, schema, root, place)
    else:
        yield from _scalar_errors(value, schema, place)
    for keyword in schema.keys() & {"anyOf", "oneOf"}:
        fitting = sum(not list(json_schema_errors(value, part, root, place)) for part in schema[keyword])
        if fitting == 0 or (keyword == "oneOf" and fitting > 1):
            yield f"{place}: {fitting} of {keyword} fit"


_KEYWORDS = {
    "type",
    "enum",
    "properties",
    "additionalProperties",
    "required",
    "items",
    "minItems",
    "uniqueItems",
    "minimum",
    "maximum",
    "pattern",
    "anyOf",
    "oneOf",
    "$schema",
    "id",
    "title",
    "description",
    "default",
    "definitions",
    "format",
}


def _object_errors(value: dict[str, Any], schema: Schema, root: Schema, place: str) -> Iterator[str]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    yield from (f"{place}: {name} is missing" for name in schema.get("required", ()) if name not in value)
    for name, part in value.items():
        if name in properties or isinstance(others, dict):
            yield from json_schema_errors(part, properties.get(name, others), root, f"{place}.{name}")
        elif not others:
            yield f"{place}: {name} is not allowed"


def _array_errors(value: list[Any], schema: Schema, root: Schema, place: str) -> Iterator[str]:
    if len(value) < schema.get("minItems", 0):
        yield f"{place}: too few"
    if schema.get("uniqueItems") and any(part in value[:index] for index, part in enumerate(value)):
        yield f"{place}: repeats"
    for index, part in enumerate(value):
        yield from json_schema_errors(part, schema.get("items", {}), root, f"{place}[{index}]")


def _scalar_errors(value: Any, schema: Schema, place: str) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{place}: {value!r} does not match"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{place}: {value} is too small"
    if "maximum" in schema and value > schema["maximum"]:
        yield f"{place}: {value} is too large"


_XS = "{http://www.w3.org/2001/XMLSchema}"


def xml_schema_errors(element: ET.Element, schema: ET.Element) -> Iterator[str]:
    """What about `element` the XML Schema does not allow: elements, attributes, which of them are needed."""
    declared = {part.get("name"): part for part in schema.findall(f"{_XS}element")}
    if element.tag not in declared:
        yield f"<{element.tag}> is not declared"
        return
    attributes = {part.get("name"): part for part in declared[element.tag].iter(f"{_XS}attribute")}
    yield from (f"<{element.tag} {name}> is not declared" for name in element.attrib.keys() - attributes.keys())
    for name, part in attributes.items():
        if part.get("use") == "required" and name not in element.attrib:
            yield f"<{element.tag}> lacks {name}"
    children = {part.get("ref") for part in declared[element.tag].iter(f"{_XS}element")}
    for child in element:
        if child.tag not in children:
            yield f"<{child.tag}> is not allowed in <{element.tag}>"
        yield from xml_schema_errors(child, schema)
