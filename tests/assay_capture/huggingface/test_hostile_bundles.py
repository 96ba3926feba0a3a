"""Exports of a bundle from somebody else: nothing of it asks for code, stands in for the weights, or speaks for us."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from assay_capture.capture import SGD, Recipe, build
from assay_capture.huggingface.export import INDEX, UNREAD, check_export, export
from assay_capture.huggingface.plain_json import without_code
from referee_py.errors import InvalidEncoding, InvalidInput
from trainer_node.local.bundle import Bundle
from trainer_node.local.provenance import Provenance, local_run

from . import tiny

KNOWN = Provenance([("chain id", "7")], ["nothing"], ["everything"])
IDS = np.array(tiny.sentences(1, 3) * 8)[:, :3].repeat(3, axis=1)


@functools.cache
def story() -> tuple[Bundle, list[Any]]:
    """Return a bundle and its first state. NOTE: shared between tests, none of which changes it."""
    data = {"input_ids": IDS, "labels": IDS}
    recipe = Recipe("tiny", tiny.gpt2().train(), None, SGD(0.05), data, 2, 4, initial="module")
    bundle = build(recipe, check=False)
    return bundle, list(bundle.initial)


def with_files(**files: bytes) -> Bundle:
    bundle, _ = story()
    return replace(bundle, extras={**bundle.extras, **{n.replace("__", "."): d for n, d in files.items()}})


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ({"auto_map": {"AutoModel": "evil/repo--m.Evil"}}, ["auto_map"]),
        ({"custom_pipelines": {"x": {"impl": "p.P"}}}, ["custom_pipelines"]),
        ({"transformers_weights": "x.safetensors.index.json"}, ["transformers_weights"]),
        ({"_attn_implementation": "evil/kernel"}, ["_attn_implementation"]),
        ({"text_config": {"attn_implementation": "evil/kernel:run"}}, ["attn_implementation"]),
        ({"auto_mapping": {"parent_library": "antigravity", "base_model_class": "x"}}, ["auto_mapping"]),
        ({"auto_mapping": 5}, ["auto_mapping"]),
        ({"auto_mapping": {"parent_library": "transformers.models.vit", "base_model_class": "x"}}, []),
        ({"_attn_implementation": "sdpa", "auto_map": None}, []),
    ],
)
def test_lines_that_ask_for_code_are_left_out(lines: dict[str, Any], left: list[str]) -> None:
    data = json.dumps({"model_type": "gpt2", **lines}).encode()
    plain, found = without_code("config.json", data)
    assert found == [f"{name} of config.json" for name in left]
    assert plain == data or not any(name in plain.decode() for name in left)
    assert json.loads(plain)["model_type"] == "gpt2"
    assert without_code("vocab.txt", data) == (data, [])


def test_the_card_says_what_was_left_out(tmp_path: Path) -> None:
    bundle, state = story()
    config = json.loads(bundle.extras["config.json"]) | {"auto_map": {"AutoConfig": "evil.Evil"}}
    files = with_files(config__json=json.dumps(config).encode(), tokenizer_config__json=b"[" * 100_000)
    with pytest.raises(InvalidEncoding, match=r"tokenizer_config\.json of the bundle is not JSON"):
        export(files, state, tmp_path / "deep", KNOWN)
    export(with_files(config__json=json.dumps(config).encode()), state, tmp_path / "out", KNOWN)
    assert "auto_map" not in json.loads((tmp_path / "out" / "config.json").read_text())
    assert "was left out: auto_map of config.json" in (tmp_path / "out" / "README.md").read_text()


def test_no_file_has_other_weights_loaded(tmp_path: Path) -> None:
    """With `adapter_config.json` beside a model the library loads an adapter, too, and an index names other files."""
    adapter = json.dumps({"base_model_name_or_path": "evil/model"}).encode()
    _, state = story()
    bundle = with_files(adapter_config__json=adapter, model__safetensors__index__json=b"{}", vocab__txt=b"a")
    written = export(bundle, state, tmp_path, KNOWN)
    assert "vocab.txt" in written
    assert {path.name for path in tmp_path.iterdir()} == set(written)
    assert not {"adapter_config.json", "model.safetensors.index.json"} & set(written)


def test_the_card_names_tensors_that_the_program_does_not_have(tmp_path: Path) -> None:
    bundle, state = story()
    index = json.loads(bundle.extras[INDEX])
    key = "transformer.ln_f.weight"
    index["tensors"][key]["from"] = "evil"
    unread = save({"evil": np.full(32, 7, np.float32)})
    hostile = replace(bundle, extras={**bundle.extras, INDEX: json.dumps(index).encode(), UNREAD: unread})
    export(hostile, state, tmp_path / "out", KNOWN)
    assert (load_file(tmp_path / "out" / "model.safetensors")[key] == 7).all()
    card = (tmp_path / "out" / "README.md").read_text()
    assert "1 tensors that the program does not read, which come from the bundle as they are: evil." in card
    export(bundle, state, tmp_path / "honest", KNOWN)
    assert "come from the bundle" not in (tmp_path / "honest" / "README.md").read_text()


def test_names_cannot_write_the_card(tmp_path: Path) -> None:
    bundle, state = story()
    forged = "loss |\n\n## What was checked\n\n- everything ![x](http://evil/x.png) <img src=x>"
    known = local_run({"program hash": "00", forged: "1", "y" * 999: "2"})
    export(replace(bundle, name=forged), state, tmp_path, known)
    card = (tmp_path / "README.md").read_text()
    assert card.count("## What was checked") - card.count("  ## What was checked") <= 1
    assert sum(line.startswith("## What was checked") for line in card.splitlines()) == 1
    assert "![x](" not in card
    assert "<img" not in card
    assert "y" * 400 not in card
    assert f"| program hash | {bundle.terms.hash().hex()} |" in card


def test_an_index_that_names_one_tensor_too_often_is_refused(tmp_path: Path) -> None:
    bundle, _ = story()
    index = json.loads(bundle.extras[INDEX])
    index["tensors"] |= {f"copy.{k}": {"from": "param.transformer.wte.weight"} for k in range(1000)}
    hostile = replace(bundle, extras={**bundle.extras, INDEX: json.dumps(index).encode()})
    with pytest.raises(InvalidEncoding, match=r"asks for \d+ bytes; the limit is \d+"):
        check_export(hostile, tmp_path / "out")


def test_one_name_for_two_slots_is_refused(tmp_path: Path) -> None:
    bundle, state = story()
    slots = ["param.transformer.wte.weight", *bundle.labels["slots"][1:]]
    doubled = replace(bundle, labels={**bundle.labels, "slots": [slots[0]] * 2 + slots[2:]})
    with pytest.raises(InvalidInput, match="different names for"):
        export(doubled, state, tmp_path / "out", KNOWN)
