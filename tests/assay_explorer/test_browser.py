"""The pages in a browser: with and without script, light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from assay_explorer.chain import Chain, IndexedClient
from assay_explorer.export import export
from assay_explorer.index import Index
from assay_explorer.pages import Pages
from assay_explorer.rendering import Place
from assay_lab.faults import Fault
from tests.conftest import Anvil
from tests.e2e.arena import Arena
from tests.e2e.conftest import bundle as small_bundle  # noqa: F401 # a fixture
from tests.support.browser import NEEDS_CHROMIUM, chromium, confused, violations
from trainer_node.local.bundle import Bundle
from trainer_node.network.fetcher import Fetcher
from trainer_node.storage.store import Store

from .conftest import Played, served
from .test_commands import commands

pytestmark = NEEDS_CHROMIUM
SIZES = {"wide": 1200, "narrow": 360}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


def paths(tried: Played) -> list[str]:
    job, path = f"/job/{tried.arena.job_id}", tried.path
    client = tried.arena.client.snapshot().job(tried.arena.job_id).client
    found = [
        "/?show=open",
        "/?show=disputed",
        f"/account/{client}",
        f"/find?q={tried.match:#066x}",
        "/find?q=none",
    ]
    return ["/", *found, job, path, f"{path}/operator?q=mm", f"{path}/element", f"{path}/proof", "/job/99"]


@pytest.mark.parametrize(("scheme", "size"), [("light", "wide"), ("dark", "narrow")])
def test_no_violation_of_wcag(browser: Any, site: str, tried: Played, scheme: str, size: str) -> None:
    context = browser.new_context(viewport={"width": SIZES[size], "height": 900}, color_scheme=scheme)
    page = context.new_page()
    for path in paths(tried):
        page.goto(site + path)
        assert violations(page) == [], path
        assert confused(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is too wide"
    context.close()


WITHIN = """selector => [...document.querySelectorAll(selector)].filter(one => one.getClientRects().length)
    .map(one => one.getBoundingClientRect()).map(box => [box.left >= 0, box.right <= innerWidth, box.width > 0])"""


@pytest.mark.parametrize(
    ("part", "selector", "least"),
    [
        ("", ".pairs .hash, .side .hash", 12),
        ("/operator", ".node.disputed rect", 1),
        ("/operator", ".modules button, .modules .num", 4),
        ("/operator?q=mm", "#hits ~ .scroll td", 15),
        ("/proof", "[data-command] span", 10),
    ],
)
def test_nothing_is_cut_on_a_narrow_screen(
    browser: Any, site: str, tried: Played, part: str, selector: str, least: int
) -> None:
    context = browser.new_context(viewport={"width": SIZES["narrow"], "height": 900})
    page = context.new_page()
    page.goto(f"{site}{tried.path}{part}")
    found = page.evaluate(WITHIN, selector)
    assert len(found) >= least
    assert all(all(one) for one in found), found
    page.goto(f"{site}/job/{tried.arena.job_id}")
    for what in (".stack .hash", ".drawing.narrow text", "#artifacts ~ * .hash"):
        found = page.evaluate(WITHIN, what)
        assert found, what
        assert all(all(one) for one in found), (what, found)
    context.close()


def test_a_command_is_copied_as_it_stands(browser: Any, site: str, tried: Played) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{site}{tried.path}/proof")
    button = page.locator(".copy").nth(1)
    button.click()
    page.get_by_text("Copied").wait_for()
    text = page.evaluate("navigator.clipboard.readText()")
    assert text == commands(tried.pages().proof(tried.arena.job_id, f"{tried.match:#066x}"))[1]
    context.close()
    without = browser.new_context(java_script_enabled=False).new_page()
    without.goto(f"{site}{tried.path}/proof")
    assert not without.locator(".copy").first.is_visible()
    without.context.close()


def test_a_hash_is_copied_in_full_and_leads_to_what_is_known_of_it(
    browser: Any, site: str, tried: Played
) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{site}{tried.path}")
    first = page.locator(".side .hashed").first
    assert page.locator(".hashed").count() == page.locator(".copyhash").count()
    first.locator(".copyhash").click()
    first.get_by_text("✓").wait_for()
    root = page.evaluate("navigator.clipboard.readText()")
    snapshot = tried.arena.client.snapshot()
    assert root == f"0x{snapshot.match(snapshot.job(tried.arena.job_id), tried.match).terms.roots[0].hex()}"
    with page.expect_navigation():
        first.locator("a").click()
    assert page.url == f"{site}/find?q={root}"
    page.fill("#find", str(tried.arena.job_id))
    with page.expect_navigation():
        page.get_by_role("button", name="Find").click()
    assert page.url == f"{site}/job/{tried.arena.job_id}"
    context.close()
    without = browser.new_context(java_script_enabled=False).new_page()
    without.goto(f"{site}{tried.path}")
    assert not without.locator(".copyhash").count()
    without.context.close()


def test_the_check_for_violations_finds_one(browser: Any) -> None:
    page = browser.new_page()
    page.set_content("<html><body><img src='x'><p style='color:#ccc'>pale</p></body></html>")
    assert len(violations(page)) > 1
    page.close()


def test_the_check_for_what_is_confused_finds_it(browser: Any) -> None:
    page = browser.new_page()
    page.set_content(
        "<svg class=drawing width=90 height=40><text class=who x=5 y=20>paid</text><text x=9 y=20>got</text>"
        "<text x=80 y=20>burned</text><rect x=0 y=8 width=9 height=9 /></svg>"
        "<ul class=legend><li><i class=key></i>one<li><i class=key></i>other</ul>"
    )
    assert confused(page) == [
        "paid over got",
        "paid over a bar",
        "burned is cut",
        "keys look the same: oneother",
    ]
    page.close()


def test_no_request_leaves_for_another_host(browser: Any, site: str, tried: Played) -> None:
    context = browser.new_context()
    page = context.new_page()
    asked, complaints = list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    for path in paths(tried)[:-1]:
        page.goto(site + path)
        page.wait_for_timeout(100)
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(site).netloc}
    assert complaints == [], "the policy refuses nothing that our own pages do"
    context.close()


@pytest.mark.parametrize("script", [True, False])
def test_the_scrubber_works(browser: Any, site: str, tried: Played, script: bool) -> None:
    context = browser.new_context(java_script_enabled=script)
    page = context.new_page()
    page.goto(site + tried.path)
    assert page.locator(".rung.decision").count() == 1
    every = page.locator("li.rung").count()
    seen = [every]
    while page.locator("#before").count():
        with page.expect_navigation():
            page.locator("#before").click()
        seen.append(page.locator("li.rung").count())
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == 1, "at first there are only two run roots"
    while page.locator("#after").count():
        with page.expect_navigation():
            page.locator("#after").click()
    assert page.locator("li.rung").count() == every
    context.close()


def test_keys_scrub_and_the_theme_is_kept(browser: Any, site: str, tried: Played) -> None:
    context = browser.new_context(color_scheme="light")
    page = context.new_page()
    page.goto(site + tried.path)
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**?at=*")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("#theme")
    assert page.evaluate(ground) != light
    page.goto(site + tried.path)
    assert page.evaluate(ground) != light
    context.close()


def test_a_static_copy_opens_without_a_server(browser: Any, tried: Played, tmp_path: Path) -> None:
    export(tried.pages(static=True), tried.arena.job_id, hex(tried.match), tmp_path / "copy")
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    complaints = list[str]()
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(f"file://{tmp_path}/copy/index.html")
    assert page.evaluate("getComputedStyle(document.querySelector('li.rung')).borderRadius") == "14px", (
        "styled"
    )
    assert violations(page) == []
    with page.expect_navigation():
        page.locator("#before").click()
    assert page.locator(".rung.decision").count() == 0
    page.goto(f"file://{tmp_path}/copy/element.html")
    assert page.locator(".decimal").count() == 2
    assert complaints == []
    context.close()


def test_a_dispute_is_followed_while_it_happens(
    browser: Any,
    anvil: Anvil,
    tmp_path: Path,
    small_bundle: Bundle,  # noqa: F811
) -> None:
    """Nobody reloads: the page asks for news by itself, and its clocks and rungs are those of the chain."""
    with Arena(
        *(anvil, tmp_path, small_bundle),
        trainers=[Fault.NONE, Fault.POISON_DATA],
        challenger=None,
        verifiers=0,
    ) as arena:
        index = Index(None)
        chain = Chain(IndexedClient(arena.client.web3, arena.client.deployment, cache=index), index)
        chain.tick()
        fetcher = Fetcher(Store(tmp_path / "explorer"), attempts=1, timeout_s=5, budget_s=60)
        pages = Pages(chain, fetcher, tmp_path, bundles=[small_bundle], place=Place())
        context = browser.new_context()
        with served(pages, chain.tick) as address:
            job, dispute = context.new_page(), None
            for path in ("/", f"/job/{arena.job_id}"):
                job.goto(address + path)
                job.set_viewport_size({"width": SIZES["narrow"], "height": 900})
                assert job.locator(".timebar progress").is_visible(), "this phase ends"
                assert job.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
                job.set_viewport_size({"width": SIZES["wide"], "height": 900})
            job.evaluate("window.kept = true")
            seen = set[int]()
            while not chain.look().job(arena.job_id).phase.ended:
                arena.turn()
                if dispute is None and (open_now := chain.look().job(arena.job_id).match_ids()):
                    dispute = context.new_page()
                    dispute.goto(f"{address}/job/{arena.job_id}/dispute/{open_now[0]:#066x}")
                    dispute.evaluate("window.kept = true")
                if dispute is not None:
                    dispute.wait_for_timeout(500)
                    seen.add(dispute.locator("li.rung").count())
            assert dispute is not None
            dispute.wait_for_selector(".rung.decision", timeout=30_000)
            job.get_by_text("accepted", exact=False).first.wait_for(timeout=30_000)
            assert dispute.evaluate("window.kept")
            assert job.evaluate("window.kept")
            assert len(seen | {dispute.locator("li.rung").count()}) >= 2, seen
        context.close()
