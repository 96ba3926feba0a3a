"""Runs while they are computed, on the page of a job and on their own; all metrics of a run, and their downloads."""

from __future__ import annotations

import csv
import json
import math
import re
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from assay_explorer.artifacts import Got
from assay_explorer.curve import MAX_DOTS, draw
from assay_explorer.pages import Pages
from assay_explorer.published import RunPages
from assay_explorer.running import has_unnamed, running
from assay_explorer.unfinished import UnfinishedPages, has_begun
from assay_lab.faults import Fault
from referee_py.errors import InvalidInput
from referee_py.program import SlotSource
from tests.conftest import _chains
from tests.e2e.arena import Arena
from tests.e2e.conftest import bundle as small_bundle  # noqa: F401 # a fixture
from tests.support.browser import NEEDS_CHROMIUM, chromium, violations
from tests.trainer_node.cli.growing import growing, lines, start, stop_at, wait
from trainer_node.client.watched_job import Standing
from trainer_node.local.bundle import Bundle
from trainer_node.network.fetcher import Fetcher
from trainer_node.observe.run_reports import Point, RunReport
from trainer_node.storage.store import Store

from .conftest import play, served
from .gallery import run_of
from .test_pages import Reader, get
from .test_strangers import expect_safe, hostile

STEPS = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run whose loss is 4 * 1.5**step."""
    return run_of(growing(STEPS, (4, 1), 1.5), tmp_path / "run")


def unfinished(folder: Path, cache: Path) -> UnfinishedPages:
    return UnfinishedPages(str(folder), lambda: RunPages(str(folder), cache))


def downloads(site: str) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """Return the rows of both downloads, as the standard library reads them."""
    table, rows = httpx.get(f"{site}/metrics.csv"), httpx.get(f"{site}/metrics.json")
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    assert rows.headers["content-type"] == "application/json"
    return list(csv.DictReader(table.text.splitlines())), rows.json()


def test_numbers_of_the_downloads_are_those_of_the_run(folder: Path, tmp_path: Path) -> None:
    published = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    with served(RunPages(str(folder), tmp_path / "pages")) as site:
        page = get(site, "/")
        assert {"/metrics.csv", "/metrics.json"} <= {str(attrs.get("href")) for _, attrs in page.tags}
        table, rows = downloads(site)
        get(site, "/metrics.xml", 404)
    assert rows == published
    assert [{name: float(value) for name, value in row.items()} for row in table] == published
    assert [row["loss"] for row in rows] == [4 * 1.5**step for step in range(1, STEPS + 1)]
    for words in ("6 after step 1", f"{4 * 1.5**STEPS:.6g} after step {STEPS}"):
        cells = [word for word in page.words if word == words]
        assert len(cells) == 2, "the first is the least, the last the largest"


def test_numbers_that_are_not_finite_are_in_the_downloads(folder: Path, tmp_path: Path) -> None:
    """And names that a spreadsheet would compute are text; what is no number is left out."""
    name = "=HYPERLINK(1)"
    rows = [
        {"step": 1, "seconds": 0.5, "loss": "NaN", name: 1e-300},
        {"step": 2, "seconds": 1.0, "loss": "Infinity", "other": [1], "yes": True, "big": 10**400},
        {"step": 2, "seconds": 9.0, "loss": 7},
        {"step": 3, "seconds": 1.5, "loss": -0.1, "late": 2},
    ]
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n[")
    with served(RunPages(str(folder), tmp_path / "pages")) as site:
        table, told = downloads(site)
    assert told == [rows[0], {"step": 2, "seconds": 1.0, "loss": "Infinity"}, rows[3]]
    assert list(table[0]) == ["step", "seconds", "loss", f"'{name}", "late"]
    assert [row["loss"] for row in table] == ["NaN", "Infinity", "-0.1"]
    assert [row["late"] for row in table] == ["", "", "2.0"]


def test_a_run_in_progress_is_live(tmp_path: Path) -> None:
    bundle, run = growing(1_000_000, (1000, 1)).write(tmp_path / "job"), tmp_path / "run"
    process = start(bundle, "--out", run)
    metrics = run / "metrics.jsonl"
    try:
        wait(lambda: process.poll() is not None or (metrics.exists() and lines(metrics) > 50))
        assert has_begun(str(run))
        with served(unfinished(run, tmp_path / "pages")) as site:
            before = lines(metrics)
            page = get(site, "/")
            after = lines(metrics)
            (progress,) = [attrs for tag, attrs in page.tags if tag == "progress"]
            assert before <= int(str(progress["value"])) <= after
            assert progress["max"] == "1000000"
            assert "steps/s" in page.text
            assert " left · loss 4" in page.text
            assert any(str(attrs.get("hx-get")).startswith("/?live=") for _, attrs in page.tags)
            wait(lambda: process.poll() is not None or lines(metrics) > after)
            assert get(site, "/").text != page.text
            get(site, "/certificate", 404)
            get(site, "/compare", 404)
            table, rows = downloads(site)
            assert len(rows) > after
            assert {row["loss"] for row in table} == {"4.0"}
    finally:
        stop_at(process, metrics, 0, signal.SIGTERM)


def test_a_run_that_is_done_becomes_the_page_of_a_run(folder: Path, tmp_path: Path) -> None:
    claim = (folder / "claim.json").rename(tmp_path / "claim.json")
    assert has_begun(str(folder))
    now = [100.0]
    pages = UnfinishedPages(
        str(folder), lambda: RunPages(str(folder), tmp_path / "pages"), clock=lambda: now[0]
    )
    with served(pages) as site:
        page = get(site, "/")
        assert f"Step {STEPS} of {STEPS}" in page.text
        assert "may have been stopped" not in page.text
        now[0] += 185
        stopped = get(site, "/").text
        assert "No step was finished for 3 minutes: the run may have been stopped" in stopped
        assert re.search(r"Step \d+ of \d+ loss", stopped), "no dot where no pace stands before it"
        claim.rename(folder / "claim.json")
        assert "What it commits to" in get(site, "/").text
        assert downloads(site)[1][0]["loss"] == 6
    assert not has_begun(str(folder))
    assert not has_begun(str(tmp_path))


@pytest.mark.parametrize("told", ["", "[]", '{"steps": "3"}', '{"steps": 0}', '{"steps": true}', "[" * 9999])
def test_what_does_not_say_what_is_run_is_refused(tmp_path: Path, told: str) -> None:
    (tmp_path / "run.json").write_text(told)
    with pytest.raises(InvalidInput, match=r"run\.json at "):
        unfinished(tmp_path, tmp_path / "pages")


def test_what_its_publisher_wrote_stays_words(folder: Path, tmp_path: Path) -> None:
    (folder / "claim.json").unlink()
    for word in hostile(60):
        rows = [{"step": k, "seconds": k, word: k * 0.5} for k in (1, 2)]
        (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
        expect_safe(unfinished(folder, tmp_path / "pages").home())


@NEEDS_CHROMIUM
def test_no_violation_of_wcag_on_a_narrow_screen(folder: Path, tmp_path: Path) -> None:
    long = {f"a/metric/with/a/long/name/{k}" * 4: 0.1 * k for k in range(6)}
    rows = [{"step": k, "seconds": k, "loss": math.exp(-k), **long} for k in range(1, 9)]
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 360, "height": 900})
        with served(RunPages(str(folder), tmp_path / "pages")) as site:
            page.goto(site)
            assert violations(page) == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        (folder / "claim.json").unlink()
        with served(unfinished(folder, tmp_path / "pages")) as site:
            page.goto(site)
            assert violations(page) == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_running_job_is_live_on_its_page(
    tmp_path: Path,
    small_bundle: Bundle,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its trainer has named its address in a job before."""
    monkeypatch.setattr("assay_explorer.running.FRESH_S", 0.0)
    honest: Any = {"trainers": [Fault.NONE], "challenger": None}
    with _chains() as start_chain, Arena(start_chain(), tmp_path, small_bundle, **honest) as arena:
        chain = (one := play(arena, small_bundle, tmp_path)).chain()
        pages = one.pages(chain=chain)
        page = Reader(pages.job(arena.job_id))
        assert "trainer 1: step 40 of 40 loss " in page.text
        words = "start the explorer with --bundle for names"
        assert words not in page.text, "a bundle names the loss"
        fetcher = Fetcher(Store(tmp_path / "unnamed"), attempts=1, timeout_s=5, budget_s=60)
        bare = Pages(chain, fetcher, tmp_path, flags=one.flags)
        while words not in Reader(bare.job(arena.job_id)).text:
            time.sleep(0.1)
        arena.post_again()
        text = ""
        while "step 40 of 40" not in text:
            arena.turn()
            assert not arena.client.snapshot().job(arena.job_id).claims, "the phase of training is over"
            chain.tick()
            page = Reader(pages.job(arena.job_id))
            text = page.text
    assert "trainer 1: step 40 of 40" in text
    (progress,) = [attrs for _, attrs in page.tags if attrs.get("aria-label") == "steps of trainer 1"]
    assert (progress["value"], progress["max"]) == ("40", "40")


