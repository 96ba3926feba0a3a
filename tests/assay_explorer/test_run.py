"""A published run without a chain."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from eth_account import Account

from assay_explorer import drawing
from assay_explorer.intervals import MAX_SHOWN, Interval, Intervals
from assay_explorer.published import RunPages, strip_of
from referee_py.errors import Unavailable
from tests.trainer_node.audit.runs import opened, publish, signed
from tests.trainer_node.cli.growing import growing
from trainer_node.audit.certificate import certify_run
from trainer_node.audit.coverage import merge
from trainer_node.audit.parting import place_words
from trainer_node.audit.run_diff import Compared, compare

from .conftest import MAX_BYTES, served
from .gallery import run_of
from .test_pages import Reader, get
from .test_strangers import Checker, expect_safe, hostile


def test_a_run_is_shown_with_what_receipts_say(tmp_path: Path) -> None:
    folder = publish(tmp_path / "run", 12, 2)
    run = opened(folder, tmp_path / "cache")
    receipts = tmp_path / "receipts"
    receipts.mkdir()
    for account, intervals in ((Account.create(), (1, 2)), (Account.create(), (2, 3))):
        for interval in intervals:
            signed(run, account, interval).write(receipts)
    with served(RunPages(str(folder), tmp_path / "pages", receipts=[receipts])) as site:
        page = get(site, "/")
        assert run.claim.root in page.text
        assert run.tree.leaves[0].hex() in page.text
        assert "by several auditors (1)" in page.text
        assert "by one auditor (2)" in page.text
        assert "no receipt (3)" in page.text
        assert f"assay audit {folder} --root {run.claim.root}" in page.text
        get(site, "/job/1", 404)
        assert "comes from the chain" not in page.text
        assert "no chain is asked" in page.text
        coverage = merge(run, sorted(receipts.iterdir()))
        certified = certify_run(run, coverage)
        answer = httpx.get(f"{site}/certificate.json")
        assert (answer.content, answer.headers["content-type"]) == (certified.statement(), "application/json")
        badge = httpx.get(f"{site}/badge.svg")
        assert (badge.text, badge.headers["content-type"]) == (certified.badge(), "image/svg+xml")
        certificate = get(site, "/certificate")
        assert "3 of 6 intervals checked" in certificate.text
        for line in (
            *certified.checked,
            *certified.not_proven,
            run.terms.initial_root.hex(),
            run.terms.constant_root.hex(),
        ):
            assert line in certificate.text
        get(site, "/compare", 404)
    with served(RunPages(str(folder), tmp_path / "pages")) as site:
        get(site, "/certificate", 404)
        assert httpx.get(f"{site}/badge.svg").status_code == 404


def test_a_long_run_shows_which_parts_were_sampled(tmp_path: Path) -> None:
    run = opened(publish(tmp_path / "run", 600, 1), tmp_path / "cache")
    account, paths = Account.create(), tmp_path / "receipts"
    paths.mkdir()
    for interval in (1, 2, 3, 5, 600):
        signed(run, account, interval).write(paths)
    strip = strip_of(run, merge(run, sorted(paths.iterdir())))
    kinds = [one.kind for one in strip.shown]
    assert (len(kinds), kinds[:3], kinds[-1]) == (200, ["sampled", "partly", "unseen"], "partly")
    assert strip.shown[1].by == "1 of 3 intervals checked"
    assert strip.counts == {"checked": 0, "sampled": 5, "disputed": 0, "unseen": 595}
    told = Reader(str(drawing.intervals(strip))).words
    assert "steps 1 to 3: checked once, by 1 auditor" in told
    assert "steps 4 to 6: checked in part, 1 of 3 intervals checked" in told
    assert "steps 7 to 597: unseen" in told, "bars of the same kind have one title"
    assert (
        len(RunPages(str(tmp_path / "run"), tmp_path / "pages", receipts=[paths]).home().encode())
        <= MAX_BYTES
    )


def test_a_long_run_makes_no_heavy_page() -> None:
    """Though no two bars side by side are of the same kind."""
    by = "1 of 3 intervals checked"
    kinds = [("partly", by), ("unseen", "")] * (MAX_SHOWN // 2)
    shown = tuple(Interval(3 * k + 1, 3 * k + 1, 3 * k + 3, *kind) for k, kind in enumerate(kinds))
    drawn = str(drawing.intervals(Intervals(shown, 3 * MAX_SHOWN, {}, "")))
    assert len(drawn) < MAX_BYTES
    bars = re.findall(r"M([\d.]+) \d+h([\d.]+)V38h-[\d.]+z", drawn)
    assert len(bars) == 2 * MAX_SHOWN, "one each in the wide and in the narrow drawing"
    edges = [(float(x), float(x) + float(width)) for x, width in bars[:MAX_SHOWN]]
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(edges))


def test_two_runs_are_compared_on_a_page(tmp_path: Path) -> None:
    one, other = publish(tmp_path / "one", 6, 2), publish(tmp_path / "other", 6, 2)
    pair = [Compared.open(str(folder), tmp_path / "cache") for folder in (one, other)]
    found = compare(*pair)
    assert found.place is not None
    with served(RunPages(str(one), tmp_path / "pages", against=str(other))) as site:
        page = get(site, "/compare")
        while "is being replayed" in page.text:
            page = get(site, "/compare")
        assert f"They part {place_words(found.place)}." in page.text
        assert f"{found.place.first} ≠ {found.place.second}" in page.text
        for differs in found.configuration.values():
            for known in differs:
                assert {known.what, known.first, known.second} <= {word.strip() for word in page.words}
    bundle = growing(6, (3, 1)).write(tmp_path / "bundle")
    for second, words in (
        (bundle, "whether runs part is not known, since not both are runs"),
        (publish(tmp_path / "longer", 8, 5), "Whether the runs part is not known: they have no checkpoint"),
    ):
        with served(RunPages(str(one), tmp_path / "pages", against=str(second))) as site:
            page = get(site, "/compare")
            while "is being replayed" in page.text:
                page = get(site, "/compare")
            assert words in page.text
    with served(RunPages(str(one), tmp_path / "pages", against=str(one / "claim.json"))) as site:
        assert "No difference" in get(site, "/compare").text
    with served(RunPages(str(one), tmp_path / "pages", against=str(tmp_path / "nothing"))) as site:
        assert "cannot be compared" in get(site, "/compare").text


def test_what_its_publisher_wrote_stays_words(tmp_path: Path) -> None:
    folder = publish(tmp_path / "run", 4, 2)
    claim = json.loads((folder / "claim.json").read_text())
    (tmp_path / "receipts").mkdir()
    signed(opened(folder, tmp_path / "cache"), Account.create(), 1).write(tmp_path / "receipts")
    for number, word in enumerate(hostile(200)):
        (folder / "claim.json").write_text(json.dumps({**claim, "name": word[:200]}))
        rows = [{"step": k, "seconds": 1, word: k * 0.5} for k in (1, 2)] + [{"step": "x", word: []}, [], 7]
        lines = "\n".join(map(json.dumps, rows)) + "\nno json\n"
        (folder / "metrics.jsonl").write_text(lines)
        page = RunPages(str(folder), tmp_path / "pages").home()
        expect_safe(page)
        assert "Metrics" in page, number
        if number % 20 == 0:
            receipts = tmp_path / "receipts"
            pages = RunPages(str(folder), tmp_path / "pages", receipts=[receipts], against=str(folder))
            expect_safe(pages.compare())
            safe = Checker(pages.certificate())
            assert [found for found in safe.bad if "/badge.svg" not in found] == []


def test_a_run_that_is_not_what_it_claims_is_refused(tmp_path: Path) -> None:
    folder = publish(tmp_path / "run", 4, 2)
    claim = json.loads((folder / "claim.json").read_text())
    (folder / "claim.json").write_text(json.dumps({**claim, "root": "00" * 32}))
    with pytest.raises(Unavailable):
        RunPages(str(folder), tmp_path / "pages")


def test_numbers_beyond_all_floats_do_not_break_the_page(tmp_path: Path) -> None:
    folder = publish(tmp_path / "run", 4, 2)
    rows = [f'{{"step": {k}, "seconds": 1, "big": {"9" * 400}, "loss": {k}, "yes": true}}' for k in (1, 2)]
    (folder / "metrics.jsonl").write_text("\n".join(rows))
    page = RunPages(str(folder), tmp_path / "pages").home()
    assert "loss: 1 after step 1, 2 after step 2" in page
    assert "big: " not in page
    assert "yes: " not in page


@pytest.mark.parametrize(
    ("losses", "rows"),
    [
        ({"at the first step": [2.25, 2.2500001]}, ["at the first step 2.25 2.2500001 4.4e-08 of it"]),
        ({"at the first step": [2.5, 2.5]}, ["at the first step 2.5 2.5 nothing"]),
        (
            {"<b>x": [0.0, 1.0], "nan": [float("nan"), 1.0], "text": ["1", 2.0], "long": [1.0] * 3},
            ["<b>x 0 1 1.0e+00"],
        ),
        ({"big": [10**400, 1.0], "true": [True, 1.0]}, []),
        ([1.0, 2.0], []),
    ],
)
def test_loss_beside_eager_is_shown_where_it_was_measured(
    tmp_path: Path, losses: object, rows: list[str]
) -> None:
    bundle = growing(12, (2, 1))
    told = replace(
        bundle, labels={**bundle.labels, "losses": losses, "checked": "loss <i>is</i> that of PyTorch"}
    )
    folder = run_of(told, tmp_path / "run")
    text = Reader(RunPages(str(folder), tmp_path / "pages", bundles=[told]).home()).text
    assert "The bundle says: loss <i>is</i> that of PyTorch." in text
    assert all(row in text for row in rows), text
    assert ("Eager PyTorch has not computed the rest of the run" in text) == bool(rows)
    without = Reader(RunPages(str(folder), tmp_path / "pages", bundles=[bundle]).home()).text
    assert "eager PyTorch" not in without


def test_more_receipts_than_a_page_reads_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay_explorer.published.MAX_EVIDENCE", 2)
    folder, receipts = publish(tmp_path / "run", 12, 2), tmp_path / "receipts"
    receipts.mkdir()
    run, account = opened(folder, tmp_path / "cache"), Account.create()
    for interval in (1, 2, 3):
        signed(run, account, interval).write(receipts)
    pages = RunPages(str(folder), tmp_path / "pages", receipts=[receipts])
    assert "Only the first 2 files of receipts are read; 1 more file is not." in pages.home()
    assert "2 of 6 intervals checked" in pages.certificate().lower()
