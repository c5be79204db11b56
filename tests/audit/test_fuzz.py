"""Whatever stands anywhere in a dump, the audit ends with an exit code that tells the truth."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.command import gpuledger_audit

FIXTURES = Path(__file__).parents[1] / "fixtures/kube-1.36"

_EVERY_FORMAT = ("text", "json", "sarif", "junit", "github", "policy-report")

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)

_OBJECTS: list[dict[str, Any]] = [
    item
    for name in ("kubectl-get-pods-A", "kubectl-get-workloads-A", "api-nodes", "api-resourcequotas")
    for item in json.loads((FIXTURES / f"{name}.json").read_text())["items"]
]


def _places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    parts: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [path, *(place for key, part in parts for place in _places(part, (*path, key)))]


def _replaced(value: Any, path: tuple[str | int, ...], new: object) -> Any:
    if not path:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copy


@st.composite
def _spoiled_objects(draw: st.DrawFn) -> object:
    """A real object with anything at all in one of its places."""
    item = draw(st.sampled_from(_OBJECTS))
    path = draw(st.sampled_from(_places(item)))
    return _replaced(item, path, draw(_json))


def _audit(data: bytes, folder: Path, *flags: str) -> int:
    path = folder / "dump"
    path.write_bytes(data)
    return gpuledger_audit(str(path), *flags)


@given(
    items=st.lists(_spoiled_objects() | _json, max_size=3),
    indent=st.sampled_from([None, 4]),
    output=st.sampled_from(_EVERY_FORMAT),
    flag=st.sampled_from(["--all", "--classic", "--quiet", "--min-severity=info"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_spoiled_object_never_ends_in_a_traceback(
    items: list[object],
    indent: int | None,
    output: str,
    flag: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = _audit(
        json.dumps({"kind": "List", "items": items}, indent=indent).encode(),
        tmp_path,
        flag,
        f"--format={output}",
    )
    told = capsys.readouterr().err.startswith("error: ")
    assert (code == 2) == told
    readable = all(isinstance(item, dict) and (item.get("kind") or item.get("spec")) for item in items)
    assert readable or code == 2


@given(data=st.binary(max_size=60) | st.text(alphabet='{}[]":,\\ \nitemskd-&*', max_size=60).map(str.encode))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_never_pass_for_a_clean_cluster(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _audit(data, tmp_path)
    out = capsys.readouterr().out
    assert code == 2 or (code == 0 and out == "no GPU pods found\n")
    assert code == 2 or _holds_no_object(data)


def _holds_no_object(data: bytes) -> bool:
    """An empty list, or YAML of comments and blank documents: readable, with nothing in it."""
    text = data.decode(errors="replace")
    lines = [line.strip() for line in text.splitlines()]
    if all(not line or line.startswith(("#", "---")) for line in lines):
        return True
    return "items" in text or "kind" in text


@given(cut=st.integers(min_value=1), indent=st.sampled_from([None, 4]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_dump_that_was_cut_off_is_never_clean(cut: int, indent: int | None, tmp_path: Path) -> None:
    data = json.dumps({"kind": "List", "items": _OBJECTS}, indent=indent).encode()
    assert _audit(data[: cut % len(data)], tmp_path) == 2


@pytest.mark.parametrize(
    "amount", ["1e999", "1e-999", "9" * 400, "-1", "1e100", "0.3", "1E", "123456789.123456789e20", "one"]
)
@pytest.mark.parametrize("output", ["text", "json", "sarif", "junit", "github", "policy-report"])
def test_any_amount_of_gpus_is_printed(amount: str, output: str, tmp_path: Path) -> None:
    limits = {"nvidia.com/gpu": amount, "amd.com/gpu": "1", "memory": "1Gi"}
    containers = [{"name": name, "image": "a:1", "resources": {"limits": limits}} for name in "ab"]
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    assert _audit(json.dumps(pod).encode(), tmp_path, f"--format={output}") in (0, 1)
