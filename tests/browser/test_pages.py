"""The pages in a real browser: what they show, how they keep current, and what they never do."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from browser.chromium import NARROW, WIDE, visit
from browser.stage import Stage
from gpuledger.app.pages.node import render_node_page
from gpuledger.core.model import (
    Gpu,
    GpuReading,
    GpuUuid,
    Memory,
    MigUuid,
    Owner,
    ProcessFacts,
    ProcessUse,
    Workload,
)
from gpuledger.core.snapshot import AttributedProcess, ContainerUse, GpuState, NodeSnapshot, SourceHealth

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from gpuledger.app.pages.markup import Html

pytestmark = pytest.mark.e2e

GIB = 2**30
LIVE_MS = 6000
"""Long enough for the page to fetch itself anew."""
PATHS = ("/", "/node/gpu-h100-1/", "/node/gpu-a100-1/", "/node/gpu-l4-1/", "/node/gpu-t4-1/", "/cluster/")
HOSTILE = (
    "<script>hacked=1</script>",
    '"><img src=x onerror=hacked=1>',
    "' onmouseover='hacked=1",
    "</td></tr></table></script><script>hacked=1</script>",
)


def use(gpu: int, pod: str, gib: int, namespace: str = "ml") -> ContainerUse:
    owner = Owner(namespace, pod, "main", Workload("Job", pod))
    return ContainerUse(_gpu(gpu), MigUuid(""), owner, memory_used=gib * GIB, sm_ratio=0.5, processes=1)


def _gpu(index: int) -> Gpu:
    return Gpu(index, GpuUuid(f"GPU-{index}"))


def page_of(*uses: ContainerUse, gpus: int = 2, node: str = "node-1") -> Html:
    """A node's page on which these are to be seen."""
    states = tuple(
        GpuState(GpuReading(_gpu(index), up=True, info={"model": "H100"}, memory=Memory(80 * GIB, 0, 80 * GIB)))
        for index in range(gpus)
    )
    snapshot = NodeSnapshot(node, taken_at=0.0, gpus=states, containers=uses)
    return render_node_page(node, snapshot, [SourceHealth("nvml", up=True)])


def pods(page: Page) -> list[str]:
    """The pods that can be seen, from above to below."""
    rows = page.locator(".gpu tbody tr:visible")
    return [row.locator("td").nth(1).inner_text() for row in rows.all()]


# ---- as people see it ----


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("path", PATHS)
def test_a_page_of_the_demo_is_readable_at_any_width(
    chromium: Browser, demo: str, path: str, width: int
) -> None:
    with visit(chromium, demo + path, width=width) as page:
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator("#state")).to_have_text("live")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        sizes = page.evaluate(
            "[...document.querySelectorAll('td')].map(cell => parseFloat(getComputedStyle(cell).fontSize))"
        )
        assert min(sizes) >= 12


def test_beneath_each_gpu_are_its_pods_with_bars(chromium: Browser, demo: str) -> None:
    with visit(chromium, f"{demo}/node/gpu-h100-1/") as page:
        cards = page.locator(".gpu")
        assert 8 == cards.count()
        expect(cards.nth(7)).to_contain_text("notebook-bob-0")
        assert cards.nth(0).locator("meter").count() >= 4


def test_mig_devices_have_names_that_people_know(chromium: Browser, demo: str) -> None:
    with visit(chromium, f"{demo}/node/gpu-a100-1/") as page:
        expect(page.locator("main")).to_contain_text("3 · 1g.10gb (GI 7)")
        expect(page.locator("main")).not_to_contain_text("MIG-")


def test_the_first_page_of_the_demo_leads_everywhere(chromium: Browser, demo: str) -> None:
    with visit(chromium, demo) as page:
        for heading, link in (("GPUs of gpu-l4-1", "gpu-l4-1"), ("GPUs of the cluster", "all nodes")):
            page.get_by_role("link", name=link, exact=True).click()
            expect(page.locator("h1")).to_have_text(heading)
            page.go_back()


@pytest.mark.parametrize(("scheme", "brighter"), [("light", "paper"), ("dark", "ink")])
def test_the_page_is_dark_where_people_like_it_so(chromium: Browser, scheme: str, brighter: str) -> None:
    with Stage(page_of(use(0, "train", 10))) as stage, visit(chromium, stage.url, color_scheme=scheme) as page:
        style = page.evaluate(
            "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle(document.body))"
        )
        ink, paper = (sum(map(int, re.findall(r"\d+", colour))) for colour in style)
    assert brighter == ("ink" if ink > paper else "paper")


# ---- live ----


def test_the_page_changes_in_place(chromium: Browser) -> None:
    many = [use(1, f"pod-{number:02}", 1) for number in range(60)]
    with Stage(page_of(use(0, "train-1", 10), *many)) as stage, visit(chromium, stage.url) as page:
        page.evaluate("window.scrollTo(0, 700)")
        page.keyboard.press("/")
        page.evaluate("window.unchanged = document.querySelectorAll('.gpu')[1]")
        looked_at = page.get_by_role("row", name="pod-20")
        before = looked_at.bounding_box()
        assert before

        stage.page = page_of(use(0, "train-2", 12), use(0, "train-3", 1), *many)
        expect(page.locator("main")).to_contain_text("train-3", timeout=LIVE_MS)

        assert ["train-2", "train-3", "pod-00"] == pods(page)[:3]
        assert looked_at.bounding_box() == pytest.approx(before, abs=1)
        expect(page.get_by_role("searchbox")).to_be_focused()
        assert page.evaluate("window.unchanged === document.querySelectorAll('.gpu')[1]")


