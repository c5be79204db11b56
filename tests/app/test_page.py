"""The page for people: well-formed, of one piece, and safe whatever names are in it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from gpuledger.app.page import render_page
from gpuledger.app.site import PAGE_HEADERS
from gpuledger.core.model import (
    Gpu,
    GpuReading,
    GpuUuid,
    Memory,
    MigUuid,
    Owner,
    ProcessFacts,
    ProcessUse,
    Unattributed,
    Workload,
)
from gpuledger.core.snapshot import (
    AttributedProcess,
    ContainerUse,
    GpuState,
    NodeSnapshot,
    SourceHealth,
    UnattributedUse,
)

GIB = 2**30
GPU, LOST = Gpu(0, GpuUuid("GPU-0")), Gpu(1, GpuUuid("GPU-1"))
MIG = MigUuid("MIG-0")
OWNER = Owner("ml", "train-0", "main", Workload("Deployment", "train", inferred=True))
READING = GpuReading(
    GPU,
    up=True,
    info={"model": "NVIDIA H100 80GB HBM3"},
    memory=Memory(80 * GIB, 61 * GIB, 19 * GIB),
    values={
        "gpu_utilization_ratio": {(): 0.874},
        "gpu_temperature_celsius": {("gpu",): 61.0},
        "gpu_power_watts": {(): 312.4},
    },
)
SNAPSHOT = NodeSnapshot(
    "gpu-node-1",
    taken_at=1_767_225_600.0,
    gpus=(GpuState(READING), GpuState(GpuReading(LOST, up=False))),
    containers=(
        ContainerUse(
            GPU,
            MigUuid(""),
            OWNER,
            memory_used=60 * GIB,
            sm_ratio=0.87,
            processes=2,
            allocated={"nvidia.com/gpu": 1},
        ),
        ContainerUse(GPU, MIG, Owner("ml", "quiet", "")),
        ContainerUse(GPU, MigUuid(""), Owner("ml", "ended", "main"), active=False, sm_seconds=5.0),
    ),
    processes=(
        AttributedProcess(GPU, ProcessUse(7, 60 * GIB), OWNER, ProcessFacts(7, name="python"), 0.87),
        AttributedProcess(GPU, ProcessUse(9, None, MIG), Unattributed("host", "ollama.service")),
    ),
    unattributed=(
        UnattributedUse(GPU, MIG, Unattributed("host", "ollama.service"), memory_used=None, processes=1),
        UnattributedUse(GPU, MigUuid(""), Unattributed("driver"), memory_used=GIB),
    ),
)
HEALTH = [
    SourceHealth("nvml", up=True, last_success=1_767_225_599.0),
    SourceHealth("kube", up=False, failures=3, error="403: forbidden; see RBAC"),
]
VOID = {"meta", "link", "br", "hr", "img", "input"}
ATTRIBUTES = {"lang", "charset", "name", "content", "http-equiv", "class", "href"}


class Document(HTMLParser):
    """A page taken apart: its tables by heading, its links, and a failure where tags do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = defaultdict(list)
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self._open: list[str] = []
        self._heading = ""
        self.feed(page)
        self.close()
        assert [] == self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert ATTRIBUTES >= {name for name, _ in attrs}, attrs
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        if tag not in VOID:
            self._open.append(tag)
        if tag == "h2":
            self._heading = ""
        elif tag == "tr":
            self.tables[self._heading].append([])
        elif tag in ("td", "th"):
            self.tables[self._heading][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert tag == self._open.pop()

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text += data
        if "h2" in self._open:
            self._heading += data
        elif self._open[-1:] in (["td"], ["th"]):
            self.tables[self._heading][-1][-1] += data


def page(snapshot: NodeSnapshot | None = SNAPSHOT) -> Document:
    return Document(render_page("gpu-node-1", snapshot, HEALTH))


def test_who_is_on_which_gpu_is_to_be_seen() -> None:
    tables = page().tables

    assert tables["GPUs"][1:] == [
        ["0", "NVIDIA H100 80GB HBM3", "87%", "61.0 GiB of 80.0 GiB", "61 °C", "312 W", "GPU-0"],
        ["1", "lost", "n/a", "n/a", "n/a", "n/a", "GPU-1"],
    ]
    assert tables["Containers"][1:] == [
        ["0 MIG-0", "ml", "quiet", "n/a", "n/a", "n/a", "n/a", "n/a", "not allocated"],
        *[
            [
                "0",
                "ml",
                "train-0",
                "main",
                "Deployment/train (inferred)",
                "87%",
                "60.0 GiB",
                "2",
                "1 of nvidia.com/gpu",
            ]
        ],
    ]
    assert tables["Used by nobody known"][1:] == [
        ["0", "driver", "", "1.0 GiB", "n/a"],
        ["0 MIG-0", "host", "ollama.service", "n/a", "1"],
    ]
    assert tables["Processes"][1:] == [
        ["0", "7", "python", "ml/train-0 main", "87%", "60.0 GiB"],
        ["0 MIG-0", "9", "n/a", "host ollama.service", "n/a", "n/a"],
    ]
    assert tables["Sources of evidence"][1:] == [
        ["nvml", "up", "23:59:59", "0", ""],
        ["kube", "down", "n/a", "3", "403: forbidden; see RBAC"],
    ]


def test_every_row_has_a_cell_for_every_column() -> None:
    for heading, (head, *rows) in page().tables.items():
        assert [len(head)] * len(rows) == [len(row) for row in rows], heading


def test_the_page_says_of_when_it_is() -> None:
    assert "2026-01-01 00:00:00 UTC" in page().text


def test_without_a_snapshot_the_sources_say_why() -> None:
    document = page(snapshot=None)

    assert "no reading yet" in document.text
    assert ["Sources of evidence"] == list(document.tables)


def test_an_empty_node_says_so_instead_of_showing_empty_tables() -> None:
    document = page(NodeSnapshot("gpu-node-1", taken_at=0.0))

    assert "The driver shows no GPU." in document.text
    assert ["Sources of evidence"] == list(document.tables)


def test_the_page_is_of_one_piece() -> None:
    document = page()

    assert ["metrics", "healthz"] == document.links
    assert document.tags.isdisjoint({"script", "img", "iframe", "link", "object", "form"})
    assert "url(" not in render_page("gpu-node-1", SNAPSHOT, HEALTH)
    assert PAGE_HEADERS["Content-Security-Policy"].startswith("default-src 'none';")


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "' onmouseover='alert(1)",
        "</td></tr></table>",
        "&lt;b&gt;",
        "\x1b[31m\n",
        "\udcff",
        "ジョブ",
    ],
)
def test_hostile_names_are_nothing_but_text(name: str) -> None:
    owner = Owner(name, name, name, Workload(name, name))
    snapshot = replace(
        SNAPSHOT,
        gpus=(GpuState(replace(READING, info={"model": name})),),
        containers=(ContainerUse(GPU, MigUuid(name), owner, allocated={name: 1}),),
        processes=(AttributedProcess(GPU, ProcessUse(7, 1), owner, ProcessFacts(7, name=name)),),
        unattributed=(UnattributedUse(GPU, MigUuid(name), Unattributed("host", name)),),
    )

    document = Document(render_page(name, snapshot, [SourceHealth(name, up=False, error=name)]))

    assert document.tables["Containers"][1][1:5] == [name, name, name, f"{name}/{name}"]
    assert document.tables["Sources of evidence"][1] == [name, "down", "n/a", "0", name]
    assert document.tags == page().tags
