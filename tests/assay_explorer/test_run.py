"""A published run without a chain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from eth_account import Account

from assay_explorer.published import RunPages
from referee_py.errors import Unavailable
from tests.trainer_node.audit.runs import opened, publish, signed

from .conftest import served
from .test_pages import get
from .test_strangers import expect_safe, hostile


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


def test_what_its_publisher_wrote_stays_words(tmp_path: Path) -> None:
    folder = publish(tmp_path / "run", 4, 2)
    claim = json.loads((folder / "claim.json").read_text())
    for number, word in enumerate(hostile(200)):
        (folder / "claim.json").write_text(json.dumps({**claim, "name": word[:200]}))
        rows = [{"step": k, "seconds": 1, word: k * 0.5} for k in (1, 2)] + [{"step": "x", word: []}, [], 7]
        lines = "\n".join(map(json.dumps, rows)) + "\nno json\n"
        (folder / "metrics.jsonl").write_text(lines)
        page = RunPages(str(folder), tmp_path / "pages").home()
        expect_safe(page, 1)
        assert "Metrics" in page, number


def test_a_run_that_is_not_what_it_claims_is_refused(tmp_path: Path) -> None:
    folder = publish(tmp_path / "run", 4, 2)
    claim = json.loads((folder / "claim.json").read_text())
    (folder / "claim.json").write_text(json.dumps({**claim, "root": "00" * 32}))
    with pytest.raises(Unavailable):
        RunPages(str(folder), tmp_path / "pages")
