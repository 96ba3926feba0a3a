"""What changes between two looks at it: a claim under the same root, an audit's folder, what is published."""

from __future__ import annotations

import json
import shutil
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from eth_account import Account

from referee_py.errors import AssayError
from referee_py.program.read import read_program
from referee_py.program.terms import Terms
from tests.conftest import Assay
from trainer_node.audit.coverage import merge
from trainer_node.audit.engine import reports
from trainer_node.audit.interval import Auditor, Verdict, computes
from trainer_node.audit.pool import Task
from trainer_node.audit.receipt import difference
from trainer_node.cli import FAILED, audit

from . import hostile as bad
from .runs import opened, publish, signed, write_all

STEPS, STRIDE, COUNT = 12, 3, 4


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return publish(tmp_path / "run", STEPS, STRIDE)


def shorter(run: Path) -> None:
    """Claim one step less under the same root: as many intervals, of which the last one is wrong."""
    told = json.loads((run / "claim.json").read_text())
    file = told["program_file"]
    program = read_program((run / "artifacts/blob" / file[:2] / file).read_bytes())
    hashed = Terms.of(program, STEPS - 1, told["strides"], told["mode"]).hash().hex()
    bad.claim(steps=STEPS - 1, program_hash=hashed)(run)


@pytest.mark.parametrize("jobs", [1, 2])
def test_processes_check_the_claim_that_was_opened(run: Path, tmp_path: Path, jobs: int) -> None:
    """A server claims a wrong run first, and the right run with the same root to the processes that check it."""
    right = (run / "claim.json").read_bytes()
    shorter(run)

    def changes(handler: BaseHTTPRequestHandler, data: bytes, asked: int) -> None:
        bad.plain(handler, data if asked == 1 else right, 0)

    with bad.served(run, "claim.json", changes) as address:
        task = Task(address, tmp_path / "cache", "", 1 << 26)
        published = task.published()
        if jobs == 1:
            with pytest.raises(AssayError, match="claims another program"):
                list(reports(published, task, [COUNT], jobs))
            return
        (report,) = reports(published, task, [COUNT], jobs)
        assert report.finding.verdict is Verdict.UNCHECKED
        assert (report.finding.start, report.finding.end) == published.span(COUNT)


def test_findings_about_another_claim_of_the_root_do_not_count(assay: Assay, run: Path) -> None:
    assert assay("audit", "run", "--intervals", "all")[0] == 0
    shorter(run)
    code, output, _ = assay("audit", "run", "--intervals", "all")
    assert (code, "0 were checked before" in output) == (1, True), output


def test_receipts_about_other_logs_of_the_root_do_not_count(run: Path, tmp_path: Path) -> None:
    """A replay follows the logs, so what it says is about them."""
    mine = opened(run, tmp_path / "a")
    place = write_all([signed(mine, Account.create(), 1)], tmp_path / "r")
    bad.claim(logs="ab" * 32)(run)
    other = opened(run, tmp_path / "b")
    assert other.root == mine.root
    assert "logs" in str(difference(signed(mine, Account.create(), 2).receipt, other))
    assert merge(other, list(place.iterdir())).agreed == 0


def test_findings_that_somebody_else_has_written_are_not_ours(
    assay: Assay,
    tmp_path: Path,
) -> None:
    """A run comes with findings that are unpacked over those of our audit."""
    publish(tmp_path / "run", STEPS, STRIDE, lie=4)
    assert assay("audit", "run", "--intervals", "all")[0] == 1
    file = tmp_path / "audit-run" / "findings.jsonl"
    lines = file.read_text().splitlines()
    assert all(json.loads(line)["interval"] for line in lines)
    told = [line.replace("DIFFERS", "MATCH") for line in lines if "DIFFERS" in line]
    bare = json.dumps({name: value for name, value in json.loads(told[0]).items() if name != "seal"})
    file.write_text("\n".join([*lines, *told, bare]) + "\n")
    code, output, _ = assay("audit", "run", "--intervals", "all")
    assert (code, "DIFFERS          1" in output) == (1, True), output
    shutil.copytree(tmp_path / "audit-run", tmp_path / "elsewhere")
    assert assay("audit", "run", "--out", "elsewhere")[0] == 2


def test_who_withdraws_data_does_not_take_back_what_was_found(
    assay: Assay,
    tmp_path: Path,
) -> None:
    run = publish(tmp_path / "run", STEPS, STRIDE, lie=8)
    assert assay("audit", "run", "--intervals", "3")[0] == 1
    bad.every("record", bad.flip)(run)
    shutil.rmtree(tmp_path / "audit-run" / "cache")
    code, output, _ = assay("audit", "run", "--intervals", "2-3")
    assert (code, "DIFFERS          1" in output) == (1, True), output


@pytest.mark.parametrize("name", ["[/red]", "[red]x[/red]", "[link=file:///etc]y[/link]"])
def test_a_publishers_words_are_no_markup(assay: Assay, run: Path, tmp_path: Path, name: str) -> None:
    bad.claim(name=name)(run)
    write_all([signed(opened(run, tmp_path / "cache"), Account.create(), 1)], tmp_path / "r")
    code, output, errors = assay("audit", "run", "--intervals", "1")
    assert (code, name in output) == (0, True), errors
    code, output, errors = assay("audit", "coverage", "run", "--receipts", "r")
    assert (code, name in output) == (0, True), errors


def test_a_failure_of_ours_is_no_verdict(
    assay: Assay,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Too little memory is UNCHECKED, and what nobody has foreseen has an exit code that is not a result."""

    def fails(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Auditor, "replay", fails)
        published = opened(run, tmp_path / "cache")
        finding = Auditor(published, 1 << 26, computes(published.terms.mode)).check(1)
        assert (finding.verdict, "memory" in finding.reason) == (Verdict.UNCHECKED, True)
    monkeypatch.setattr(audit, "select", fails)
    assert assay("audit", "run")[0] == FAILED
