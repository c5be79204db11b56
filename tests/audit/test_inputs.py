"""Everything that kubectl, jq and editors make of a dump is read; what can't be read hides nothing else."""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.auditing import audited
from audit.command import gpuledger_audit
from gpuledger.parse.dump import Located, Unreadable, parse_dump
from gpuledger.parse.manifests import PodManifest
from gpuledger.sources.dumps import read_dump

FIXTURES = Path(__file__).parents[1] / "fixtures/kube-1.36"

Object = dict[str, Any]


def _pod(name: str, **spec: Any) -> Object:
    container = {
        "name": "main",
        "image": "app:1",
        "resources": {"limits": {"memory": "1Gi", "nvidia.com/gpu": 1}},
    }
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


PODS = [_pod("a"), _pod("b"), _pod("c")]


def _list(items: object, **fields: Any) -> Object:
    return {"apiVersion": "v1", "items": items, "kind": "List", **fields}


def _names(data: bytes, chunk: int = 1 << 20) -> list[str]:
    """The names of the pods in a dump; `!` and the message for what could not be read."""
    chunks = (data[start : start + chunk] for start in range(0, len(data), chunk))
    return [
        found.meta.name if isinstance(found, PodManifest) else found for found in _pods_and_problems(chunks)
    ]


def _pods_and_problems(chunks: Iterable[bytes]) -> Iterator[PodManifest | str]:
    for found in parse_dump(chunks):
        if isinstance(found, Unreadable):
            yield f"!{found.message}"
        elif isinstance(found.item, PodManifest):
            yield found.item


SHAPES = {
    "list": json.dumps(_list(PODS)),
    "list as kubectl prints it": json.dumps(_list(PODS, metadata={"resourceVersion": ""}), indent=4) + "\n",
    "compact list": json.dumps(_list(PODS), separators=(",", ":")),
    "PodList whose items have no kind": json.dumps(
        {"kind": "PodList", "items": [{key: pod[key] for key in ("metadata", "spec")} for pod in PODS]}
    ),
    "items before the kind": json.dumps({"items": [{**pod, "kind": None} for pod in PODS], "kind": "PodList"}),
    "no kind at all": json.dumps({"items": [{key: pod[key] for key in ("metadata", "spec")} for pod in PODS]}),
    "lists in a row": "\n".join(json.dumps(_list([pod]), indent=4) for pod in PODS),
    "lists without a gap": "".join(json.dumps(_list([pod])) for pod in PODS),
    "JSON lines": "\n".join(map(json.dumps, PODS)),
    "JSON lines of Windows": "\r\n".join(map(json.dumps, PODS)) + "\r\n",
    "objects in a row": "".join(json.dumps(pod, indent=2) for pod in PODS),
    "objects of jq": "\n".join(json.dumps(pod, indent=2) for pod in PODS),
    "list in a list": json.dumps(_list([_list(PODS)])),
    "nulls for absent fields": json.dumps(
        _list([{**pod, "status": None, "metadata": {**pod["metadata"], "labels": None}} for pod in PODS])
    ),
    "braces in strings": json.dumps(
        _list([{**pod, "metadata": {**pod["metadata"], "annotations": {"x": '}\n},{"[\\"'}}} for pod in PODS])
    ),
    "other kinds between": json.dumps(
        _list([PODS[0], *[{"kind": "Service", "spec": {}}] * 9, *PODS[1:]]), indent=4
    ),
    "sorted keys, items without kind": json.dumps(
        {
            "apiVersion": "v1",
            "items": [{k: pod[k] for k in ("metadata", "spec")} for pod in PODS],
            "kind": "PodList",
        },
        indent=2,
    ),
    "items twice": json.dumps(_list(PODS[:2]))[:-1] + f', "items": [{json.dumps(PODS[2])}]}}',
    "items that are null first": json.dumps({"kind": "List", "items": None})[:-1]
    + f', "items": {json.dumps(PODS)}}}',
    "a pod with items": json.dumps({"items": [], **PODS[0]})
    + json.dumps({**PODS[1], "items": []}, indent=1)
    + json.dumps({"items": [{"kind": "Service"}], **PODS[2]}, indent=4),
    "an array": json.dumps(PODS, indent=1),
    "an array in YAML": "\n".join(f"- {json.dumps(pod)}" for pod in PODS),
    "JSON as YAML documents": "\n---\n".join(json.dumps(pod, indent=1) for pod in PODS),
    "JSON, then YAML": f"{json.dumps(PODS[0])}\n---\n"
    "kind: List\nitems:\n" + "\n".join(f"- {json.dumps(pod)}" for pod in PODS[1:]),
    "null documents": "---\nnull\n---\n" + "\n---\n~\n---\n".join(map(json.dumps, PODS)),
    "flow style": "\n---\n".join(
        f"{{kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: x}}]}}}}" for name in "abc"
    ),
    "YAML documents": "---\n" + "\n---\n".join(json.dumps(pod, indent=1) for pod in PODS),
    "YAML with comments and empty documents": "# all\n---\n# none\n---\n"
    + "\n--- # next\n".join(map(json.dumps, PODS)),
}


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES.keys())
def test_shapes_of_dumps(text: str, chunk: int) -> None:
    assert _names(text.encode(), chunk) == ["a", "b", "c"]


