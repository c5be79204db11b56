"""The pages for people: well-formed, of one piece, and safe whatever names are in it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser

import pytest

from gpuledger.app.cluster.books import Overview
from gpuledger.app.cluster.devicebook import PoolStock
from gpuledger.app.cluster.podintake import Queued
from gpuledger.app.pages.amounts import age
from gpuledger.app.pages.cluster import render_cluster_page
from gpuledger.app.pages.markup import HEADERS
from gpuledger.app.pages.node import render_node_page
from gpuledger.audit.inventory import QuotaInventory
from gpuledger.core.inventory import NodeStock
from gpuledger.core.model import (
    Gpu,
    GpuReading,
    GpuUuid,
    Memory,
    MigDevice,
    MigUuid,
    Owner,
    Pod,
    PodContainer,
    PodUid,
    ProcessFacts,
    ProcessUse,
    Termination,
    Unattributed,
    Workload,
)
from gpuledger.core.snapshot import (
    AttributedProcess,
    ContainerUse,
    GpuState,
    NodeSnapshot,
    RuntimeFinding,
    SourceHealth,
    UnattributedUse,
    XidAccount,
)
from gpuledger.parse.manifests import Node
from gpuledger.parse.objectmeta import ObjectMeta

GIB = 2**30
NOW = 1_767_225_600.0
WHOLE, DIVIDED, LOST = (Gpu(number, GpuUuid(f"GPU-{number}")) for number in range(3))
MIG, FREE = MigUuid("MIG-0"), MigUuid("MIG-1")
OWNER = Owner("ml", "train-0", "main", Workload("Deployment", "train", inferred=True))
READING = GpuReading(
    WHOLE,
    up=True,
    info={"model": "NVIDIA H100 80GB HBM3"},
    memory=Memory(80 * GIB, 61 * GIB, 19 * GIB),
    values={
        "gpu_utilization_ratio": {(): 0.874},
        "gpu_temperature_celsius": {("gpu",): 61.0},
        "gpu_power_watts": {(): 312.4},
        "gpu_power_limit_watts": {(): 700.0},
        "gpu_throttled": {("idle",): 0.0, ("hw_thermal_slowdown",): 1.0},
        "gpu_row_remap_pending": {(): 1.0},
    },
)
PARTS = (
    MigDevice(MIG, "1g.10gb", 7, 0, Memory(10 * GIB, 5 * GIB, 5 * GIB)),
    MigDevice(FREE, "2g.20gb", 11, 0, Memory(20 * GIB, 0, 20 * GIB)),
)
POD = Pod(
    PodUid("uid"),
    "ml",
    "train-0",
    phase="Running",
    created_at=NOW - 3 * 86_400,
    containers=(
        PodContainer("init", "init"),
        PodContainer("main", restarts=4, last_terminated=Termination("OOMKilled", 137)),
    ),
)
SNAPSHOT = NodeSnapshot(
    "gpu-node-1",
    taken_at=NOW,
    gpus=(
        GpuState(READING),
        GpuState(GpuReading(DIVIDED, up=True, mig_devices=PARTS)),
        GpuState(GpuReading(LOST, up=False)),
    ),
    containers=(
        ContainerUse(
            WHOLE,
            MigUuid(""),
            OWNER,
            memory_used=60 * GIB,
            sm_ratio=0.87,
            processes=2,
            allocated={"nvidia.com/gpu": 1},
        ),
        ContainerUse(DIVIDED, MIG, Owner("ml", "quiet", "")),
        ContainerUse(WHOLE, MigUuid(""), Owner("ml", "ended", "main"), active=False, sm_seconds=5.0),
    ),
    processes=(
        AttributedProcess(WHOLE, ProcessUse(7, 60 * GIB), OWNER, ProcessFacts(7, name="python"), 0.87),
        AttributedProcess(DIVIDED, ProcessUse(9, None, MIG), Unattributed("host", "ollama.service")),
    ),
    unattributed=(
        UnattributedUse(DIVIDED, MIG, Unattributed("host", "ollama.service"), memory_used=None, processes=1),
        UnattributedUse(WHOLE, MigUuid(""), Unattributed("driver"), memory_used=GIB),
    ),
    pods=(POD,),
    xids=(XidAccount(WHOLE, 31, 3, NOW - 60, (OWNER,)), XidAccount(LOST, 99_999, 1, NOW)),
    findings=(RuntimeFinding("rt-use-without-request", "critical", OWNER),),
)
HEALTH = [
    SourceHealth("nvml", up=True, last_success=NOW - 1),
    SourceHealth("kube", up=False, failures=3, error="403: forbidden; see RBAC"),
]
OVERVIEW = Overview(
    stocks=(
        (
            Node(metadata=ObjectMeta(name="gpu-node-1", labels={"nvidia.com/gpu.product": "H100"})),
            NodeStock(
                capacity={"cpu": Decimal(64), "nvidia.com/gpu": Decimal(8)},
                allocatable={"cpu": Decimal(64), "nvidia.com/gpu": Decimal(7)},
                requested={"nvidia.com/gpu": Decimal(8)},
                open=True,
            ),
        ),
    ),
    pools=(PoolStock("gpu.nvidia.com", "pool-1", ("gpu-node-2",), 4, 3),),
    queued=(Queued("ml", "big-0", "insufficient-gpu", NOW - 7200), Queued("ml", "new-0", "queued", None)),
    quotas=(QuotaInventory("ml", "gpus", "requests.nvidia.com/gpu", Decimal(8), Decimal(6)),),
    affected={
        ("ml", "Job", "low", "run-as-non-root", "low"): 9,
        ("ml", "Pod", "shell", "gpu-privileged", "critical"): 1,
    },
)
VOID = {"meta", "link", "br", "hr", "img", "input"}
ATTRIBUTES = {
    "lang", "charset", "name", "content", "http-equiv", "class", "href", "id", "role", "scope", "min", "max",
    "value", "data-sort", "data-kind", "data-label",
}  # fmt: skip
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</td></tr></table>",
    "</script><script>alert(1)</script>",
    "&lt;b&gt;",
    "\x1b[31m\n",
    "\udcff",
    "ジョブ",
]


class Document(HTMLParser):
    """A page taken apart: its tables by heading, its links, and a failure where tags do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = defaultdict(list)
        self.headings: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self._open: list[str] = []
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
            self.headings.append("")
        elif tag == "tr":
            self.tables[self.headings[-1]].append([])
        elif tag in ("td", "th"):
            self.tables[self.headings[-1]][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert tag == self._open.pop()

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self._open):
            self.text += data
        if "h2" in self._open:
            self.headings[-1] += data
        elif {"td", "th"} & set(self._open):
            self.tables[self.headings[-1]][-1][-1] += data

    def rows(self, heading: str) -> list[list[str]]:
        """The table under the heading that begins so, without its head, and cells without space around them."""
        (found,) = (rows for title, rows in self.tables.items() if title.startswith(heading))
        return [[cell.strip() for cell in row] for row in found[1:]]


