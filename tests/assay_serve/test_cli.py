"""The command says what is wrong with folder, keys, port and limits before it serves."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest
import torch

from assay_serve.model import Model
from referee_py.errors import InvalidInput

from ..conftest import Assay
from . import tiny


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "nowhere is not a folder"),
        ((".",), "holds no config.json"),
        ((".", "--keys", "nowhere"), "cannot be read as API keys"),
        ((".", "--keys", "empty"), "has 0 API keys"),
        ((".", "--password-file", "empty"), "add --keystore KEY"),
        ((".", "--host", "192.0.2.1"), "cannot be listened at"),
        ((".", "--rows", "0"), "rows"),
        ((".", "--seconds", "0"), "seconds"),
    ],
)
def test_a_wrong_start_is_one_line(assay: Assay, arguments: tuple[str, ...], words: str) -> None:
    Path("empty").write_text("\n \n")
    code, _, errors = assay("serve", *arguments, *(() if "--host" in arguments else ("--port", "0")))
    assert code != 0
    assert words in errors


def test_a_port_that_is_taken_is_said_before_the_model_is_loaded(assay: Assay) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, errors = assay("serve", "nowhere", "--port", taken.getsockname()[1])
    assert (code != 0, "choose --port" in errors) == (True, True)


def test_places_are_at_most_those_of_the_model(folder: Path) -> None:
    for places in (-1, 0, 1, tiny.PLACES + 1, 1 << 47):
        with pytest.raises(InvalidInput, match="places"):
            Model.load(folder, places)


def test_weights_that_are_missing_are_not_drawn(tmp_path: Path) -> None:
    """The attack: a folder that lacks a matrix would be served with another one at each start."""
    from safetensors.numpy import load_file, save_file

    path = tiny.write(tmp_path / "tiny") / "model.safetensors"
    tensors = load_file(path)
    tensors.pop("model.layers.1.mlp.up_proj.weight")
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(InvalidInput, match=r"no values of this shape for model.layers.1.mlp.up_proj.weight"):
        Model.load(tmp_path / "tiny")


def test_the_identity_follows_from_everything_that_an_answer_depends_on(
    folder: Path, model: Model, tmp_path: Path
) -> None:
    roots = {model.identity.root, Model.load(folder, 64).identity.root}
    plain = tiny.write(tmp_path / "plain", template=None)
    assert Model.load(plain).template is None
    roots.add(Model.load(plain).identity.root)
    other = tiny.write(tmp_path / "other")
    (other / "tokenizer.json").write_bytes((other / "tokenizer.json").read_bytes() + b" ")
    roots.add(Model.load(other).identity.root)
    assert len(roots) == 4
    assert Model.load(tiny.write(tmp_path / "again")).identity == model.identity


def test_a_model_has_its_weights_once(folder: Path) -> None:
    """All programs and the module share them; weights that are equal by chance do not share memory in the module."""
    model = Model.load(folder)
    one, many = model.one.constants, model.writing(2).constants
    assert sum(np.shares_memory(a, b) for a in one for b in many) >= len(one) - 2
    weights = [weight.detach().numpy() for weight in model.module.parameters()]
    assert sum(any(np.shares_memory(w, c) for c in one) for w in weights if w.ndim > 1) >= 14
    assert not any(np.shares_memory(a, b) for k, a in enumerate(weights) for b in weights[:k])
    fresh = dict(Model.load(folder).module.named_parameters())
    assert all(torch.equal(weight, fresh[name]) for name, weight in model.module.named_parameters())
