"""`assay program build --hf`: a model in a local folder, files of data, arguments; and back to a folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers as hf
from PIL import Image

from assay_capture.capture import CaptureError
from assay_capture.huggingface import library
from assay_capture.huggingface.arguments.file import read_file, training_arguments
from assay_capture.huggingface.folder import Source
from assay_capture.huggingface.lora import Lora
from assay_capture.huggingface.tokenized import examples
from referee_py.errors import InvalidEncoding, InvalidInput
from tests.conftest import Assay
from trainer_node.local.bundle import Bundle

from . import tiny

TEXTS = [{"text": " ".join(tiny.VOCABULARY[k] for k in row)} for row in tiny.sentences(24, 10)]
TEMPLATE = "{% for m in messages %}{{ m['role'][0] }} {{ m['content'] }} {% endfor %}"


def saved(model: Any, folder: Path, words: bool = True) -> Path:
    model.save_pretrained(folder)
    if words:
        tiny.tokenizer(chat_template=TEMPLATE, model_max_length=32).save_pretrained(folder)
    return folder


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def arguments(path: Path, **given: Any) -> Path:
    base = {"max_steps": 6, "per_device_train_batch_size": 4, "learning_rate": "5e-3", "warmup_steps": 1}
    path.write_text("".join(f"{name}: {value}\n" for name, value in (base | given).items()))
    return path


def test_from_a_folder_to_a_folder(assay: Assay, tmp_path: Path) -> None:
    saved(tiny.gpt2(), tmp_path / "model")
    jsonl(tmp_path / "texts.jsonl", TEXTS)
    arguments(tmp_path / "arguments.yaml", lr_scheduler_type="cosine", gradient_accumulation_steps=2)
    build = ("program", "build", "--hf", "model", "--task", "causal-lm", "--data", "texts.jsonl")
    code, output, errors = assay(*build, "--arguments", "arguments.yaml", "job")
    assert code == 0, errors
    assert "Loading weights" not in errors, "progress bars of the library are kept off the terminal"
    bundle = Bundle.read(tmp_path / "job")
    assert (bundle.name, bundle.terms.steps) == ("model", 6)
    assert bundle.terms.hash().hex() in output
    code, output, errors = assay("program", "run", "job", "--hf", "out", "--optimizer-state")
    assert code == 0, errors
    loaded, info = hf.AutoModelForCausalLM.from_pretrained("out", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    _, state = tiny.run(bundle)
    model = tiny.gpt2()
    tiny.put(model, bundle, state)
    for name, parameter in model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), parameter)
    assert hf.AutoTokenizer.from_pretrained("out")("a b")["input_ids"] == [6, 7]
    card = Path("out/README.md").read_text()
    assert "run root" in card
    assert "## The certificate\n\nThere is none: nobody else has checked this run." in card
    assert assay(*build, "--arguments", "arguments.yaml", "again")[0] == 0
    assert Bundle.read(tmp_path / "again").terms.hash() == bundle.terms.hash(), (
        "the same, whenever it is built"
    )


def test_adapters_from_a_folder(assay: Assay, tmp_path: Path) -> None:
    saved(tiny.llama(), tmp_path / "model")
    jsonl(tmp_path / "texts.jsonl", TEXTS)
    code, _, errors = assay(
        *("program", "build", "--hf", "model", "--task", "causal-lm", "--data", "texts.jsonl", "job"),
        *("--lora", "r=4,alpha=8,targets=q_proj,v_proj", "--packing", "--max-length", "16", "--steps", "3"),
    )
    assert code == 0, errors
    assert assay("program", "run", "job", "--hf", "out")[0] == 0
    base = hf.AutoModelForCausalLM.from_pretrained("model")
    loaded = peft.PeftModel.from_pretrained(base, "out")
    assert any(p.abs().sum() for n, p in loaded.named_parameters() if "lora_B" in n), "it was trained"


def recipe(tmp_path: Path, model: Any, task: str, rows: list[dict[str, Any]]) -> Any:
    folder = saved(model, tmp_path / "model")
    source = Source(folder, task, [jsonl(tmp_path / "rows.jsonl", rows)])
    return source.recipe(steps=2, seed=1)


def test_classes_are_those_of_the_data(tmp_path: Path) -> None:
    rows = [{**row, "label": ("good", "bad", "fair")[k % 3]} for k, row in enumerate(TEXTS)]
    found = recipe(tmp_path, tiny.bert(hf.BertForSequenceClassification), "sequence-classification", rows)
    assert found.module.config.id2label == {0: "bad", 1: "fair", 2: "good"}
    assert set(found.data["labels"][found.order.ravel()].tolist()) <= {0, 1, 2}


def test_tags_stand_at_the_first_token_of_a_word(tmp_path: Path) -> None:
    rows = [
        {"tokens": row["text"].split(), "tags": [k % 2 for k, _ in enumerate(row["text"].split())]}
        for row in TEXTS
    ]
    found = recipe(tmp_path, tiny.bert(hf.BertForTokenClassification), "token-classification", rows)
    assert found.module.num_labels == 2
    labels = found.data["labels"]
    assert set(labels.ravel().tolist()) == {-100, 0, 1}
    assert ((labels != -100) == (found.data["attention_mask"] == 1)).all()


def test_masks_and_translations(tmp_path: Path) -> None:
    masked = recipe(tmp_path, tiny.bert(hf.BertForMaskedLM), "masked-lm", TEXTS)
    assert (masked.data["labels"] != -100).any()
    assert (masked.data["labels"] == -100).any()
    config = hf.T5Config(
        vocab_size=32, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    rows = [{"source": row["text"], "target": row["text"][::-1]} for row in TEXTS]
    model = hf.T5ForConditionalGeneration(config)
    found = recipe(tmp_path, model, "seq2seq-lm", rows)
    assert {"input_ids", "attention_mask", "labels", "decoder_input_ids"} == set(found.data)


def test_images_are_normalised_as_the_folder_says(tmp_path: Path) -> None:
    config = hf.ViTConfig(
        image_size=8,
        patch_size=4,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    folder = saved(hf.ViTForImageClassification(config), tmp_path / "model", words=False)
    (folder / "preprocessor_config.json").write_text(
        '{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}'
    )
    for name, level in (("dark", 0), ("light", 255)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for k in range(4):
            Image.new("RGB", (8, 8), (level,) * 3).save(tmp_path / "images" / name / f"{k}.png")
    found: Any = Source(folder, "image-classification", [tmp_path / "images"]).recipe(2, 1)
    assert found.module.config.id2label == {0: "dark", 1: "light"}
    for pixels, label in zip(found.data["pixel_values"], found.data["labels"], strict=True):
        np.testing.assert_array_equal(pixels, np.full((3, 8, 8), (-1.0, 1.0)[label], np.float32))


def test_conversations_prompts_and_packs() -> None:
    words = tiny.tokenizer(chat_template=TEMPLATE)
    number = {word: k for k, word in enumerate(tiny.VOCABULARY)}
    rows = [{"messages": [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}]}]
    (talk,) = examples("causal-lm", rows, words, 99, packing=False).rows
    assert talk["input_ids"] == [number[word] for word in "uabac"]
    (asked,) = examples("causal-lm", [{"prompt": "a b", "completion": "c"}], words, 99, packing=False).rows
    assert asked["labels"] == [-100, -100, number["c"], number["</s>"]]
    packed = examples("causal-lm", [{"text": "a b"}, {"text": "c d e"}], words, 3, packing=True).rows
    assert [row["input_ids"] for row in packed] == [
        [number["a"], number["b"], number["</s>"]],
        [number["c"], number["d"], number["e"]],
    ]


# ---------------------------------------------------------------------------------------------------- refusals


def test_weights_that_would_be_unpickled_are_refused(tmp_path: Path) -> None:
    folder = saved(tiny.gpt2(), tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(InvalidInput, match=r"pytorch_model\.bin would be unpickled.*save_pretrained"):
        Source(folder, "causal-lm", []).recipe()


def test_a_folder_without_a_tokenizer_or_a_configuration_is_refused(tmp_path: Path) -> None:
    folder = saved(tiny.gpt2(), tmp_path / "model", words=False)
    with pytest.raises(InvalidInput, match=r"model holds no tokenizer.*save_pretrained"):
        Source(folder, "causal-lm", []).recipe()
    (folder / "config.json").write_text("{")
    with pytest.raises(InvalidEncoding, match=r"config\.json is not JSON.*save_pretrained"):
        Source(folder, "causal-lm", []).recipe()
    (folder / "config.json").unlink()
    with pytest.raises(InvalidInput, match=r"model holds no config\.json"):
        Source(folder, "causal-lm", []).recipe()


def test_refusals_need_no_library(tmp_path: Path) -> None:
    """Loading one takes seconds."""
    folder = saved(tiny.gpt2(), tmp_path / "model")
    jsonl(tmp_path / "x.jsonl", [{"text": None}])
    arguments(tmp_path / "a.yaml", optim="adamw_8bit")
    script = f"""
