"""`assay program build` and `assay program recipes`, which join a group of the node's commands."""

from __future__ import annotations

import subprocess
import sys
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


RECIPE = """import torch


def helper(steps):
    return {}[steps]


def key(steps=10):
    return helper(steps)


def argument(batch=10):
    return batch


def inside(steps=10):
    return len(steps)


def forward(steps=10):
    import numpy as np
    from assay_capture.capture import SGD, Recipe

    class Model(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x @ x)

    data = {"x": np.zeros((8, 2), np.float32), "y": np.zeros(8, np.int64)}
    return Recipe("m", Model(2, 3), torch.nn.functional.cross_entropy, SGD(lr=0.1), data, steps, 4)
"""


@pytest.mark.parametrize(
    ("text", "function", "words"),
    [
        (RECIPE, "key", "recipe {file}:5: KeyError: 3; --debug shows the traceback"),
        (RECIPE, "inside", "recipe {file}:17: TypeError: object of type 'int' has no len(); --debug shows"),
        (RECIPE, "argument", "recipe {file}:argument: argument() got an unexpected keyword argument 'steps'"),
        (RECIPE, "forward", "module Model, ATen operator aten.mm.default: on tensors without data"),
        (RECIPE, "forward", "(mine.py, line 26)"),
        ("\ndef f(:\n", "f", "recipe {file}:2: SyntaxError: invalid syntax; --debug shows the traceback"),
        ("x = 1\nimport nothing_here\n", "f", "recipe {file}:2: ModuleNotFoundError: No module named"),
        ("raise ValueError('a\\nb' * 500)\n", "f", "recipe {file}:1: ValueError: a ba b"),
    ],
)
def test_an_error_in_a_recipe_is_a_line_with_its_place(
    assay: Assay, tmp_path: Path, text: str, function: str, words: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    code, _, errors = assay("program", "build", f"{file}:{function}", tmp_path / "job", "--steps", "3")
    assert code == 2
    assert words.format(file=file) in errors
    assert len(errors) < 700
    assert errors.count("\n") == 1, "one line"
    assert not (tmp_path / "job").exists()


def test_the_traceback_of_a_recipe_is_shown_where_it_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(RECIPE)
    command = [sys.executable, "-m", "trainer_node.cli", "program", "build", f"{file}:key", "job", "--debug"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f'File "{file}", line 5, in helper' in done.stderr
    assert "KeyError: 10" in done.stderr
