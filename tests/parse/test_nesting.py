"""What is nested too deeply is cut out, and what stands around it stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.parse.clusterobjects import CLAIMS
from gpuledger.parse.nesting import cut_nesting

DEEP = b'{"a":[' * 5_000 + b"1" + b"]}" * 5_000

_json = st.recursive(
    st.none() | st.integers() | st.text(alphabet='ab"\\[]{}'),
    lambda parts: (
        st.lists(parts, max_size=3) | st.dictionaries(st.text(alphabet='a"\\[{', max_size=2), parts, max_size=3)
    ),
)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        pytest.param(b'{"a":[[1],2],"b":[{}]}', b'{"a":[null,2],"b":[null]}', id="two levels are kept"),
        pytest.param(b'{"[[[":["{{{\\"[[["]}', b'{"[[[":["{{{\\"[[["]}', id="brackets in strings"),
        pytest.param(b'{"a":%b,"b":%b}' % (DEEP, DEEP), b'{"a":{"a":null},"b":{"a":null}}', id="very deep"),
        pytest.param(b"[[[[[1", b"[[null", id="cut off"),
        pytest.param(b"]]]", b"]]]", id="closed too often"),
    ],
)
def test_cuts_what_is_deeper(text: bytes, cut: bytes) -> None:
    assert cut == cut_nesting(text, 2)


@given(value=_json, depth=st.integers(0, 4))
def test_is_json_again_as_deep_as_asked_for(value: object, depth: int) -> None:
    assert _cut(value, depth) == json.loads(cut_nesting(json.dumps(value).encode(), depth))


def _cut(value: object, depth: int) -> object:
    if not isinstance(value, dict | list):
        return value
    if not depth:
        return None
    if isinstance(value, list):
        return [_cut(part, depth - 1) for part in value]
    return {name: _cut(part, depth - 1) for name, part in value.items()}


CLAIM = b"""{"metadata": {"name": "a", "uid": "%b"}, "spec": {"devices": {"requests": [{"name": "gpu"}],
"config": [{"opaque": {"driver": "gpu.nvidia.com", "parameters": %b}}]}}}"""


def test_a_claim_whose_parameters_have_no_end_hides_no_other() -> None:
    """Any tenant may write them, and Kubernetes takes up to 10 KiB."""
    deep, flat = CLAIM % (b"1", DEEP), CLAIM % (b"2", b"{}")
    page = CLAIMS.parse_list(b'{"metadata": {"resourceVersion": "7"}, "items": [%b, %b]}' % (deep, flat))
    assert (["1", "2"], "7", 0) == ([claim.metadata.uid for claim in page.items], page.resource_version, 0)
    event = CLAIMS.parse_event(b'{"type": "ADDED", "object": %b}' % deep)
    assert event.object is not None
    assert ["gpu"] == [request.name for request in event.object.spec.devices.requests]
