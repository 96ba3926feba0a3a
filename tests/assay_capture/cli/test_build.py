"""`assay program build` and `assay program recipes`, which join a group of the node's commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay_capture.huggingface import export
from referee_py.program.modes import Form, Rounding
from tests.conftest import Assay
from trainer_node.cli import extensions
from trainer_node.cli.app import application
from trainer_node.cli.program import app as own
from trainer_node.local.bundle import Bundle


def test_build_writes_the_mode(assay: Assay, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="capture needs the extra [capture]")
    build = ("program", "build", "digits-mlp", tmp_path / "built", "--steps", "3")
    code, output, errors = assay(*build, "--mode", "rounded-f64", "--bits", "30", "--log", "dense")
    assert code == 0, errors
    assert "rounded-f64, 30 bits, proven bounds, dense logs" in output
    assert Bundle.read(tmp_path / "built").terms.mode == Rounding(30, form=Form.DENSE).mode


def test_recipes_are_listed_beside_the_commands_that_read_programs(assay: Assay) -> None:
    code, output, errors = assay("program", "recipes")
    assert code == 0, errors
    assert "digits-mlp" in output.splitlines()
    _, output, _ = assay("program", "--help")
    assert all(f" {name} " in output for name in ("run", "show", "build", "recipes"))


def test_a_group_of_the_node_stays_as_it_is() -> None:
    before = len(own.registered_commands)
    for arguments in (["program", "build"], ["program", "show"]):
        application(arguments)
    assert len(own.registered_commands) == before


def test_the_exporter_of_the_command_line_is_ours() -> None:
    found: extensions.Exporter = export
    assert extensions.exporter() is found


def test_a_program_is_shown_with_the_mode_that_its_products_are_for(assay: Assay, tmp_path: Path) -> None:
    """Products of bf16 are for tc16, which changes nothing in a program without any."""
    for recipe, mode, advice in (
        ("digits-mlp-bf16", "repops-f32", "5 products of bf16, which tensor cores compute with --mode tc16"),
        ("digits-mlp-bf16", "tc16", None),
        ("digits-mlp", "tc16", "no products of bf16, so tc16 is repops-f32; autocast to bf16 makes them"),
        ("digits-mlp", "repops-f32", None),
    ):
        code, output, _ = assay(
            *("program", "build", recipe, tmp_path / recipe, "--steps", "3", "--mode", mode)
        )
        lines = [line.split("advice")[1].strip() for line in output.splitlines() if "  advice " in line]
        assert (code, lines) == (0, [advice] if advice else [])
