"""Bundles: a folder that is complete and is checked when read."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repops.opset import F32

from referee_py.errors import HashMismatch, InvalidEncoding, InvalidInput, Unavailable
from referee_py.program import Kind, Operand, Program, SlotSource, Structure, TensorDescriptor, TensorType
from referee_py.program.terms import Terms
from trainer_node.local.bundle import Bundle

WEIGHT = np.arange(3, dtype=np.float32)
NAN = np.array([np.nan, 1, -0.0], dtype=np.float32)


def bundle() -> Bundle:
    """Return the bundle of weight += constant, where the constant has a NaN."""
    add = Structure.make("add", [Operand(Kind.SLOT, 0), Operand(Kind.CONSTANT, 0)], [TensorType(F32, (3,))])
    program = Program(
        (add,), (SlotSource(0, 0),), (TensorDescriptor.of(NAN),), (TensorDescriptor.of(WEIGHT),)
    )
    labels = {"nodes": ["add"], "slots": ["weight"], "constants": ["c"], "metrics": {"sum": [0, 0]}}
    return Bundle("tiny", program, Terms.of(program, 100, (10, 1)), (NAN,), (WEIGHT,), labels)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return bundle().write(tmp_path / "job")


def test_a_bundle_reads_back(folder: Path) -> None:
    again = Bundle.read(folder)
    assert (again.name, again.program, again.terms) == ("tiny", bundle().program, bundle().terms)
    np.testing.assert_array_equal(again.constants[0], NAN)
    np.testing.assert_array_equal(again.initial[0], WEIGHT)
    assert again.metrics == {"sum": SlotSource(0, 0)}


def test_the_folder_holds_what_the_protocol_serves(folder: Path) -> None:
    program = bundle().program
    files = {path.name for path in (folder / "artifacts").rglob("*") if path.is_file()}
    assert files == {
        program.file_hash().hex(),
        program.constants[0].hash.hex(),
        program.initial[0].hash.hex(),
    }
    job = json.loads((folder / "job.json").read_text())
    assert job["program_file"] == program.file_hash().hex()
    assert job["program_hash"] == bundle().terms.hash().hex()
    assert job["terms"]["structure_root"] == program.structure_root.hex()
    assert (job["terms"]["steps"], job["terms"]["strides"]) == (100, [10, 1])


def test_writing_again_changes_nothing(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    bundle().write(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_an_edited_job_is_refused(folder: Path) -> None:
    terms = json.loads((folder / "job.json").read_text())["terms"]
    edit(folder / "job.json", terms={**terms, "steps": 200})
    with pytest.raises(HashMismatch, match="not those of its program"):
        Bundle.read(folder)


def test_another_program_file_is_refused(folder: Path) -> None:
    file = folder / "program.cbor"
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(HashMismatch, match=r"not the file that job\.json names"):
        Bundle.read(folder)


def test_a_missing_tensor_is_unavailable(folder: Path) -> None:
    name = bundle().program.constants[0].hash.hex()
    next((folder / "artifacts").rglob(name)).unlink()
    with pytest.raises(Unavailable):
        Bundle.read(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "terms": 3}'])
def test_a_folder_that_is_no_bundle_is_refused(folder: Path, text: str) -> None:
    (folder / "job.json").write_text(text)
    with pytest.raises(InvalidInput):
        Bundle.read(folder)
    (folder / "job.json").unlink()
    with pytest.raises(InvalidEncoding, match="is not a bundle"):
        Bundle.read(folder)


def test_a_folder_in_which_a_file_is_missing_is_told_what_it_is(folder: Path, tmp_path: Path) -> None:
    (folder / "labels.json").unlink()
    with pytest.raises(InvalidEncoding, match="a file of it is missing; build it again"):
        Bundle.read(folder)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").touch()
    for name, words in (
        ("run", "it is a run; name the folder of the program"),
        ("runn", "there is no such folder"),
        ("", r"it has no job\.json; name a folder that a program was built to"),
    ):
        with pytest.raises(InvalidEncoding, match=words):
            Bundle.read(tmp_path / name)


@pytest.mark.parametrize("name", ["job.json", "labels.json", "program.cbor"])
def test_neither_a_pipe_nor_an_endless_file_is_read(folder: Path, name: str) -> None:
    os.truncate(folder / name, 1 << 40)
    with pytest.raises(InvalidInput, match="is not a file of at most"):
        Bundle.read(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(InvalidInput, match="is not a file of at most"):
        Bundle.read(folder)


def test_many_names_of_one_large_extra_are_refused_before_it_is_read(folder: Path) -> None:
    edit(folder / "labels.json", extras={f"x{number}": "00" * 32 for number in range(65)})
    with pytest.raises(InvalidInput, match="65 extra files of a program; the limit is 64"):
        Bundle.read(folder)


@pytest.mark.parametrize(
    "changes", [{"steps": "x"}, {"steps": 1.5}, {"strides": 7}, {"strides": ["a"]}, {"mode": ""}]
)
def test_terms_that_are_no_numbers_are_refused(folder: Path, changes: dict[str, Any]) -> None:
    terms = json.loads((folder / "job.json").read_text())["terms"]
    edit(folder / "job.json", terms=terms | changes)
    with pytest.raises(InvalidEncoding, match="its terms are no whole numbers"):
        Bundle.read(folder)


@pytest.mark.parametrize(
    "metrics", [None, [1], {"a": [1]}, {"a": "ab"}, {"a": [9, 0]}, {"a": [0, 9]}, {"a": [-1, 0]}]
)
def test_metrics_that_do_not_fit_the_program_are_left_out(folder: Path, metrics: Any) -> None:
    edit(folder / "labels.json", metrics=metrics)
    assert Bundle.read(folder).metrics == {}


def another() -> Bundle:
    """Return the bundle of another program: weight += weight."""
    add = Structure.make("add", [Operand(Kind.SLOT, 0)] * 2, [TensorType(F32, (3,))])
    program = Program((add,), (SlotSource(0, 0),), (), (TensorDescriptor.of(WEIGHT),))
    return Bundle("other", program, Terms.of(program, 100, (10, 1)), (), (WEIGHT,))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_bundle_of_another_program_is_not_written_over(folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(
        InvalidInput, match=r"holds the bundle of another program, 'tiny'; name another folder"
    ):
        another().write(folder)
    assert contents(folder) == before


def test_a_bundle_of_the_same_program_is_built_again(folder: Path) -> None:
    again = bundle()
    terms = Terms.of(again.program, 50, (10, 1))
    dataclasses.replace(again, terms=terms).write(folder)
    assert Bundle.read(folder).terms == terms


@pytest.mark.parametrize("name", ["program.cbor", "labels.json", "artifacts", "extras"])
def test_files_of_others_by_these_names_are_not_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(InvalidInput, match=f"is not a bundle and holds '{name}'"):
        bundle().write(tmp_path)
    assert contents(tmp_path) == {str(tmp_path / name): b"mine"}


@pytest.mark.parametrize("text", ["{}", "no JSON", '{"program_file": 5}'])
def test_a_job_of_others_is_not_written_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"job.json is not a bundle's"):
        bundle().write(tmp_path)
    assert contents(tmp_path) == {str(tmp_path / "job.json"): text.encode()}


@pytest.mark.parametrize(
    "name", [".made-by-assay", "job.json", "program.cbor", "labels.json", "artifacts", "extras"]
)
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    """A folder from elsewhere may hold links to what is the user's."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "notes").write_text("mine")
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / name).symlink_to(tmp_path / "own" / ("" if name in ("artifacts", "extras") else "notes"))
    with contextlib.suppress(InvalidInput):
        bundle().write(folder)
    assert contents(tmp_path / "own") == {str(tmp_path / "own" / "notes"): b"mine"}


@pytest.mark.parametrize("stopped_at", ["labels.json", "job.json"])
def test_what_is_left_of_an_interrupted_build_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_at: str
) -> None:
    """By whatever program: nobody can have used what was not whole."""
    replace = Path.replace

    def stop(path: Path, to: Path) -> Path:
        if to.name == stopped_at:
            raise KeyboardInterrupt
        return replace(path, to)

    folder = tmp_path / "job"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            bundle().write(folder)
    assert not (folder / "job.json").exists()
    another().write(folder)
    assert Bundle.read(folder).program == another().program