DEEP = "[" * 99999 + "]" * 99999
FIRST, LAST = json.dumps(PODS[0]), json.dumps(PODS[2])

MALFORMED = {
    "container list is a string": json.dumps(_list([PODS[0], _pod("x", containers="y"), PODS[2]])),
    "security context is a list": json.dumps(
        _list([PODS[0], _pod("x", containers=[{"name": "y", "securityContext": [1]}]), PODS[2]]), indent=4
    ),
    "item is a number": json.dumps(_list([PODS[0], 1, PODS[2]])),
    "item is null": json.dumps(_list([PODS[0], None, PODS[2]])),
    "item is a list": json.dumps(_list([PODS[0], [], PODS[2]])),
    "item is no Kubernetes object": json.dumps(_list([PODS[0], {"a": 1}, PODS[2]])),
    "kind is a number": json.dumps(_list([PODS[0], {"kind": 1}, PODS[2]])),
    "item is not JSON": f'{{"items": [{json.dumps(PODS[0])}, {{"kind": Pod}}, {json.dumps(PODS[2])}]}}',
    "quantity is a list": json.dumps(_list([PODS[0], _pod("x", overhead={"cpu": [1]}), PODS[2]])),
    "item of a YAML list": f"kind: List\nitems:\n- {FIRST}\n- 1\n- {LAST}\n",
    "item of a list whose kind comes last": json.dumps(
        {"items": [{"spec": PODS[0]["spec"], "metadata": {"name": "a"}}, {}, PODS[2]], "kind": "PodList"}
    ),
    "custom object that asks for a GPU nobody knows where": json.dumps(
        _list(
            [
                PODS[0],
                {"kind": "X", "spec": {"model": {"resources": {"limits": {"nvidia.com/gpu": 1}}}}},
                PODS[2],
            ]
        )
    ),
    "line is cut off": f'{json.dumps(PODS[0])}\n{{"kind": "Pod", "metadata": {{"na\n{json.dumps(PODS[2])}\n',
    "line is not JSON": f"{json.dumps(PODS[0])}\n{{kind: Pod}}\n{json.dumps(PODS[2])}\n",
    "document is not YAML": f"---\n{json.dumps(PODS[0])}\n---\n[1,\n---\n{json.dumps(PODS[2])}\n",
    "a key twice in JSON": f'{FIRST}{{"spec": {{"containers": []}}, "spec": {{"containers": []}}}}{LAST}',
    "a key twice in YAML": f"{FIRST}\n---\nkind: Pod\nspec: {{containers: []}}\nspec: {{}}\n---\n{LAST}\n",
    "a key twice in YAML, with quotes": f'---\n{FIRST}\n---\n{{kind: Pod, "kind": Service}}\n---\n{LAST}\n',
    "document is a string": f"---\n{json.dumps(PODS[0])}\n---\nhello\n---\n{json.dumps(PODS[2])}\n",
    "document is nested too deeply": f"---\n{FIRST}\n---\n{'[' * 5000}\n---\n{LAST}\n",
    "object is nested too deeply": f'{{"items": [{FIRST}, {{"kind": {DEEP}}}, {LAST}]}}',
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_object_hides_no_other(text: str) -> None:
    assert [name[0] for name in _names(text.encode())] == ["a", "!", "c"]


def _yaml_bomb() -> bytes:
    """Twelve lists, each of nine aliases to the one before: 9^12 nodes once they are followed."""
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 13))]
    return "\n".join(lines).encode()