def page(snapshot: NodeSnapshot | None = SNAPSHOT) -> Document:
    return Document(render_node_page("gpu-node-1", snapshot, HEALTH))


def cluster_page(overview: Overview | None = OVERVIEW) -> Document:
    return Document(render_cluster_page(overview, HEALTH, NOW))


# ---- the node's page ----


def test_beneath_each_gpu_is_who_is_on_it() -> None:
    document = page()

    assert [
        ["ml", "train-0 rt-use-without-request", "87%", "60.0 GiB", "0/1", "Running", "4 (OOMKilled 137)", "3d",
         "2", "1 gpu", "main", "Deployment/train (inferred)"],
        ["no pod", "driver", "", "1.0 GiB", "", "", "", "", "n/a", "", "", ""],
    ] == document.rows("GPU 0")  # fmt: skip
    assert "61.0 GiB of 80.0 GiB" in document.text
    assert "312 W of 700" in document.text


def test_a_mig_device_is_shown_by_its_profile_and_instance_also_when_nobody_is_on_it() -> None:
    small, large = "1 · 1g.10gb (GI 7)", "1 · 2g.20gb (GI 11)"

    assert [
        [small, "ml", "quiet", *["n/a"] * 7, "not allocated", "n/a", "n/a"],
        [small, "no pod", "host: ollama.service", "", "n/a", "", "", "", "", "1", "", "", ""],
        [large, "free", "", "", "0.0 GiB", *[""] * 8],
    ] == page().rows("GPU 1")


