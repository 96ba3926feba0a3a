"""A data set on disk: checked when it is read, and the same constants in a program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay_capture.datasets import Dataset, prove
from referee_py.commit import Tag, Tree, tensor_hash
from referee_py.errors import HashMismatch, InvalidEncoding, InvalidInput

X = np.arange(40, dtype=np.float32).reshape(20, 2)
Y = np.arange(20) % 3


def dataset() -> Dataset:
    return Dataset({"x": X, "y": Y}, {"source": "test"}, {"tokenizer.json": b"{}"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return dataset().write(tmp_path / "set")


def test_a_data_set_reads_back(folder: Path) -> None:
    again = Dataset.read(folder)
    assert list(again.tensors) == ["x", "y"]
    np.testing.assert_array_equal(again.tensors["x"], X)
    assert (again.origin, again.extras, again.rows) == ({"source": "test"}, {"tokenizer.json": b"{}"}, 20)
    assert again.root() == dataset().root() == Tree(Tag.CONSTANT_TREE, [tensor_hash(X), tensor_hash(Y)]).root


def test_the_root_sees_the_order_of_tensors(folder: Path) -> None:
    assert Dataset({"y": Y, "x": X}).root() != dataset().root()
    assert Dataset({"a": X, "b": Y}).root() == dataset().root(), "names are for people"


def test_the_same_data_set_is_the_same_files(folder: Path, tmp_path: Path) -> None:
    other = dataset().write(tmp_path / "other")
    for name in ("manifest.json", "data.safetensors", "tokenizer.json"):
        assert (folder / name).read_bytes() == (other / name).read_bytes()
    dataset().write(folder)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InvalidInput, match=r"thesis\.tex"):
        dataset().write(tmp_path)


def test_changed_data_is_refused(folder: Path) -> None:
    file = folder / "data.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    with pytest.raises(HashMismatch, match="its manifest says"):
        Dataset.read(folder)


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


TENSORS = [{"name": name, "hash": "0" * 64} for name in ("x", "y")]
BAD: dict[str, dict[str, Any]] = {
    "another format": {"format": 2},
    "tensors twice": {"tensors": [TENSORS[0], TENSORS[0]]},
    "a tensor that is not there": {"tensors": [{"name": "z", "hash": "0" * 64}]},
    "a name that is a path": {"tensors": [{"name": "../x", "hash": "0" * 64}]},
    "a hash that is none": {"tensors": [{"name": "x", "hash": "zz"}]},
    "a hash that is a number": {"tensors": [{"name": "x", "hash": 7}]},
    "no tensors": {"tensors": []},
    "tensors that are a number": {"tensors": 3},
    "an extra outside": {"extras": ["../secret"]},
    "an extra that is absolute": {"extras": ["/etc/passwd"]},
    "an extra that is missing": {"extras": ["vocabulary.txt"]},
    "extras that are numbers": {"extras": [1]},
    "an origin that is a list": {"origin": []},
    "another root": {"root": "0" * 64},
    "other hashes": {"tensors": TENSORS},
}


@pytest.mark.parametrize("name", BAD)
def test_a_changed_manifest_is_refused(name: str, folder: Path) -> None:
    (folder.parent / "secret").write_text("")
    edit(folder, **BAD[name])
    with pytest.raises((InvalidInput, HashMismatch)):
        Dataset.read(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, '{"format": 1}'])
def test_a_manifest_that_is_none_is_refused(text: str, folder: Path) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(InvalidEncoding, match="not a data set"):
        Dataset.read(folder)


BAD_TENSORS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "without tensors"),
    "rows that differ": ({"x": X, "y": Y[:-1]}, "as many rows each"),
    "a scalar": ({"x": np.float32(1).reshape(())}, "as many rows each"),
    "no row": ({"x": X[:0]}, "at least one"),
    "a value that is not finite": (
        {"x": np.where(X == 5, np.nan, X).astype(np.float32)},
        r"1 values that are not finite, the first at \[2, 1\]",
    ),
    "another dtype": ({"x": X.astype(np.float64)}, "float64"),
    "a bad name": ({"x/y": X}, "not a name of a tensor"),
}


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_what_is_no_data_set_is_refused(name: str) -> None:
    tensors, message = BAD_TENSORS[name]
    with pytest.raises(InvalidInput, match=message):
        Dataset(tensors)


def test_a_recipe_takes_its_tensors_and_a_row_is_proven_against_the_program(folder: Path) -> None:
    """The tensors of a data set are constants of the program, so the on-chain constant root commits to them."""
    torch = pytest.importorskip("torch")
    from assay_capture.capture import SGD, Recipe, build

    data = Dataset.read(folder)
    bundle = build(
        Recipe(
            name="moons",
            module=torch.nn.Linear(2, 3),
            loss=torch.nn.functional.cross_entropy,
            optimizer=SGD(0.1),
            data=data.tensors,
            steps=3,
            batch_size=4,
        )
    )
    hashes = [constant.hash for constant in bundle.program.constants]
    names = bundle.labels["constants"]
    assert [hashes[names.index(f"data.{name}")] for name in data.tensors] == list(data.hashes().values())
    places = {names.index(f"data.{name}"): array for name, array in data.tensors.items()}
    found = prove(places, hashes, 7).verify(bundle.terms.constant_root, 7)
    assert [found[k].tolist() for k in places] == [X[7].tolist(), 1]
