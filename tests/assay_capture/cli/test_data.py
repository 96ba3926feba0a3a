"""`assay data`: from files to a data set, and from a root to a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from repops.opset import F32
from safetensors.numpy import load_file

from referee_py.program import Kind, Operand, Program, SlotSource, Structure, TensorDescriptor, TensorType
from referee_py.program.terms import Terms
from tests.conftest import Assay
from trainer_node.local.bundle import Bundle

X = np.arange(6000, dtype=np.float32).reshape(20, 300)
Y = np.arange(20)


@pytest.fixture
def root(assay: Assay) -> str:
    """The root of a data set in the folder `set`."""
    np.savez("arrays.npz", x=X, y=Y)
    code, output, errors = assay("data", "build", "arrays.npz", "set")
    assert code == 0, errors
    found = str(json.loads(Path("set/manifest.json").read_text())["root"])
    assert found in output
    return found


def test_a_row_is_proven_to_whoever_has_only_the_root(assay: Assay, root: str) -> None:
    assert "[2100. 2101. ... 2398. 2399.]" in assay("data", "show", "set", "--row", "7")[1]
    code, output, errors = assay("data", "prove", "set", "7", "row.proof")
    assert (code, root in output) == (0, True), errors
    Path("arrays.npz").unlink()
    Path("set/data.safetensors").unlink()
    code, output, errors = assay(
        "data", "verify", "row.proof", "--root", root, "--row", "7", "--save", "row.safetensors"
    )
    assert (code, "[2100. 2101. ... 2398. 2399.]" in output) == (0, True), errors
    saved = load_file("row.safetensors")
    np.testing.assert_array_equal(saved["0"], X[7])
    assert saved["1"] == 7


def test_a_proof_that_fails_says_why(assay: Assay, root: str) -> None:
    assert assay("data", "prove", "set", "7", "row.proof", "--tensor", "y")[0] == 0
    for arguments, message in (
        (("--root", root, "--row", "8"), "of row 7, not of row 8"),
        (("--root", "0" * 64, "--row", "7"), "does not lead to root"),
        (("--root", "zz", "--row", "7"), "not a hash"),
    ):
        code, output, errors = assay("data", "verify", "row.proof", *arguments)
        assert (code, output, message in errors) == (2, "", True)
        assert len(errors.splitlines()) == 1
    Path("row.proof").write_bytes(b"\xff")
    assert "not CBOR" in assay("data", "verify", "row.proof", "--root", root, "--row", "7")[2]
    wrong: tuple[tuple[tuple[str, ...], str], ...] = (
        (("20",), "does not exist"),
        (("1", "--tensor", "z"), "no tensor 'z'"),
    )
    for given, message in wrong:
        code, _, errors = assay("data", "prove", "set", *given, "other.proof")
        assert (code, message in errors) == (2, True)
    assert not Path("other.proof").exists()


def test_a_row_is_proven_against_the_constants_of_a_program(assay: Assay) -> None:
    take = Structure.make("take", [Operand(Kind.CONSTANT, 1), Operand(Kind.STEP)], [TensorType(F32, (300,))])
    constants: tuple[np.ndarray[Any, Any], ...] = (Y, X)
    described = tuple(map(TensorDescriptor.of, constants))
    program = Program((take,), (SlotSource(0, 0),), described, (TensorDescriptor.of(X[0]),))
    labels = {"constants": ["data.order", "data.x"], "slots": ["s"], "nodes": ["batch"]}
    terms = Terms.of(program, 5, (1,))
    Bundle("tiny", program, terms, constants, (X[0],), labels).write(Path("job"))
    for arguments in ((), ("--tensor", "data.order")):
        code, output, errors = assay("data", "prove", "job", "3", "row.proof", *arguments)
        assert (code, terms.constant_root.hex() in output) == (0, True), errors
        code, output, _ = assay(
            "data", "verify", "row.proof", "--root", terms.constant_root.hex(), "--row", "3"
        )
        assert code == 0
    assert "tensor 0" in output
    assert "i64[]  3" in output


def test_text_and_images(assay: Assay) -> None:
    Path("text.txt").write_text("to be or not to be " * 40)
    code, output, errors = assay("data", "build", "text.txt", "words", "--vocabulary", "270", "--window", "8")
    assert (code, "i64[" in output) == (0, True), errors
    Path("pictures/cat").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save("pictures/cat/one.png")
    code, output, errors = assay("data", "build", "pictures", "cats", "--size", "4x4")
    assert (code, "f32[1, 3, 4, 4]" in output, "cat" in output) == (0, True, True), errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("arrays.npz", "new", "--window", "8"), "--window does not apply to arrays"),
        (("arrays.npz", "new", "--names", "x,z"), "no array 'z'"),
        (("arrays.npz", "."), "holds 'arrays.npz' already"),
        (("text.txt", "new", "--size", "4x4"), "--size does not apply to text"),
        (("text.txt", "new", "--round"), "--round does not apply to text"),
        ((".", "new", "--size", "4"), "not a size; write height x width"),
        (("nowhere.txt", "new"), "nowhere.txt"),
    ],
)
def test_mistakes_are_one_line(assay: Assay, arguments: tuple[str, ...], message: str) -> None:
    np.savez("arrays.npz", x=X, y=Y)
    Path("text.txt").write_text("words")
    code, _, errors = assay("data", "build", *arguments)
    assert (code, message in errors, len(errors.splitlines())) == (2, True, 1)


def test_a_hostile_manifest_cannot_write_to_the_terminal(assay: Assay, root: str) -> None:
    manifest = json.loads(Path("set/manifest.json").read_text())
    manifest["origin"] = {"source": "\x1b]0;owned\x07", "[bold]x": "[link=http://x]y" + "z" * 10_000}
    Path("set/manifest.json").write_text(json.dumps(manifest))
    code, output, _ = assay("data", "show", "set")
    assert (code, "\x1b" in output, "[link=" in output) == (0, False, True)
    assert len(output) < 2000
