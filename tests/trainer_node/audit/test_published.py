"""What a published run has kept, what is computed again where it has not, and what a publisher adds when asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from assay_lab.daemons import lying
from assay_lab.faults import HONEST, Fault, Lie
from referee_py.errors import Unavailable
from tests.conftest import Assay
from tests.trainer_node.cli.growing import growing
from trainer_node.audit.folder import SEAL
from trainer_node.audit.interval import Auditor, Finding, Verdict, computes
from trainer_node.local.run_folder import KeepRule, open_run
from trainer_node.run.modes import backend_of
from trainer_node.run.replay import Replay
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.store_files import path_of

from .runs import opened

STEPS, STRIDES = 36, (6, 3, 1)
COUNT = STEPS // STRIDES[0]


def publish(folder: Path, keep: str, lie: int = 0) -> Callable[..., None]:
    """Write a run; return what publishes more of it."""
    bundle = growing(STEPS, STRIDES, factor=1.03)

    def with_replay(use: Callable[..., None]) -> None:
        keeps = KeepRule.of(keep)
        with open_run(folder, bundle.terms, "", resume=True, keep_s=60, keeps=keeps) as run:
            kind = lying(Lie(Fault.WRONG_OP_OUTPUT, lie) if lie else HONEST)
            use(run, kind(bundle, backend_of("cpu"), run.store, run))

    with_replay(lambda run, replay: run.publish(bundle, replay.train(due=run.due)))
    return lambda *what: with_replay(lambda run, replay: run.show(replay, *what))


def audited(folder: Path, cache: Path, back: int = 0) -> list[Finding]:
    run = opened(folder, cache)
    auditor = Auditor(run, 1 << 26, computes(run.terms.mode), back)
    return [auditor.check(interval) for interval in range(1, run.count + 1)]


@pytest.mark.parametrize("keep", ["every:3", "last"])
def test_what_was_dropped_is_computed_again(tmp_path: Path, keep: str) -> None:
    publish(tmp_path / "run", keep)
    plain = audited(tmp_path / "run", tmp_path / "a")
    missing = [finding for finding in plain if finding.verdict is Verdict.UNCHECKED]
    assert missing, plain
    assert any("--back 1 looks one checkpoint further back" in finding.reason for finding in missing)
    far = audited(tmp_path / "run", tmp_path / "b", back=COUNT)
    assert [finding.verdict for finding in far] == [Verdict.MATCH] * COUNT


@pytest.mark.parametrize("wrong", range(1, COUNT + 1))
def test_a_lie_on_the_way_is_not_told_of_the_interval_behind_it(tmp_path: Path, wrong: int) -> None:
    """Only the interval that is wrong differs. One whose first state can be had through it alone is not checked."""
    publish(tmp_path / "run", "last", lie=wrong * STRIDES[0])
    verdicts = [finding.verdict for finding in audited(tmp_path / "run", tmp_path / "a", back=COUNT)]
    for number, verdict in enumerate(verdicts, 1):
        if number == wrong:
            assert verdict is Verdict.DIFFERS
        elif wrong < number < COUNT:  # NOTE: the state before the last interval is always kept
            assert verdict is Verdict.UNCHECKED
        else:
            assert verdict is Verdict.MATCH, (number, verdicts)


def test_a_publisher_who_is_asked_lets_the_element_be_found(tmp_path: Path) -> None:
    show = publish(tmp_path / "run", "all", lie=14)
    found = audited(tmp_path / "run", tmp_path / "a")[2]
    assert (found.verdict, found.step, found.sought) == (Verdict.DIFFERS, None, True)
    show(3)
    found = audited(tmp_path / "run", tmp_path / "b")[2]
    assert (found.verdict, found.step, found.operator, found.sought) == (Verdict.DIFFERS, 14, "mul", True)
    show(3, 14)
    show(3, 14, 0)
    found = audited(tmp_path / "run", tmp_path / "c")[2]
    assert (found.step, found.node, found.output, found.element, found.sought) == (14, 0, 0, 0, False)
    assert found.claimed is not None
    assert found.computed is not None
    assert found.claimed > found.computed


def test_what_is_shown_is_what_was_claimed(tmp_path: Path) -> None:
    """A publisher whose run cannot be computed again has nothing to show."""
    show = publish(tmp_path / "run", "all", lie=14)
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "run", other)
    claimed = json.loads((tmp_path / "run/claim.json").read_text())
    with pytest.raises(Unavailable, match="computed again, lead to another checkpoint"):
        _honest(tmp_path / "run")
    assert json.loads((tmp_path / "run/claim.json").read_text()) == claimed
    show(3)
    assert len(json.loads((tmp_path / "run/claim.json").read_text())["refinements"]) == 3


def _honest(folder: Path) -> None:
    """Show an interval of a run with a replay that does not lie."""
    bundle_terms = opened(folder, folder.parent / "honest")
    package = bundle_terms.package(1 << 26)
    keeps = KeepRule(every=1)
    with open_run(folder, package.terms, "", resume=True, keep_s=60, keeps=keeps) as run:
        run.show(Replay(package, backend_of("cpu"), run.store, run), 3)


def test_where_data_of_the_program_are_damaged_no_other_state_is_advised(tmp_path: Path) -> None:
    publish(tmp_path / "run", "all")
    run = opened(tmp_path / "run", tmp_path / "a")
    for tensor in run.program.constants:
        path_of(tmp_path / "run/artifacts", Name(Kind.TENSOR, tensor.hash)).write_bytes(b"damaged")
    for finding in audited(tmp_path / "run", tmp_path / "b"):
        assert finding.verdict is Verdict.UNCHECKED
        assert "--back" not in finding.reason


# ------------------------------------------------------------------------------------------------ the audit's folder


@pytest.mark.parametrize(
    ("of", "remedy"),
    [
        ("nothing", "there is no folder {}: name that of a run"),
        ("bundle", "this is a bundle: run it first, with --out"),
        ("begun", "this run has not ended: run its program again with the same --out and --resume"),
        ("else", "name the folder that a program was run with --out to"),
        ("root", "nobody serves the run tree of the claimed root"),
    ],
)
def test_a_wrong_folder_is_told_what_it_is_and_leaves_none(
    assay: Assay, tmp_path: Path, of: str, remedy: str
) -> None:
    folder = tmp_path / of
    if of in ("begun", "root"):
        publish(folder, "all")
    elif of != "nothing":
        folder.mkdir()
    claim = folder / "claim.json"
    if of == "begun":
        claim.unlink()
    elif of == "bundle":
        (folder / "job.json").write_text("{}")
    elif of == "root":
        told = json.loads(claim.read_text())
        claim.write_text(json.dumps(told | {"root": "12" * 32}))
    code, _, errors = assay("audit", of, "--intervals", "1")
    assert (code, remedy.format(folder) in " ".join(errors.split())) == (2, True), errors
    assert (tmp_path / f"audit-{of}").exists() is (of == "root"), "that one has the program"


def test_findings_that_came_with_the_run_do_not_count(assay: Assay, tmp_path: Path) -> None:
    """A publisher ships the folder of an audit beside his run, in which all is well."""
    publish(tmp_path / "run", "all", lie=14)
    wrong = tmp_path / "run"
    assert assay("audit", wrong, "--intervals", "all", "--out", "mine")[0] == 1
    shipped = tmp_path / "audit-run"
    shutil.copytree(tmp_path / "mine", shipped)
    told = (shipped / "findings.jsonl").read_text().replace("DIFFERS", "MATCH")
    (shipped / "findings.jsonl").write_text(told)
    for seal in ((tmp_path / "mine" / SEAL).read_text(), "0" * 64, ""):
        (shipped / SEAL).write_text(seal)
        code, _, errors = assay("audit", wrong, "--intervals", "all")
        assert (code, "not a folder that an audit of yours has made" in errors) == (2, True), errors
    (shipped / SEAL).unlink()
    assert assay("audit", wrong, "--intervals", "all")[0] == 2
    code, output, _ = assay("audit", wrong, "--intervals", "all", "--out", "mine")
    assert (code, f"{COUNT - 1} were checked before" in output) == (1, True), output


def test_what_was_not_found_is_looked_for_again(assay: Assay, tmp_path: Path) -> None:
    show = publish(tmp_path / "run", "all", lie=14)
    _, output, _ = assay("audit", "run", "--intervals", "3", "--out", "mine")
    assert "the search ends here" in output
    show(3, 14, 0)
    code, output, _ = assay("audit", "run", "--intervals", "3", "--out", "mine")
    assert (code, "step 14, node 0 (mul), output 0, element 0" in output) == (1, True), output
    assert "1 were checked before" in assay("audit", "run", "--intervals", "3", "--out", "mine")[1]
