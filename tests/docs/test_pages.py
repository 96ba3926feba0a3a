"""Every command of the start page and the tutorials works as it stands."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from .pages import ROOT, blocks, play

DOCS = ROOT / "docs"


def test_every_command_of_the_tutorials_is_executed() -> None:
    """A block without a mark may only set up: make, and the path."""
    for page in [*DOCS.glob("start/*.md"), *DOCS.glob("tutorials/*.md")]:
        assert any(block.marked for block in blocks(page)), page
        for block in blocks(page):
            assert block.marked or re.fullmatch(
                r"make setup\nexport PATH=.*\n(git switch -c abs\n)?", block.text
            ), f"{page}: {block.text}"


def test_folders_of_a_tutorial_are_its_own() -> None:
    """Who reads two pages in one folder finds nothing of the first in the way of the second."""
    made: dict[str, Path] = {}
    for page in [*DOCS.glob("start/*.md"), *DOCS.glob("tutorials/*.md")]:
        told = "\n".join(block.text for block in blocks(page))
        for folder in {*re.findall(r"^assay program (?:build \S+|run \S+ --out) (\w\S*)", told, re.M)}:
            assert folder not in made, f"{page} and {made[folder]} both make {folder}"
            made[folder] = page
    assert len(made) >= 7


@pytest.mark.slow
def test_audit_a_run(tmp_path: Path) -> None:
    told = play(DOCS / "tutorials/audit.md", tmp_path)
    assert [int(count) for count in re.findall(r"^ *MATCH +(\d+)$", told, re.M)] == [2, 4, 4]
    assert re.findall(r"^ *DIFFERS +(\d+)$", told, re.M) == ["0", "0", "0"]
    assert "4 were checked before" in told
    assert re.search(r"^ *receipts +4 in everything/receipts$", told, re.M)
    assert "4 of 4 intervals" in told.rpartition("$ ")[2]


@pytest.mark.slow
def test_train_your_own_model(tmp_path: Path) -> None:
    told = play(DOCS / "tutorials/train.md", tmp_path)
    roots = re.findall(r"run root\W+([0-9a-f]{64})", told)
    assert len(roots) == 2
    assert roots[0] == roots[1]


@pytest.mark.slow
def test_a_loop_and_a_trainer_become_recipes(tmp_path: Path) -> None:
    """The program's last loss is that of the script, up to rounding; the refusal is the one that the page is about."""
    told = play(DOCS / "tutorials/from-pytorch.md", tmp_path)
    scripts = [float(loss) for loss in re.findall(r"^step \d+  loss ([\d.]+)$", told, re.M)]
    programs = [float(loss) for loss in re.findall(r"^ +loss +([\d.]+)$", told, re.M)]
    assert len(scripts) == len(programs) == 2
    assert programs == pytest.approx(scripts, rel=1e-3)
    assert "error: module Gate: aten._local_scalar_dense.default makes the program depend on values" in told
    assert "use torch.where" in told
    assert re.search(r"^gate  gate$", told, re.M), "the remedy works"
    kept = re.search(r"^<All keys matched successfully>\n([\d.]+)% of the moons", told, re.M)
    assert kept is not None
    assert float(kept[1]) > 80, "the trained weights are in the module again"


@pytest.mark.slow
def test_a_dispute_in_ten_minutes(tmp_path: Path) -> None:
    play(DOCS / "start/ten-minutes.md", tmp_path)


@pytest.mark.slow
def test_serve_a_model_and_check_an_answer(tmp_path: Path) -> None:
    try:
        told = play(DOCS / "serve.md", tmp_path)
    finally:
        stop(tmp_path)
    assert len(re.findall(r"receipt\.json: MATCH; ", told)) == 2
    assert len(re.findall(r"answers-7/\d\d\.json: MATCH; ", told)) == 2
    assert len(re.findall(r"^round \d .* 0 of 384 log-probabilities differ$", told, re.M)) == 16
    assert len(set(re.findall(r"^ *root +([0-9a-f]{64})", told, re.M))) == 1
    counts = re.findall(r"(\d+) of (\d+) tokens computed again", told)
    assert counts[0][0] == counts[0][1] == counts[1][1]
    assert int(counts[1][0]) == min(3, int(counts[0][1]))


@pytest.mark.slow
def test_run_a_node(tmp_path: Path) -> None:
    try:
        told = play(DOCS / "tutorials/node.md", tmp_path)
    finally:
        stop(tmp_path / "network")
    assert "claim.valid" in told
    assert re.search(r"assay_balance_ether", told)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_write_an_operator_with_its_contract_rule(tmp_path: Path) -> None:
    """In a clone with an environment of its own: the page changes the sources."""
    clone = tmp_path / "clone"
    for command in (f"git clone --quiet {ROOT} {clone}", f"make -C {clone} --silent setup"):
        subprocess.run(
            command.split(), check=True, stdin=subprocess.DEVNULL, env=os.environ | {"MAKEFLAGS": ""}
        )
    told = play(DOCS / "tutorials/operator.md", clone, clone / ".venv/bin")
    assert len(re.findall(r"^\d+ passed", told, re.M)) == 2


def stop(folder: Path) -> None:
    """End the processes whose ids a page has written into files, if they are still there."""
    for file in folder.glob("*.pid"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)