def test_gpus_and_rows_may_come_and_go(chromium: Browser) -> None:
    with Stage(page_of(use(0, "a", 1), use(1, "b", 1))) as stage, visit(chromium, stage.url) as page:
        stage.page = page_of(use(2, "c", 1), gpus=3)
        expect(page.locator(".gpu")).to_have_count(3, timeout=LIVE_MS)
        assert ["c"] == pods(page)

        stage.page = render_node_page("node-1", None, [SourceHealth("nvml", up=False, error="no driver")])
        expect(page.locator("main")).to_contain_text("no driver", timeout=LIVE_MS)
        assert 0 == page.locator(".gpu").count()


def test_an_exporter_that_is_away_is_told_and_found_again(chromium: Browser) -> None:
    with Stage(page_of(use(0, "train", 10))) as stage:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(stage.url)
        stage.stop()
        expect(page.locator("#state")).to_contain_text("no answer for", timeout=LIVE_MS)
        assert ["train"] == pods(page)

        stage.page = page_of(use(0, "later", 10))
        stage.start()
        expect(page.locator("#state")).to_have_text("live", timeout=2 * LIVE_MS)
        assert ["later"] == pods(page)
        context.close()


def test_without_javascript_the_page_loads_itself_anew(chromium: Browser) -> None:
    with (
        Stage(page_of(use(0, "train", 10))) as stage,
        visit(chromium, stage.url, java_script_enabled=False) as page,
    ):
        assert ["train"] == pods(page)
        stage.page = page_of(use(0, "later", 10))
        expect(page.locator("main")).to_contain_text("later", timeout=10_000)


# ---- filter and order ----


def test_the_filter_leaves_what_matches_all_its_words_also_after_news(chromium: Browser) -> None:
    uses = (use(0, "train", 10), use(0, "chat", 5, "web"), use(1, "chat", 5, "web"))
    with Stage(page_of(*uses)) as stage, visit(chromium, stage.url) as page:
        page.keyboard.press("/")
        page.keyboard.type("WEB gpu 1")
        assert ["chat"] == pods(page)
        assert 1 == page.locator("section:visible").count()

        stage.page = page_of(*uses, use(1, "new", 1, "web"), use(1, "other", 1))
        expect(page.locator(".gpu").nth(1)).to_contain_text("other", timeout=LIVE_MS)
        assert ["chat", "new"] == pods(page)

        page.get_by_role("searchbox").fill("")
        assert 5 == len(pods(page))


def test_a_click_or_a_key_on_a_columns_name_sorts_by_it_and_stays(chromium: Browser) -> None:
    uses = [use(0, "a", 9), use(0, "b", 10), use(0, "c", 1), replace(use(0, "d", 0), memory_used=None)]
    with Stage(page_of(*uses)) as stage, visit(chromium, stage.url) as page:
        memory = page.locator(".gpu th", has_text="Memory").first
        memory.click()
        assert ["b", "a", "c", "d"] == pods(page)
        assert "descending" == memory.get_attribute("aria-sort")
        memory.press("Enter")
        assert ["c", "a", "b", "d"] == pods(page)

        stage.page = page_of(*uses, use(0, "e", 5))
        expect(page.locator("main")).to_contain_text("e", timeout=LIVE_MS)
        expect(page.locator(".gpu tbody tr")).to_have_count(5, timeout=LIVE_MS)
        assert ["c", "e", "a", "b", "d"] == pods(page)
        expect(memory).to_be_focused()

        memory.press("Enter")
        expect(page.locator(".gpu tbody tr").first).to_contain_text("a", timeout=LIVE_MS)
        assert ["a", "b", "c", "d", "e"] == pods(page)


# ---- names that would like to be more ----


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_they_are(chromium: Browser, name: str) -> None:
    owner = Owner(name, name, name, Workload(name, name))
    snapshot = NodeSnapshot(
        name,
        taken_at=0.0,
        gpus=(GpuState(GpuReading(_gpu(0), up=True, info={"model": name})),),
        containers=(ContainerUse(_gpu(0), MigUuid(""), owner),),
        processes=(AttributedProcess(_gpu(0), ProcessUse(7, 1), owner, ProcessFacts(7, name=name)),),
    )
    html = render_node_page(name, snapshot, [SourceHealth("nvml", up=False, error=name)])
    with Stage(page_of(use(0, "harmless", 1))) as stage, visit(chromium, stage.url) as page:
        stage.page = html
        expect(page.locator(".gpu td").nth(1)).to_have_text(name, timeout=LIVE_MS)
        page.reload()
        page.get_by_role("searchbox").fill(name)
        page.mouse.move(200, 200)

        assert [name] == pods(page)
        assert f"GPUs of {name}" == page.locator("h1").text_content()
        assert "undefined" == page.evaluate("typeof hacked")


def test_a_script_that_got_into_the_page_would_not_run(chromium: Browser) -> None:
    with Stage(page_of(use(0, "train", 10))) as stage:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(stage.url)
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {textContent: 'hacked = 1'}))"
        )
        assert "undefined" == page.evaluate("typeof hacked")
        context.close()
