"""The whole graph: its data are the program's; it is drawn, zoomed and searched; a program of 10,000 operators, too."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from repops.opset import Dtype

from assay_explorer.layers import WIDEST, layers, places
from assay_explorer.published import RunPages
from assay_explorer.whole_graph import MAX_BESIDE, MAX_GROUP, MAX_WHOLE, WholeGraph
from referee_py.program import Kind, Operand, Structure, TensorType
from referee_py.program.describe import Names
from tests.support.browser import NEEDS_CHROMIUM, chromium, violations
from tests.trainer_node.cli.growing import growing

from .conftest import MAX_BYTES, Played, served
from .gallery import run_of
from .test_pages import get
from .test_strangers import expect_safe, hostile

NODES = 10_000
ROW = TensorType(Dtype.F32, (4, 4))


def long_program(count: int, modules: int) -> WholeGraph:
    """Return a program whose operators read ones shortly before, and one that all read. ``modules``: how many names."""
    draw = random.Random(7)
    nodes = [Structure.make("full", (), (ROW,), dtype=Dtype.F32, shape=(4, 4), bits=0)]
    for number in range(1, count):
        near = Operand(Kind.NODE, max(0, number - draw.randrange(1, 30)))
        far = Operand(Kind.NODE, 0 if number % 3 else number - 1)
        nodes.append(Structure.make("add", (near, far), (ROW,)))
    words = hostile(modules) if modules else []
    labels = tuple(f"{words[k * modules // count]}: call" for k in range(count)) if modules else ()
    return WholeGraph(replace(growing(4, (2, 1)).program, nodes=tuple(nodes)), Names(nodes=labels))


def edges_of(graph: WholeGraph) -> set[tuple[int, int]]:
    return {(source, node) for node in range(graph.count) for source in graph.sources(node)}


def test_who_reads_stands_below_what_it_reads() -> None:
    draw = random.Random(3)
    sources = [
        [*{draw.randrange(node) for _ in range(draw.randrange(4))}] if node else [] for node in range(500)
    ]
    level = {node: k for k, layer in enumerate(layers(sources)) for node in layer}
    assert all(level[read] < level[node] for node, reads in enumerate(sources) for read in reads)
    at = places(sources)
    assert len({*at}) == len(sources), "no two at one place"
    columns = {x // 1 for x, _ in at}
    assert len({y for _, y in at}) < len(sources)
    assert max(columns) - min(columns) < 3 * (max(y for _, y in at) + 1), "a sheet, and no line"
    assert max(sum(y == row and x < 700 for x, y in at) for row in {y for _, y in at}) <= 2 * WIDEST
    assert places([]) == []
    assert places([[5, 0]]) == [(0, 0)], "what is not before it does not count"


def test_a_picture_has_every_operator_and_every_edge() -> None:
    graph = long_program(300, 20)
    told = json.loads(graph.picture(None))
    assert [row[0] for row in told["nodes"]] == [*range(300)]
    assert {tuple(edge) for edge in told["edges"]} == edges_of(graph)
    assert told["left_out"] == 0
    for number, group in enumerate(graph.groups):
        told = json.loads(graph.picture(number))
        inside = {row[0] for row in told["nodes"] if "beside" not in row[5]}
        assert inside == {*group.nodes}
        beside = {a if b in inside else b for a, b in edges_of(graph) if (a in inside) != (b in inside)}
        shown = {row[0] for row in told["nodes"]} - inside
        assert (shown, told["left_out"]) == ({*sorted(beside)[:MAX_BESIDE]}, max(0, len(beside) - MAX_BESIDE))
        kept = inside | shown
        assert {tuple(e) for e in told["edges"]} == {e for e in edges_of(graph) if {*e} <= kept}


@pytest.mark.parametrize("modules", [0, 3, 3000])
def test_a_program_of_ten_thousand_operators_is_shown_by_group(modules: int) -> None:
    graph = long_program(NODES, modules)
    began = time.process_time()
    data = graph.picture(None)
    print(f"{modules} modules: {time.process_time() - began:.2f} s, {len(data):,} bytes")
    told = json.loads(data)
    assert graph.by_group
    assert sorted(node for group in graph.groups for node in group.nodes) == [*range(NODES)]
    assert max(len(group.nodes) for group in graph.groups) <= MAX_GROUP
    assert len(told["nodes"]) == len(graph.groups)
    of = graph.group_of
    assert {tuple(edge) for edge in told["edges"]} == {
        (of[a], of[b]) for a, b in edges_of(graph) if of[a] != of[b]
    }
    assert all(node in graph.groups[of[node]].nodes for node in range(0, NODES, 97))
    assert len(data) < 600_000
    assert max(len(graph.picture(number)) for number in range(0, len(graph.groups), 40)) < 120_000
    assert not long_program(MAX_WHOLE, 3).by_group


def test_pages_of_a_long_program_are_small_and_safe(tmp_path: Path) -> None:
    bundle = growing(12, (2, 1))
    pages = RunPages(str(run_of(bundle, tmp_path / "run")), tmp_path / "pages", bundles=[bundle])
    pages._graph = long_program(NODES, 3000)
    for given in (
        (None, "", None),
        (5000, "", None),
        (None, "add", None),
        (None, "no such", None),
        (None, "", 7),
    ):
        page = pages.whole(*given)
        expect_safe(page)
        assert len(page.encode()) <= MAX_BYTES, given
    with served(pages) as site:
        assert httpx.get(f"{site}/graph.json?group=7").json()["nodes"]
        get(site, "/graph.json?group=99999", 404)
        get(site, "/graph?node=10000", 404)
        get(site, "/graph?group=-1", 404)
    with served(RunPages(str(tmp_path / "run"), tmp_path / "pages")) as site:
        assert "add --bundle" in get(site, "/graph", 404).text
        get(site, "/graph.json", 404)


def test_the_graph_of_a_dispute_marks_its_operator(tried: Played) -> None:
    pages, job, match = tried.pages(), tried.arena.job_id, hex(tried.match)
    with served(pages) as site:
        page = httpx.get(f"{site}{tried.path}/graph")
        assert 'data-disputed="5"' in page.text
        told = httpx.get(f"{site}{tried.path}/graph.json").json()
        assert len(told["nodes"]) == len(tried.bundle.program.nodes)
        assert f'{tried.path}/graph?node=5">The whole graph' in httpx.get(f"{site}{tried.path}/operator").text
    found = pages.whole(job, match, 5, "", None)
    assert "Operator 5, mm" in found
    assert f'{tried.path}/operator?node=5">' in found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("graph")
    bundle = growing(12, (2, 1))
    pages = RunPages(str(run_of(bundle, folder / "run")), folder / "pages", bundles=[bundle])
    pages._graph = long_program(300, 20)
    with served(pages) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


def opened(browser: Any, address: str, width: int = 1200, **more: Any) -> tuple[Any, list[str]]:
    page = browser.new_context(viewport={"width": width, "height": 900}, **more).new_page()
    complaints = list[str]()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    page.wait_for_selector("#graph.ready")
    return page, complaints


def view(page: Any) -> tuple[float, float, float]:
    """Return the zoom of a drawing, and its place."""
    zoom, x, y = map(float, page.locator("#graph").get_attribute("data-view").split())
    return zoom, x, y


@NEEDS_CHROMIUM
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
@pytest.mark.parametrize("path", ["/graph", "/graph?node=150", "/graph?group=3", "/graph?q=add"])
def test_graphs_are_accessible_and_load_nothing_foreign(
    browser: Any, site: str, path: str, width: int, scheme: str
) -> None:
    page, complaints = opened(browser, site + path, width, color_scheme=scheme)
    assert violations(page) == []
    assert complaints == [], "the policy refuses nothing that the library does"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.context.close()


@NEEDS_CHROMIUM
def test_buttons_and_keys_zoom_and_move(browser: Any, site: str) -> None:
    page, _ = opened(browser, f"{site}/graph")
    first = view(page)
    page.get_by_role("button", name="Nearer").click()
    assert view(page)[0] == pytest.approx(1.5 * first[0], abs=2e-3)
    page.locator("#graph").press("+")
    assert view(page)[0] == pytest.approx(2.25 * first[0], abs=2e-3)
    before = view(page)
    page.locator("#graph").press("ArrowDown")
    page.locator("#graph").press("ArrowRight")
    assert view(page) == pytest.approx((before[0], before[1] - 80, before[2] - 80), abs=2e-3)
    page.get_by_role("button", name="Farther").click()
    assert view(page)[0] == pytest.approx(1.5 * first[0], abs=2e-3)
    page.locator("#graph").press("0")
    assert view(page) == first
    page.locator("#graph").hover()
    page.mouse.wheel(0, -200)
    page.wait_for_function(
        "first => document.getElementById('graph').dataset.view.split(' ')[0] > first", arg=first[0]
    )
    page.context.close()


@NEEDS_CHROMIUM
def test_a_search_leads_to_an_operator_in_the_drawing(browser: Any, site: str) -> None:
    page, _ = opened(browser, f"{site}/graph")
    page.get_by_label("Number, operator or label").fill("add")
    page.keyboard.press("Enter")
    page.wait_for_selector("#graph.ready")
    link = page.locator(".hits a").nth(40)
    node = link.inner_text()
    link.click()
    page.wait_for_url(f"**/graph?node={node}")
    page.wait_for_selector("#graph.ready")
    assert page.locator("#picked").inner_text().startswith(f"{node} add")
    box = page.locator("#graph").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator("#picked a").get_attribute("href") == f"/graph?node={node}"
    page.context.close()


@NEEDS_CHROMIUM
def test_the_page_is_of_use_without_script(browser: Any, site: str) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(f"{site}/graph?q=add")
    assert page.locator(".hits a").count() == 100
    assert "needs script" in page.locator("noscript").inner_text()
    page.locator("#groups summary").click()
    page.locator("#groups a").nth(2).click()
    assert "Shown: " in page.locator("#view").inner_text()
    page.context.close()