UNREADABLE = {
    "nothing": b"",
    "space": b" \n",
    "words": b"error: You must be logged in to the server\n",
    "HTML": b"<html><body>502 Bad Gateway</body></html>",
    "a list": b"[]",
    "a number": b"1",
    "an empty object": b"{}",
    "an error of the API": b'{"kind": "Status", "status": "Failure", "message": "forbidden", "code": 403}',
    "a list of no items": b'{"kind": "PodList", "items": null}',
    "a list without items": b'{"kind": "List"}',
    "a table": b'{"kind": "Table", "rows": []}',
    "null": b"null",
    "an event of a watch": b'{"type": "ADDED", "object": {"kind": "Pod"}}',
    "a cut list": json.dumps(_list(PODS)).encode()[:-40],
    "a cut list as kubectl prints it": json.dumps(_list(PODS), indent=4).encode()[:-40],
    "a list and a word": json.dumps(_list(PODS)).encode() + b" x",
    "a list and a cut object": json.dumps(_list(PODS)).encode() + b'\n{"kind":',
    "items that are no list": b'{"items": {}}',
    "garbage behind the items": b'{"items": [], nonsense}',
    "garbage in a member behind the items": b'{"items": [], "metadata": {nonsense}}',
    "a comma too many": b'{"items": [' + json.dumps(PODS[0]).encode() + b",]}",
    "no comma": b'{"items": [' + json.dumps(PODS[0]).encode() + json.dumps(PODS[0]).encode() + b"]}",
    "random bytes": bytes(range(256)),
    "a mark of gzip": b"\x1f\x8b\x08 and no more",
    "cut gzip": gzip.compress(json.dumps(_list(PODS)).encode())[:-20],
    "a YAML bomb": _yaml_bomb(),
    "YAML that contains itself": b"&a [*a]",
    "YAML with a Python object": b"!!python/object/apply:os.system [echo]",
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_unreadable_input_is_exit_2(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump"
    path.write_bytes(data)
    assert gpuledger_audit(str(path)) == 2
    assert capsys.readouterr().err.startswith(f"error: {path}: ")


@pytest.mark.parametrize(
    "encode",
    [
        pytest.param(str.encode, id="UTF-8"),
        pytest.param(lambda text: text.encode("utf-8-sig"), id="UTF-8 with a mark"),
        pytest.param(lambda text: text.encode("utf-16"), id="UTF-16 of PowerShell"),
        pytest.param(lambda text: gzip.compress(text.encode()), id="gzip"),
        pytest.param(
            lambda text: gzip.compress(text[:50].encode()) + gzip.compress(text[50:].encode()),
            id="gzip in parts",
        ),
    ],
)
def test_encodings(encode: Any, tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_bytes(encode(json.dumps(_list(PODS))))
    assert _names(b"".join(read_dump(str(path)))) == ["a", "b", "c"]


@pytest.mark.parametrize("separator", ["\n", "\n---\n"], ids=["JSON", "YAML"])
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda packed: packed + b"junk", id="something behind it"),
        pytest.param(lambda packed: packed + gzip.compress(b"\n" * 999)[:-9], id="a cut member behind it"),
        pytest.param(lambda packed: packed[:-8] + bytes(8), id="a wrong checksum"),
    ],
)
def test_what_was_uncompressed_is_audited_though_the_rest_can_not_be(
    spoil: Any, separator: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dump.gz"
    path.write_bytes(spoil(gzip.compress(separator.join(map(json.dumps, PODS)).encode())))
    assert gpuledger_audit(str(path)) == 2
    output = capsys.readouterr().out
    assert "3 pod(s) audited" in output
    assert output.splitlines()[-1] == "UNKNOWN no finding in what could be read"


def test_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dump"
    path.write_text(json.dumps(_list(PODS)))
    with path.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert gpuledger_audit() == 0
    assert "3 pod(s) audited" in capsys.readouterr().out


def test_the_line_of_a_yaml_document_is_known() -> None:
    text = f"# one\n---\n{json.dumps(PODS[0])}\n---\n\n# two\n{json.dumps(PODS[1])}\n---\n[\n"
    found = [part.line if isinstance(part, Located) else part.message for part in parse_dump([text.encode()])]
    assert [3, 7] == found[:2]
    assert str(found[2]).startswith("document at line 9: not YAML")


def test_what_a_merge_key_brings_is_overridden() -> None:
    text = "x: &x {name: a}\nkind: Pod\nmetadata: {<<: *x, name: b}\nspec: {containers: []}\n"
    assert _names(text.encode()) == ["b"]


def test_a_key_that_stands_twice_is_named() -> None:
    for text, message in {
        '{"kind": "Pod", "spec": {"a": 1, "a": 2, "containers": []}}': "object 1: the key 'a' stands twice",
        "kind: Pod\nspec:\n  a: 1\n  a: 2\n": "document at line 1: not YAML: the key 'a' stands twice"
        ' in "<unicode string>", line 4, column 3',
    }.items():
        assert list(parse_dump([text.encode()])) == [Unreadable(message)]


def test_yaml_reads_timestamps_as_text() -> None:
    meta = "{name: a, creationTimestamp: 2026-01-01T00:00:00Z}"
    text = f"kind: Pod\nmetadata: {meta}\nspec: {{containers: [{{name: a}}]}}\n"
    assert _names(text.encode()) == ["a"]


# ---- kinds ----


def test_workloads_of_a_real_cluster_are_audited_by_their_templates() -> None:
    report = audited((FIXTURES / "kubectl-get-workloads-A.json").read_bytes(), "memory-limit", every_pod=True)
    assert [(judged.pod.kind, judged.pod.workload_kind, judged.pod.name) for judged in report.pods()] == [
        ("Deployment", "Deployment", "llm-server"),
        ("StatefulSet", "StatefulSet", "notebook"),
        ("DaemonSet", "DaemonSet", "node-agent"),
        ("Job", "Job", "finetune"),
        ("Job", "CronJob", "nightly-eval-29934305"),
        ("CronJob", "CronJob", "nightly-eval"),
    ]


def test_a_kind_that_is_no_text_is_told() -> None:
    (found,) = parse_dump([b'{"kind": "\xe9", "items": [{"kind": "Pod"}]}'])
    assert Unreadable("object 1: Invalid UTF-8 encoded string") == found


def test_a_list_of_the_api_with_sorted_keys_is_what_its_kind_says() -> None:
    nodes = json.loads((FIXTURES / "api-nodes.json").read_text())
    text = json.dumps({**nodes, "kind": "NodeList"}, sort_keys=True, indent=2).encode()
    assert {"Node"} == {
        type(found.item).__name__ if isinstance(found, Located) else found.message
        for found in parse_dump([text])
    }


def test_a_node_of_another_group_is_none() -> None:
    assert (
        list(parse_dump([b'{"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": {"name": "n"}}']))
        == []
    )


@pytest.mark.parametrize("value", ["12:30:45", "22:22", "=", "2026-01-01"])
def test_yaml_reads_as_text_what_kubernetes_does(value: str) -> None:
    assert _names(f"kind: Pod\nmetadata: {{name: {value}}}\nspec: {{containers: []}}\n".encode()) == [value]
