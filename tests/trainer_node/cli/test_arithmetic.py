"""Flags that choose the arithmetic: their effect on a bundle and on `program run`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from referee_py.errors import InvalidInput, UnknownVersion
from referee_py.program.modes import EXACT, REPOPS_F32, Bounds, Form, Rounding, mode_or_unknown
from tests.conftest import Assay
from trainer_node.cli.arithmetic import BoundsName, FormName, ModeFlags, mode_words
from trainer_node.local.bundle import Bundle

from .test_inspect import bundle

ROUNDED = Rounding(29, Bounds.PROBABLE, Form.DENSE)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return bundle().with_mode(ROUNDED.mode).write(tmp_path / "job")


def test_the_mode_travels_with_the_bundle(job: Path) -> None:
    found = Bundle.read(job)
    assert found.terms.mode == ROUNDED.mode
    assert found.terms.hash() != bundle().terms.hash()
    with pytest.raises(UnknownVersion, match="arithmetic mode 4"):
        found.with_mode(4)


def test_what_is_not_given_is_as_it_was() -> None:
    assert ModeFlags().over(REPOPS_F32.byte) == REPOPS_F32.byte
    assert ModeFlags().over(ROUNDED.mode) == ROUNDED.mode
    assert ModeFlags("rounded-f64").over(REPOPS_F32.byte) == Rounding().mode
    assert ModeFlags("repops-f32").over(ROUNDED.mode) == REPOPS_F32.byte
    assert ModeFlags().over(EXACT.byte) == EXACT.byte
    assert {ModeFlags("exact").over(mode) for mode in (ROUNDED.mode, REPOPS_F32.byte)} == {EXACT.byte}
    assert ModeFlags(bits=31).over(ROUNDED.mode) == Rounding(31, Bounds.PROBABLE, Form.DENSE).mode
    every = ModeFlags("rounded-f64", 30, BoundsName.PROBABLE, FormName.DENSE)
    assert every.over(REPOPS_F32.byte) == Rounding(30, Bounds.PROBABLE, Form.DENSE).mode


@pytest.mark.parametrize(
    "given", [(30, None, None), (None, BoundsName.PROVEN, None), (None, None, FormName.DENSE)]
)
def test_flags_of_another_mode_are_refused(given: tuple[int, BoundsName, FormName]) -> None:
    with pytest.raises(InvalidInput, match="is for rounded-f64"):
        ModeFlags(None, *given).over(REPOPS_F32.byte)


@pytest.mark.parametrize(
    "mode", [REPOPS_F32.byte, *(Rounding(b, k, f).mode for b in (26, 32) for k in Bounds for f in Form)]
)
def test_flags_for_a_mode_ask_for_it(mode: int) -> None:
    flags = ModeFlags("repops-f32")
    if mode_or_unknown(mode).follows_logs:
        asked = Rounding.of(mode)
        bounds, form = BoundsName(asked.bounds.name.lower()), FormName(asked.form.name.lower())
        flags = ModeFlags("rounded-f64", asked.bits, bounds, form)
    assert flags.over(ROUNDED.mode) == mode


def test_commands_say_the_mode_in_words(assay: Assay, job: Path, tmp_path: Path) -> None:
    words = "rounded-f64, 29 bits, probable bounds, dense logs"
    assert mode_words(ROUNDED.mode) == words
    for command in ("show", "stats"):
        code, output, errors = assay("program", command, job)
        assert code == 0, errors
        assert words in output
    plain = bundle().write(tmp_path / "plain")
    assert "repops-f32" in assay("program", "show", plain)[1]
    code, output, _ = assay("program", "diff", plain, job)
    assert code == 1
    assert "- repops-f32" in output
    assert f"+ {words}" in output


def test_a_byte_that_no_mode_has_is_shown_as_it_is() -> None:
    """A job with a referee of its own may have any."""
    assert mode_words(77) == "unknown arithmetic 77"


def test_run_shows_what_its_logs_commit_to(assay: Assay, job: Path) -> None:
    code, output, errors = assay("program", "run", job, "--evaluator", "numpy")
    assert code == 0, errors
    found = re.search(r"rounding logs +([0-9a-f]{64})  [\d,]+ bytes", output)
    assert found, output
    assert re.search(r"run root +[0-9a-f]{64}", output)
    code, output, _ = assay("program", "run", job, "--evaluator", "numpy", "--steps", "3")
    assert re.search(r"rounding logs +[\d,]+ bytes", output), "of a run that is not over there is no root"
    assert "rounding logs" not in assay("program", "run", job, "--mode", "repops-f32")[1]


def test_run_refuses_what_it_cannot_do(assay: Assay, job: Path) -> None:
    for flags, words in (
        (("--device", "cuda", "--evaluator", "numpy"), "runs on the processor"),
        (("--device", "abacus"), "choose cpu or cuda"),
        (("--evaluator", "abacus"), "abacus"),
        (("--bits", "25"), "equal to 26"),
        (("--mode", "repops-f32", "--bits", "30"), "--bits is for rounded-f64"),
    ):
        code, output, errors = assay("program", "run", job, *flags)
        assert code != 0
        assert words in output + errors
