"""Objects are cut out of a stream exactly, however it is laid out and wherever its chunks end."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.parse.jsonstream import JsonStream, Malformed

Object = dict[str, Any]

_text = st.text(alphabet='ab{}[]",:\\\n é', max_size=12)
_value = st.recursive(
    st.none() | st.booleans() | st.integers() | _text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_text, inner, max_size=4),
    max_leaves=12,
)
_object = st.dictionaries(_text.filter(lambda key: key != "items"), _value, max_size=4)
_objects = st.lists(_object, min_size=1, max_size=9)


def _decode(array: bytes, _: str) -> list[Object]:
    """A list may come as one object, as in parse_objects."""
    return [dict(item) for value in json.loads(array) for item in value.get("items", [value])]


def _read(text: str, chunk: int) -> Iterator[Object | Malformed]:
    data = text.encode()
    chunks = (data[start : start + chunk] for start in range(0, len(data), chunk))
    return JsonStream(chunks, _decode).objects()


@given(
    objects=_objects,
    indent=st.sampled_from([None, 0, 1, 4]),
    separators=st.sampled_from([None, (",", ":")]),
    layout=st.sampled_from(["list", "lines", "row", "lists"]),
    chunk=st.integers(min_value=1, max_value=200),
)
def test_any_layout(
    objects: list[Object], indent: int | None, separators: tuple[str, str] | None, layout: str, chunk: int
) -> None:
    def dump(value: object) -> str:
        return json.dumps(value, indent=indent, separators=separators, ensure_ascii=False)

    text = {
        "list": dump({"kind": "List", "items": objects, "metadata": {}}),
        "lines": "\n".join(map(dump, objects)),
        "row": "".join(map(dump, objects)),
        "lists": "\n".join(dump({"items": [item]}) for item in objects),
    }[layout]
    assert objects == list(_read(text, chunk))


@given(_objects, st.integers(min_value=0), st.sampled_from([None, 4]), st.sampled_from([7, 4096]))
def test_a_malformed_item_among_others(objects: list[Object], bad: int, indent: int | None, chunk: int) -> None:
    place = bad % (len(objects) + 1)
    marked = [*objects[:place], {"@": 0}, *objects[place:]]
    text = json.dumps({"kind": "List", "items": marked}, indent=indent)
    broken = text.replace('"@": 0', '"@": nonsense')
    found = list(_read(broken, chunk))
    assert objects == [item for item in found if not isinstance(item, Malformed)]
    assert [place] == [index for index, item in enumerate(found) if isinstance(item, Malformed)]


def test_any_number_of_malformed_objects_is_told_in_linear_time() -> None:
    """A log in JSON is no dump, and a file that anybody may have named."""
    decoded = 0

    def decode(array: bytes, _: str) -> list[Object]:
        nonlocal decoded
        decoded += len(array)
        raise ValueError

    text = b'{"level": "info"}\n' * 10_000
    found = list(JsonStream([text], decode).objects())
    assert 10_000 == sum(isinstance(one, Malformed) for one in found) == len(found)
    assert decoded < 10 * len(text)


def test_the_kind_of_the_list_is_told() -> None:
    kinds = []

    def decode(array: bytes, kind: str) -> list[Object]:
        kinds.append(kind)
        return _decode(array, kind)

    text = b'{"kind": "PodList", "items": [{"a": 1}]}{"items": [{"kind": "a"}]}{"a": 1}'
    list(JsonStream([text], decode).objects())
    assert ["PodList", "List", ""] == kinds


@pytest.mark.parametrize("size", [1, 5_000_000])
def test_an_object_of_any_size(size: int) -> None:
    objects = [{"a": "x" * size}, {"b": 1}]
    assert objects == list(_read(json.dumps({"items": objects}), 1 << 17))


def _names_of_any(text: str, chunk: int) -> list[str]:
    """Objects that nobody asked for give nothing, as a Service does."""
    chunks = (text.encode()[start : start + chunk] for start in range(0, len(text.encode()), chunk))

    def decode(array: bytes, _: str) -> list[str]:
        return [value["name"] for value in json.loads(array) if "name" in value]

    return [found for found in JsonStream(chunks, decode).objects() if isinstance(found, str)]


@given(
    wanted=st.lists(st.booleans(), min_size=1, max_size=30),
    indent=st.sampled_from([None, 1, 4]),
    layout=st.sampled_from(["list", "lines", "row"]),
    chunk=st.integers(min_value=1, max_value=300),
)
def test_objects_that_give_nothing_hide_none(
    wanted: list[bool], indent: int | None, layout: str, chunk: int
) -> None:
    objects = [{"kind": "a", **({"name": str(n)} if want else {})} for n, want in enumerate(wanted)]
    text = {
        "list": json.dumps({"kind": "List", "items": objects}, indent=indent),
        "lines": "\n".join(map(json.dumps, objects)),
        "row": "\n".join(json.dumps(each, indent=indent) for each in objects),
    }[layout]
    assert [str(n) for n, want in enumerate(wanted) if want] == _names_of_any(text, chunk)