def test_what_is_wrong_with_a_gpu_stands_beside_its_name() -> None:
    first, _, lost = (heading for heading in page().headings if heading.startswith("GPU "))

    assert "clocks held down: hw thermal slowdown" in first
    assert "a memory row waits to be replaced" in first
    assert "lost: the driver doesn't reach it" in lost


def test_processes_errors_and_sources_are_to_be_seen() -> None:
    document = page()

    assert [
        ["0", "7", "python", "ml/train-0 main", "87%", "60.0 GiB"],
        ["1 · 1g.10gb (GI 7)", "9", "n/a", "host ollama.service", "n/a", "n/a"],
    ] == document.rows("Processes")
    unknown, known = document.rows("Driver errors")
    assert ["2", "99999", "n/a", "1", "00:00:00", "n/a"] == unknown
    assert ["0", "31", "3", "23:59:00", "ml/train-0 main"] == [*known[:2], *known[3:]]
    assert len(known[2]) > 10
    assert [
        ["nvml", "up", "23:59:59", "0", ""],
        ["kube", "down", "n/a", "3", "403: forbidden; see RBAC"],
    ] == document.rows("Sources of evidence")


def test_the_page_says_of_when_it_is() -> None:
    assert "2026-01-01 00:00:00 UTC" in page().text


def test_without_a_snapshot_the_sources_say_why() -> None:
    document = page(snapshot=None)

    assert "no reading yet" in document.text
    assert ["Sources of evidence"] == document.headings


def test_an_empty_node_says_so_instead_of_showing_empty_tables() -> None:
    empty = NodeSnapshot("gpu-node-1", taken_at=0.0)

    assert "The driver shows no GPU." in page(empty).text
    assert ["Sources of evidence"] == list(page(empty).tables)
    silent = Document(render_node_page("gpu-node-1", empty, [SourceHealth("nvml", up=False)]))
    assert "The driver does not answer" in silent.text


# ---- the cluster's page ----


def test_the_cluster_shows_what_is_free_who_waits_and_who_breaks_rules() -> None:
    document = cluster_page()

    assert [["gpu-node-1", "H100", "open", "nvidia.com/gpu", "8", "-1", "7", "8"]] == document.rows("Nodes")
    assert [["gpu-node-2", "gpu.nvidia.com", "pool-1", "3", "1", "4"]] == document.rows("Devices by claim")
    assert [
        ["ml", "big-0", "insufficient-gpu", "120m"],
        ["ml", "new-0", "queued", "n/a"],
    ] == document.rows("Waiting for GPUs")
    assert [["ml", "gpus", "requests.nvidia.com/gpu", "6", "8"]] == document.rows("Quotas")
    assert [
        ["critical", "gpu-privileged", "ml", "Pod/shell", "1"],
        ["low", "run-as-non-root", "ml", "Job/low", "9"],
    ] == document.rows("Broken rules")
    assert "Broken rules 1 critical, 1 low" in document.headings


def test_of_very_many_rows_the_page_shows_the_first_and_says_so() -> None:
    many = {("ml", "Job", f"job-{number}", "run-as-non-root", "low"): 1 for number in range(1234)}
    document = cluster_page(replace(OVERVIEW, affected=many))

    assert 200 == len(document.rows("Broken rules"))
    assert "Broken rules 1234 low; the first 200 of 1,234" in document.headings


