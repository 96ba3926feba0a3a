"""Folders, arguments and labels that would be taken for something else, or load something else."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import transformers as hf
from PIL import Image

from assay_capture.huggingface import row_files
from assay_capture.huggingface.arguments.file import read_file
from assay_capture.huggingface.folder import Source, _check_config, causal_model
from assay_capture.huggingface.lora import Lora
from assay_capture.huggingface.row_files import read_rows
from assay_capture.huggingface.tokenized import numbered
from referee_py.errors import AssayError, InvalidEncoding, InvalidInput

from . import tiny
from .test_folder import TEXTS, arguments, jsonl, saved


@pytest.mark.parametrize(
    ("file", "lines", "words"),
    [
        ("config.json", {"transformers_weights": "sub/x.safetensors.index.json"}, "names a file of weights"),
        ("config.json", {"_attn_implementation": "evil/kernel"}, "asks for code of a hub"),
        ("config.json", {"text_config": {"attn_implementation": "evil/kernel"}}, "asks for code of a hub"),
        ("adapter_config.json", {"base_model_name_or_path": "/elsewhere"}, "holds an adapter.*merge"),
    ],
)
def test_a_folder_that_would_load_something_else_is_refused(
    file: str, lines: dict[str, Any], words: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "_attn_implementation": "sdpa"}')
    _check_config(tmp_path)
    (tmp_path / file).write_text(json.dumps(lines))
    with pytest.raises(InvalidInput, match=words):
        _check_config(tmp_path)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            {"n_layer": 20_000},
            r"asks for \d+ modules or more; the limit is \d+, as the files .* hold 28 tensors",
        ),
        (
            {"n_positions": 1 << 29},
            r"asks for tensors of \d+ bytes or more, weight \[536870912, 32\].*the limit",
        ),
        ({"vocab_size": 1 << 29}, r"asks for tensors of \d+ bytes or more"),
    ],
)
def test_a_configuration_asks_for_no_more_than_the_files_explain(
    lines: dict[str, Any], words: str, tmp_path: Path
) -> None:
    folder = saved(tiny.gpt2(), tmp_path / "model")
    rows = jsonl(tmp_path / "x.jsonl", TEXTS)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | lines))
    with pytest.raises(InvalidInput, match=words):
        causal_model(folder)
    with pytest.raises(InvalidInput, match=words):
        Source(folder, "causal-lm", [rows], arguments(tmp_path / "a.yaml")).recipe()
    (folder / "config.json").write_text(json.dumps(config))
    assert causal_model(folder), "nothing is counted after a refusal"


@pytest.mark.parametrize(
    "name", ["num_hidden_layers", "n_layer", "encoder_layers", "num_labels", "num_layers"]
)
def test_lists_of_any_length_are_not_made(name: str, tmp_path: Path) -> None:
    for place in ({name: 10**12}, {"text_config": {name: 10**12}}):
        (tmp_path / "config.json").write_text(json.dumps(place))
        with pytest.raises(
            InvalidInput, match=f"has {name} 1000000000000; the limit is 65536: give the number"
        ):
            _check_config(tmp_path)


def test_aliases_of_aliases_are_refused(tmp_path: Path) -> None:
    """Ten lines that would be printed as ten to the tenth words."""
    lines = ["lr_scheduler_kwargs:", "  a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"  a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 11)]
    (tmp_path / "a.yaml").write_text("\n".join([*lines, "learning_rate: *a10"]))
    with pytest.raises(InvalidInput, match=r"has an alias .* write its value"):
        read_file(tmp_path / "a.yaml")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dataloader_num_workers": "abc"}, r"a\.yaml"),
        ({"accelerator_config": "/nowhere.json"}, r"a\.yaml.*nowhere"),
        ({"lr_scheduler_type": "cosine", "lr_scheduler_kwargs": "{x: 1}"}, "cannot make its schedule.*'x'"),
        ({"max_steps": 0}, "max_steps is 0; give a whole number from 1"),
    ],
)
def test_values_of_a_wrong_kind_are_one_line_of_error(
    given: dict[str, Any], words: str, tmp_path: Path
) -> None:
    folder = saved(tiny.gpt2(), tmp_path / "model")
    rows = jsonl(tmp_path / "x.jsonl", TEXTS)
    with pytest.raises(AssayError, match=words):
        Source(folder, "causal-lm", [rows], arguments(tmp_path / "a.yaml", **given)).recipe()


# ------------------------------------------------------------------------------------------------------ labels


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (0.73, r"row 2: the label is 0\.73; number classes from 0.*from_trainer"),
        (float("nan"), "row 2: the label is nan"),
        (-1, "row 2: the label is -1; number classes from 0, and leave out rows"),
        ("", "row 2: the label is empty"),
        (" ", "row 2: the label is empty"),
    ],
)
def test_what_is_no_class_is_refused(label: Any, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(
        json.dumps({"text": "a", "label": 1}) + "\n" + json.dumps({"text": "b", "label": label})
    )
    with pytest.raises(InvalidInput, match=words):
        read_rows([tmp_path / "x.jsonl"], "sequence-classification")


def test_a_cell_without_a_label_is_no_class(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,label\na,good\nb,\n")
    with pytest.raises(InvalidInput, match="row 2: the label is empty"):
        read_rows([tmp_path / "x.csv"], "sequence-classification")


def test_whole_numbers_stay_numbers_in_a_column_of_fractions(tmp_path: Path) -> None:
    table = pa.table({"text": ["a"] * 11, "label": [float(k) for k in range(11)]})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    rows = read_rows([tmp_path / "x.parquet"], "sequence-classification")
    assert numbered([row["label"] for row in rows])[1] == {str(k): k for k in range(11)}


def test_tags_that_stand_for_nothing_are_refused(tmp_path: Path) -> None:
    jsonl(tmp_path / "x.jsonl", [{"tokens": ["a", "b"], "tags": [0, -100]}])
    with pytest.raises(InvalidInput, match="among the tags is -100"):
        read_rows([tmp_path / "x.jsonl"], "token-classification")


def test_a_model_keeps_the_order_of_its_classes() -> None:
    own = ["positive", "negative", "neutral"]
    assert numbered(["negative", "positive"], own) == (own, {"negative": 1, "positive": 0})
    assert numbered([0, 2, 2], own) == (own, {"0": 0, "2": 2})
    assert numbered([0, 3], own)[0] == ["0", "1", "2", "3"]
    assert numbered(["b", "a"], own) == (["a", "b"], {"a": 0, "b": 1})
    with pytest.warns(
        UserWarning, match="the model has the classes positive, negative, neutral, the data a, b, c"
    ):
        numbered(["a", "b", "c"], own)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbered(["a", "b"], ["LABEL_0", "LABEL_1"])
    with pytest.raises(InvalidInput, match=r"numbers such as 2\.5, and no classes"):
        numbered(["2.5", "1.0"])
    assert numbered(["-1", "1"])[0] == ["-1", "1"]


def test_a_head_that_was_trained_is_not_given_other_classes(tmp_path: Path) -> None:
    names = {0: "positive", 1: "negative"}
    model = tiny.bert(
        hf.BertForSequenceClassification, id2label=names, label2id={n: k for k, n in names.items()}
    )
    rows = [{**row, "label": names[k % 2]} for k, row in enumerate(TEXTS)]
    folder = saved(model, tmp_path / "model")
    found = Source(folder, "sequence-classification", [jsonl(tmp_path / "x.jsonl", rows)]).recipe(2, 1)
    config: Any = found.module.config
    assert config.id2label == names
    first = {tuple(row["text"].split()): k % 2 for k, row in enumerate(TEXTS)}
    vocabulary = dict(enumerate(tiny.VOCABULARY))
    for ids, mask, label in zip(
        *(found.data[n] for n in ("input_ids", "attention_mask", "labels")), strict=True
    ):
        words = tuple(vocabulary[k] for k, there in zip(ids, mask, strict=True) if there)
        assert first[words] == label


# ------------------------------------------------------------------------------------------------------ images


@pytest.mark.parametrize(
    ("file", "lines", "words"),
    [
        ("preprocessor_config.json", {"do_rescale": False}, "scales pixels otherwise"),
        ("preprocessor_config.json", {"rescale_factor": 1 / 127.5}, "scales pixels otherwise"),
        ("preprocessor_config.json", {"rescale_offset": True}, "scales pixels otherwise"),
        ("preprocessor_config.json", {"image_mean": 5}, "normalises by 5"),
        ("preprocessor_config.json", {"image_std": ["a"]}, "normalises by .'a'."),
        ("preprocessor_config.json", {"image_std": [float("nan")]}, "normalises by .nan."),
        ("preprocessor_config.json", {"image_std": [0.0]}, "a deviation is not 0"),
        ("config.json", {"model_type": "vit"}, "has image_size None"),
        ("config.json", {"model_type": "vit", "image_size": [8, "x"]}, "has image_size"),
        ("config.json", {"model_type": "vit", "image_size": 8.5}, "has image_size 8.5"),
        ("config.json", {"model_type": "vit", "image_size": 8, "num_channels": "x"}, "num_channels x"),
    ],
)
def test_images_that_would_be_read_otherwise_are_refused(
    file: str, lines: dict[str, Any], words: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "vit", "image_size": 8}')
    (tmp_path / file).write_text(json.dumps(lines))
    (tmp_path / "images" / "one").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "images" / "one" / "0.png")
    with pytest.raises(InvalidInput, match=words):
        Source(tmp_path, "image-classification", [tmp_path / "images"])._pictures()


# ------------------------------------------------------------------------------------------------- other limits


def test_a_small_file_of_a_large_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow.parquet.write_table(pa.table({"text": ["x" * 10_000] * 2_000}), tmp_path / "x.parquet")
    monkeypatch.setattr(row_files, "MAX_FILE_BYTES", 1 << 20)
    assert (tmp_path / "x.parquet").stat().st_size < 1 << 20
    with pytest.raises(InvalidInput, match="more than 1048576 bytes when it is unpacked"):
        read_rows([tmp_path / "x.parquet"], "masked-lm")


def test_a_column_twice_is_refused_and_a_long_text_is_not(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,text\na,b\n")
    with pytest.raises(InvalidEncoding, match=r"has 2 columns 'text'; leave out"):
        read_rows([tmp_path / "x.csv"], "masked-lm")
    (tmp_path / "x.csv").write_text(f"text\n{'x' * 200_000}\n")
    assert read_rows([tmp_path / "x.csv"], "masked-lm") == [{"text": "x" * 200_000}]


@pytest.mark.parametrize(
    "text", ["r=inf", "r=nan", "alpha=nan", "alpha=inf", "alpha=0", "alpha=-1", "r=8,r=16"]
)
def test_adapters_of_no_size_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="write r=16"):
        Lora.parse(text)


def test_every_target_of_an_adapter_must_be_there() -> None:
    with pytest.raises(InvalidInput, match=r"no layer is named 'w_proj'; the linear ones are .*q_proj"):
        Lora(targets=("q_proj", "w_proj")).applied(tiny.llama(), "causal-lm")
    assert Lora(targets=("q_proj", "layers.0.self_attn.v_proj")).applied(tiny.llama(), "causal-lm")
