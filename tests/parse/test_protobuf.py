"""The wire format, against the real protocol buffers library."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.kubelet import messages
from gpuledger.parse.protobuf import parse_fields

text = st.text(max_size=200)
containers = st.builds(
    messages.ContainerResources,
    name=text,
    cpu_ids=st.lists(st.integers(min_value=0, max_value=2**63 - 1), max_size=4),
    devices=st.lists(
        st.builds(messages.ContainerDevices, resource_name=text, device_ids=st.lists(text, max_size=4)),
        max_size=4,
    ),
    memory=st.lists(st.builds(messages.ContainerMemory, memory_type=text, size=st.integers(0, 2**64 - 1))),
)


@given(containers)
def test_strings_and_messages_are_those_that_the_library_encoded(container: Any) -> None:
    fields = parse_fields(container.SerializeToString())
    assert [container.name.encode()] * bool(container.name) == fields[1]
    assert [devices.SerializeToString() for devices in container.devices] == fields[2]
    assert [memory.SerializeToString() for memory in container.memory] == fields[4]


@given(containers, st.data())
def test_a_cut_message_is_read_up_to_there_or_refused(container: Any, data: st.DataObject) -> None:
    encoded = container.SerializeToString()
    cut = data.draw(st.integers(0, len(encoded)))
    try:
        fields = parse_fields(encoded[:cut])
    except ValueError:
        return
    whole = parse_fields(encoded)
    assert all(values == whole[number][: len(values)] for number, values in fields.items())


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(b"\x08\x96\x01", id="varint"),
        pytest.param(b"\x09" + bytes(8), id="64 bits"),
        pytest.param(b"\x0d" + bytes(4), id="32 bits"),
    ],
)
def test_numbers_are_passed_over(number: bytes) -> None:
    assert parse_fields(number + b"\x12\x05after") == {2: [b"after"]}


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        pytest.param(b"\x0b", "wire type 3", id="group"),
        pytest.param(b"\x0a\x05abc", "ends within a field", id="text cut short"),
        pytest.param(b"\x09\x00", "ends within a field", id="number cut short"),
        pytest.param(b"\x08\xff", "no varint", id="varint cut short"),
        pytest.param(b"\x08" + b"\xff" * 11, "no varint", id="varint without end"),
    ],
)
def test_what_is_no_message_is_refused(message: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_fields(message)