@pytest.mark.parametrize(("count", "dots"), [(2, 2), (MAX_DOTS, MAX_DOTS), (MAX_DOTS + 1, 1)])
def test_a_few_points_of_a_curve_are_shown_as_such(count: int, dots: int) -> None:
    drawn = draw([("loss", [(step, 1 / step) for step in range(1, count + 1)])], 100)
    assert drawn.count("<circle ") == dots
    assert drawn.count("<polyline ") == 1


def test_a_report_is_shown_with_pace_and_numbers() -> None:
    """While it runs; and words of strangers are cut."""
    report = RunReport(
        job=1,
        program="00" * 32,
        step=300,
        steps=1200,
        kept=200,
        rate=1.5,
        nodes=[(1, 0), (2, 0)],
        history=[Point(step=200, numbers=[3.0, 1.0]), Point(step=300, numbers=[2.25, 9.0])],
    )
    found = running(
        "trainer 1", Got(Standing("http://x", report)), {SlotSource(1, 0): "loss\u202e" + "x" * 99}
    )
    assert (found.step, found.steps, found.pace) == (300, 1200, "1.5 steps/s, 10 min 0 s left")
    assert found.numbers[0].endswith(" 2.25")
    assert len(found.numbers[0]) < 50
    assert "\u202e" not in found.numbers[0]
    assert found.numbers[1] == "node 2.0 9"
    told = Standing("http://x", report)
    assert has_unnamed(told, {SlotSource(1, 0): "loss"})
    assert not has_unnamed(told, {SlotSource(1, 0): "loss", SlotSource(2, 0): "rate"})
    assert not has_unnamed(Standing("http://x", None, "no"), {})
    assert running("trainer 1", Got(), {}).reason == "is being asked"
    assert running("trainer 1", Got(reason="x" * 999), {}).reason.startswith("tells nothing now (xxx")
    assert len(running("trainer 1", Got(Standing("http://x", None, "y" * 999)), {}).reason) <= 140
