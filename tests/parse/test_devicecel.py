"""What a CEL selector says outright of the devices that it selects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.parse.devicecel import parse_selected

TYPE = 'device.attributes["gpu.nvidia.com"].type'


@pytest.mark.parametrize(
    ("expression", "drivers"),
    [
        pytest.param('device.driver == "a"', {"a"}, id="equal"),
        pytest.param("'a' == device.driver", {"a"}, id="the other way round, in single quotes"),
        pytest.param("device.driver in ['a', \"b\"]", {"a", "b"}, id="one of several"),
        pytest.param("device.driver=='a'||device.driver=='b'", {"a", "b"}, id="either"),
        pytest.param("device.driver == 'a' && device.driver == 'b'", set(), id="nothing at all"),
        pytest.param(
            "device.driver == 'a' && device.attributes['a'].type == 'gpu'", {"a"}, id="and something else"
        ),
        pytest.param("(device.driver == 'a') && (x || y)", {"a"}, id="and one of others"),
        pytest.param(
            "device.attributes['a'].?b.orValue('') == 'c' && device.driver == 'a'", {"a"}, id="optional"
        ),
        pytest.param("// all of a's\n device.driver == 'a' // or not", {"a"}, id="a comment"),
        pytest.param("device.driver == 'a' || x", None, id="or anything else"),
        pytest.param("x ? device.driver == 'a' : true", None, id="a condition"),
        pytest.param("device.driver != 'a'", None, id="all but one"),
        pytest.param("!(device.driver == 'a')", None, id="none of those"),
        pytest.param("device.driver.startsWith('a')", None, id="a function"),
        pytest.param("(device.driver == 'a') == false", None, id="compared again"),
        pytest.param("other.device.driver == 'a'", None, id="something of another name"),
        pytest.param(r"device.driver == 'a\n'", None, id="an escape"),
        pytest.param("device.allowMultipleAllocations == true", None, id="something else"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_drivers(expression: str, drivers: set[str] | None) -> None:
    assert drivers == parse_selected(expression, "device.driver")


def test_attributes() -> None:
    nvidias = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
    assert frozenset({"mig"}) == parse_selected(nvidias, TYPE)


@given(
    st.lists(st.sampled_from(["device.driver", "==", "'a'", "&&", "||", "(", ")", "[", "in", "?", "!", "'"]))
)
def test_whatever_is_written_tells_nothing_but_what_is_written(words: list[str]) -> None:
    text = " ".join(words)
    assert all(f"'{driver}'" in text for driver in parse_selected(text, "device.driver") or ())


def test_what_is_nested_beyond_reason_does_not_tell() -> None:
    assert parse_selected("(" * 5000 + "device.driver == 'a'" + ")" * 5000, "device.driver") is None