@pytest.mark.parametrize(
    ("down", "doubtful"),
    [
        ("pods", {"Nodes", "Waiting for GPUs", "Broken rules"}),
        ("resourcequotas", {"Quotas"}),
        ("resourceclaims", {"Devices by claim", "Broken rules"}),
        ("policy", {"Broken rules"}),
        ("events", set()),
    ],
)
def test_what_rests_on_a_source_that_is_down_says_how_old_it_is(down: str, doubtful: set[str]) -> None:
    health = [SourceHealth(down, up=False, last_success=NOW - 600), SourceHealth("nodes", up=True)]
    headings = Document(render_cluster_page(OVERVIEW, health, NOW)).headings
    assert doubtful == {
        each.partition(f" as of 10m ago: {down} down")[0] for each in headings if "as of" in each
    }


def test_nothing_is_no_good_news_from_a_source_that_never_answered() -> None:
    health = [SourceHealth("resourcequotas", up=False)]
    document = Document(render_cluster_page(replace(OVERVIEW, quotas=()), health, NOW))
    assert "Quotas not complete: resourcequotas down" in document.headings
    assert "None is known." in document.text
    assert "There is no quota" not in document.text


# ---- any page ----


@pytest.mark.parametrize("document", [page(), cluster_page()], ids=["node", "cluster"])
def test_every_row_has_a_cell_for_every_column(document: Document) -> None:
    for heading, (head, *rows) in document.tables.items():
        assert [len(head)] * len(rows) == [len(row) for row in rows], heading


@pytest.mark.parametrize("document", [page(), cluster_page()], ids=["node", "cluster"])
def test_a_page_is_of_one_piece(document: Document) -> None:
    assert all("/" not in link for link in document.links)
    assert document.tags.isdisjoint({"img", "iframe", "link", "object", "form"})


def test_nothing_but_the_pages_own_style_and_script_may_do_anything() -> None:
    policy = dict(each.strip().partition(" ")[::2] for each in HEADERS["Content-Security-Policy"].split(";"))
    html = render_node_page("gpu-node-1", SNAPSHOT, HEALTH)

    assert "'none'" == policy["default-src"]
    assert "'self'" == policy["connect-src"]
    for tag in ("style", "script"):
        (own,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"'sha256-{digest}'" == policy[f"{tag}-src"]
        assert "url(" not in own


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_nothing_but_text(name: str) -> None:
    owner = Owner(name, name, name, Workload(name, name))
    snapshot = replace(
        SNAPSHOT,
        gpus=(GpuState(replace(READING, info={"model": name})),),
        containers=(ContainerUse(WHOLE, MigUuid(""), owner, allocated={name: 1}),),
        processes=(AttributedProcess(WHOLE, ProcessUse(7, 1), owner, ProcessFacts(7, name=name)),),
        unattributed=(UnattributedUse(WHOLE, MigUuid(""), Unattributed("host", name)),),
        pods=(),
        xids=(),
        findings=(),
    )

    document = Document(render_node_page(name, snapshot, [SourceHealth(name, up=False, error=name)]))

    (row, host) = document.tables[f"GPU 0 {name} " + document.headings[0].partition(f"{name} ")[2]][1:]
    assert [name, name, name, f"{name}/{name}"] == [*row[:2], *row[10:12]]
    assert f"host: {name}" == host[1]
    assert [name, "down", "n/a", "0", name] == document.tables["Sources of evidence"][1]
    assert document.tags <= page().tags


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "n/a"), (-3, "0s"), (119, "119s"), (120, "2m"), (10_799, "179m"), (10_800, "3h"), (172_800, "2d")],
)
def test_ages_are_shown_as_kubectl_does(seconds: float | None, expected: str) -> None:
    assert expected == age(seconds)