import sys
from pathlib import Path
from referee_py.errors import AssayError
from assay_capture.huggingface.folder import Source
for data, given in (("x.jsonl", None), ("y.jsonl", None), ("x.jsonl", Path("a.yaml"))):
    try:
        Source(Path({str(folder)!r}), "causal-lm", [Path(data)], given).recipe()
    except AssayError:
        print("refused")
print("torch" in sys.modules or "transformers" in sys.modules)
"""
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["refused"] * 3 + ["False"]


def test_the_library_may_speak_again_afterwards() -> None:
    talk = hf.utils.logging
    talk.enable_progress_bar()
    before = talk.get_verbosity()
    with library.quiet():
        assert (talk.get_verbosity(), talk.is_progress_bar_enabled()) == (talk.ERROR, False)
    assert (talk.get_verbosity(), talk.is_progress_bar_enabled()) == (before, True)


@pytest.mark.parametrize("name", ["evil.bin", "../other/model.safetensors", "/model.safetensors", 5, [1]])
def test_an_index_names_safetensors_of_its_folder_only(name: object, tmp_path: Path) -> None:
    folder = saved(tiny.gpt2(), tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    (folder / "evil.bin").write_bytes(b"x")
    index = {"metadata": {}, "weight_map": {"transformer.wte.weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InvalidInput, match=r"same folder only|does not say where weights are"):
        Source(folder, "causal-lm", [jsonl(tmp_path / "x.jsonl", TEXTS)]).recipe(2)


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("config.json", b"[]"),
        ("config.json", b'{"model_type": "gpt2", "n_head": 0}'),
        ("config.json", b'{"model_type": "gpt2", "vocab_size": "x"}'),
        ("model.safetensors", b""),
        ("model.safetensors", b"\xff" * 100),
    ],
)
def test_a_damaged_folder_is_one_line_of_error(file: str, data: bytes, tmp_path: Path) -> None:
    folder = saved(tiny.gpt2(), tmp_path / "model")
    (folder / file).write_bytes(data)
    with pytest.raises(InvalidInput, match=r"cannot be loaded for causal-lm|holds no object"):
        Source(folder, "causal-lm", [jsonl(tmp_path / "x.jsonl", TEXTS)]).recipe(2)


def test_nothing_is_sent_to_a_hub(tmp_path: Path) -> None:
    given = arguments(tmp_path / "a.yaml", push_to_hub=True, hub_model_id="a/b")
    assert not training_arguments(read_file(given), given, tmp_path, 2, None).push_to_hub


def test_code_of_the_folder_is_never_run(tmp_path: Path) -> None:
    folder = saved(tiny.gpt2(), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "evil",
        "auto_map": {name: f"evil.{name}" for name in ("AutoConfig", "AutoModelForCausalLM")},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(InvalidInput, match="cannot be loaded for causal-lm"):
        Source(folder, "causal-lm", [jsonl(tmp_path / "x.jsonl", TEXTS)]).recipe()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"learning_rat": 1}, "there is no argument 'learning_rat'; perhaps learning_rate"),
        ({"max_length": 8}, "max_length is set by --max-length"),
        ({"weight_decay": -1}, "weight_decay is -1; give a number from 0"),
        ({"weight_decay": ".nan"}, "weight_decay is nan; give a number from 0"),
        ({"learning_rate": "[1, 2]"}, "learning_rate is .1, 2.; give a number"),
        ({"learning_rate": ""}, "learning_rate is None; give a number"),
        ({"max_grad_norm": -1}, "max_grad_norm is -1; give a number from 0, which clips nothing"),
        ({"adam_beta2": 1}, "adam_beta2 is 1; give a number from 0 to below 1"),
        ({"max_steps": 4.5}, "max_steps is 4.5; give a whole number from 1"),
        ({"per_device_train_batch_size": 0}, "size is 0; give a whole number from 1"),
        ({"optim": "adamw_8bit"}, "optim is 'adamw_8bit', which has no counterpart; use one of adamw_torch"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast', no number"),
        ({"output_dir": "x"}, "output_dir is set by the last word"),
        ({"fp16": True}, "fp16"),
        ({"optim": "nowhere"}, "optim|nowhere"),
    ],
)
def test_arguments_that_cannot_be_are_refused(given: dict[str, Any], words: str, tmp_path: Path) -> None:
    folder = saved(tiny.gpt2(), tmp_path / "model")
    rows = jsonl(tmp_path / "x.jsonl", TEXTS)
    with pytest.raises((InvalidInput, CaptureError), match=words):
        Source(folder, "causal-lm", [rows], arguments(tmp_path / "a.yaml", **given)).recipe()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- 1", "holds a list, not names with values; write lines such as"),
        ("a: [", "cannot be read as YAML"),
        ("!!python/object:os.system {}", "cannot be read as YAML"),
        ("seed: 2020-99-99", "cannot be read as YAML"),
        pytest.param("seed: " + "9" * 5000, "cannot be read as YAML", id="a number of 5,000 digits"),
        ("learning_rate: 1\nlearning_rate: 5", "gives 'learning_rate' 2 times; keep one"),
        ("lr_scheduler_kwargs: {a: 1, a: 2}", "gives 'a' 2 times; keep one"),
    ],
)
def test_what_is_no_list_of_arguments_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InvalidEncoding, match=words):
        read_file(tmp_path / "a.yaml")


def test_a_file_of_arguments_may_be_empty_but_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch()
    assert read_file(tmp_path / "a.yaml") == {}
    with pytest.raises(InvalidInput, match=r"b\.yaml does not exist"):
        read_file(tmp_path / "b.yaml")


@pytest.mark.parametrize("text", ["r=0", "r=1.5", "r=x", "rank=4", "dropout=1", "alpha=1=2,alpha=3", "x"])
def test_adapters_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="write r=16"):
        Lora.parse(text)


def test_adapters_as_they_are_asked_for() -> None:
    assert Lora.parse("r=16, alpha=32,targets=q_proj,v_proj") == Lora(16, 32, 0.0, ("q_proj", "v_proj"))
    assert Lora.parse("targets=all-linear,dropout=0.5") == Lora(dropout=0.5)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("--hf", "m", "job"), "add --task"),
        (("--hf", "m", "--task", "causal-lm", "job"), "add --data"),
        (("--hf", "m", "--task", "causal-lm", "--data", "x", "gpt2-tiny", "job"), "there is no recipe"),
        (("--hf", "m", "--task", "x", "--data", "x", "job"), "choose causal-lm"),
        (("--hf", "m", "--task", "causal-lm", "--data", "x", "--lr", "1", "job"), "use --arguments"),
        (("--hf", "m", "--task", "causal-lm", "--data", "x", "job"), "m is not a folder"),
        (("--task", "causal-lm", "gpt2-tiny", "job"), "add --hf"),
        (("gpt2-tiny",), "name the folder"),
    ],
)
def test_commands_that_miss_something_are_refused(assay: Assay, command: tuple[str, ...], words: str) -> None:
    code, _, errors = assay("program", "build", *command)
    assert code == 2
    assert words in errors
