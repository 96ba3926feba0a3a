"""Results as folders: `from_pretrained` loads them with every key, and they compute what the program has computed."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers as hf
from safetensors.numpy import load_file
from safetensors.torch import save_file as save_model_file

from assay_capture.capture import SGD, Recipe, build
from assay_capture.huggingface.describe import _filed
from assay_capture.huggingface.export import INDEX, export
from referee_py.errors import HashMismatch, InvalidEncoding, InvalidInput, Unavailable
from trainer_node.local.bundle import Bundle
from trainer_node.local.provenance import Provenance, local_run

from . import tiny

KNOWN = Provenance([("chain id", "7")], ["nothing"], ["everything"])
IDS = np.array(tiny.sentences(1, 3) * 8)[:, :3].repeat(3, axis=1)
WORDS = {"input_ids": IDS, "labels": IDS}
CLASSES = {"input_ids": IDS, "labels": np.arange(8) % 2}
PIXELS = {
    "pixel_values": np.random.default_rng(0).normal(size=(8, 3, 16, 16)).astype(np.float32),
    "labels": np.arange(8) % 2,
}


def frozen_backbone() -> Any:
    """A classifier on a frozen encoder whose biases are equal: in the program they are one constant."""
    model = tiny.bert(hf.BertForSequenceClassification)
    for parameter in model.bert.parameters():
        parameter.requires_grad_(False)
    return model


def unread_head() -> Any:
    """A classifier whose frozen position embeddings are longer than any row: no node reads all of them."""
    model = tiny.bert(hf.BertForSequenceClassification)
    model.bert.pooler.dense.bias.requires_grad_(False)
    return model


def small(kind: str, config: Any) -> Callable[[], Any]:
    def make() -> Any:
        torch.manual_seed(0)
        return getattr(hf, kind)(config)

    return make


VOCABULARY = len(tiny.VOCABULARY)
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
RESNET = {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 1]}
QUICK = ("gpt2, tied", "llama", "bert, frozen", "resnet, running statistics")
"""The other ones are slow tests."""

MODELS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "gpt2, tied": (tiny.gpt2, WORDS),
    "llama": (tiny.llama, WORDS),
    "llama, tied": (lambda: tiny.llama(tie_word_embeddings=True), WORDS),
    "bert for masks": (lambda: tiny.bert(hf.BertForMaskedLM), WORDS),
    "bert, frozen": (frozen_backbone, CLASSES),
    "bert, unread head": (unread_head, CLASSES),
    "t5": (
        small(
            "T5ForConditionalGeneration",
            hf.T5Config(vocab_size=VOCABULARY, decoder_start_token_id=0, **T5),
        ),
        WORDS,
    ),
    "vit": (
        small(
            "ViTForImageClassification",
            hf.ViTConfig(image_size=16, patch_size=8, num_labels=2, **VIT, **tiny.NO_DROPOUT),
        ),
        PIXELS,
    ),
    "resnet, running statistics": (
        small("ResNetForImageClassification", hf.ResNetConfig(num_labels=2, **RESNET)),
        PIXELS,
    ),
}


def trained(model: Any, data: dict[str, Any], processor: Any = None) -> tuple[Bundle, list[Any]]:
    recipe = Recipe(
        "tiny",
        model.train(),
        None,
        SGD(0.05, momentum=0.9),
        data,
        3,
        4,
        initial="module",
        processor=processor,
    )
    bundle = build(recipe)
    return bundle, tiny.run(bundle)[1]


@functools.cache
def story() -> tuple[Bundle, list[Any]]:
    """Return a bundle and its result. NOTE: shared between tests, none of which changes it."""
    return trained(tiny.gpt2(), WORDS)


def check_equal(loaded: Any, model: Any, data: dict[str, Any]) -> None:
    inputs = {name: torch.from_numpy(array) for name, array in data.items()}
    with torch.no_grad():
        ours, theirs = (m.eval()(**inputs).logits for m in (loaded, model))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_the_library_loads_every_key(name: str, tmp_path: Path) -> None:
    make, data = MODELS[name]
    model = make()
    bundle, state = trained(model, data, tiny.tokenizer())
    bundle.write(tmp_path / "job")
    export(Bundle.read(tmp_path / "job"), state, tmp_path / "out", KNOWN)
    loaded, info = type(model).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info[part] for part in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    tiny.put(model, bundle, state)
    check_equal(loaded, model, data)
    assert hf.AutoTokenizer.from_pretrained(tmp_path / "out")("a b")["input_ids"] == [6, 7]
    model.save_pretrained(tmp_path / "own")
    own, ours = (load_file(tmp_path / folder / "model.safetensors") for folder in ("own", "out"))
    assert set(own) == set(ours)
    for key, array in own.items():
        np.testing.assert_array_equal(ours[key], array)


def test_auto_classes_know_the_model(tmp_path: Path) -> None:
    bundle, state = story()
    export(bundle, state, tmp_path, KNOWN)
    assert type(hf.AutoModelForCausalLM.from_pretrained(tmp_path)) is hf.GPT2LMHeadModel


@pytest.mark.parametrize(
    "name",
    [
        "gpt2, tied",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("llama, tied", "bert for masks", "t5")),
    ],
)
def test_a_model_without_its_head_loads_tied_weights(name: str, tmp_path: Path) -> None:
    """The model comes from files, where the library ties weights in another order than in a new model."""
    make, data = MODELS[name]
    made = make()
    made.save_pretrained(tmp_path / "own")
    model = type(made).from_pretrained(tmp_path / "own")
    bundle, state = trained(model, data)
    export(bundle, state, tmp_path / "out", KNOWN)
    own, ours = (set(load_file(tmp_path / folder / "model.safetensors")) for folder in ("own", "out"))
    assert own == ours
    for kind in (hf.AutoModel, type(made)):
        _, info = kind.from_pretrained(tmp_path / "out", output_loading_info=True)
        _, usual = kind.from_pretrained(tmp_path / "own", output_loading_info=True)
        assert not (info["missing_keys"] - usual["missing_keys"])  # BERT has a pooler that was never saved
        assert info["unexpected_keys"] == usual["unexpected_keys"]


def test_weights_that_somebody_has_tied_are_written_under_both_names(tmp_path: Path) -> None:
    model = tiny.llama()
    first, second = (layer.mlp for layer in model.model.layers)
    second.up_proj.weight = first.up_proj.weight
    bundle, state = trained(model, WORDS)
    export(bundle, state, tmp_path, KNOWN)
    loaded, info = hf.AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    tiny.put(model, bundle, state)
    check_equal(loaded, model, WORDS)


def test_an_adapter_is_written_without_its_base(tmp_path: Path) -> None:
    def make() -> Any:
        torch.manual_seed(1)
        config = peft.LoraConfig(
            r=4, target_modules=["query", "value"], task_type="SEQ_CLS", modules_to_save=["classifier"]
        )
        return peft.get_peft_model(tiny.bert(hf.BertForSequenceClassification), config)

    model = make()
    bundle, state = trained(model, CLASSES)
    files = export(bundle, state, tmp_path, KNOWN)
    assert set(files) == {"adapter_model.safetensors", "adapter_config.json", "README.md"}
    loaded = peft.PeftModel.from_pretrained(tiny.bert(hf.BertForSequenceClassification), tmp_path)
    tiny.put(model, bundle, state)
    check_equal(loaded, model, CLASSES)
    assert "the adapter only" in (tmp_path / "README.md").read_text()


def test_weights_of_bfloat16_stay_so(tmp_path: Path) -> None:
    model = tiny.llama().bfloat16()
    bundle, state = trained(model, WORDS)
    export(bundle, state, tmp_path, KNOWN)
    loaded = hf.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.dtype == torch.bfloat16
    tiny.put(model, bundle, state)
    for name, parameter in model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), parameter)


def test_seeded_weights_are_those_of_the_program(tmp_path: Path) -> None:
    """Frozen tensors were drawn from the seed, too: the module's own values are in no program."""
    model = frozen_backbone()
    bundle = build(Recipe("seeded", model, None, SGD(0.1), CLASSES, 2, 4))
    _, state = tiny.run(bundle)
    export(bundle, state, tmp_path, KNOWN)
    written = load_file(tmp_path / "model.safetensors")
    constants = dict(zip(bundle.labels["constants"], bundle.constants, strict=True))
    name = "bert.encoder.layer.0.attention.self.query.weight"
    np.testing.assert_array_equal(written[name], constants[f"frozen.{name}"])
    assert (written[name] != model.get_parameter(name).detach().numpy()).any()


def test_the_optimizer_s_state_is_written_on_request(tmp_path: Path) -> None:
    bundle, state = story()
    assert "optimizer.safetensors" in export(bundle, state, tmp_path, KNOWN, optimizer_state=True)
    moments = load_file(tmp_path / "optimizer.safetensors")
    assert set(moments) == {name for name in bundle.labels["slots"] if name.startswith("momentum.")}


def test_the_card_says_what_is_known_and_what_is_not(tmp_path: Path) -> None:
    bundle, state = story()
    export(bundle, state, tmp_path, local_run({"steps": "3 of 3"}))
    card = (tmp_path / "README.md").read_text()
    assert bundle.terms.hash().hex() in card
    assert "Nobody else has computed it" in card
    assert "There is no run root" in card
    assert hf.AutoConfig.from_pretrained(tmp_path).model_type == "gpt2"


def test_what_is_no_model_of_the_library_is_refused(tmp_path: Path) -> None:
    bundle, state = story()
    with pytest.raises(InvalidInput, match="not a model of transformers or peft"):
        export(replace(bundle, extras={}), state, tmp_path / "out", KNOWN)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    with pytest.raises(InvalidInput, match="holds files already"):
        export(bundle, state, tmp_path / "out", KNOWN)
    assert not build(
        Recipe("plain", torch.nn.Linear(3, 1), torch.nn.functional.mse_loss, SGD(0.1), PLAIN, 2, 2)
    ).extras


PLAIN = {"x": np.ones((4, 3), np.float32), "y": np.ones((4, 1), np.float32)}


def test_a_model_that_cannot_be_exported_is_built_all_the_same() -> None:
    model = tiny.gpt2()
    model.register_parameter("beside", torch.nn.Parameter(torch.zeros(3)))
    model.state_dict = lambda **_: {}
    with pytest.warns(UserWarning, match=r"cannot be exported: nothing in model\.safetensors is param\."):
        assert not trained(model, WORDS)[0].extras


# ------------------------------------------------------------------------------------------- hostile bundles


def with_index(bundle: Bundle, **changes: Any) -> Bundle:
    index = json.loads(bundle.extras[INDEX]) | changes
    return replace(bundle, extras={**bundle.extras, INDEX: json.dumps(index).encode()})


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"file": "../model.safetensors"},
        {"file": "config.json"},
        {"tensors": []},
        {"tensors": {"a\nb": {"from": "param.x"}}},
        {"tensors": {"a" * 600: {"from": "param.x"}}},
        {"tensors": {"a": {"from": 3}}},
        {"tensors": {"a": {"from": "param.nowhere"}}},
        {"tensors": {"a": None}},
    ],
)
def test_an_index_that_does_not_fit_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    bundle, state = story()
    with pytest.raises(InvalidEncoding):
        export(with_index(bundle, **changes), state, tmp_path / "out", KNOWN)
    assert not (tmp_path / "out").exists()


def test_files_that_are_no_plain_data_are_not_written(tmp_path: Path) -> None:
    bundle, state = story()
    added = {"modeling_evil.py": b"1", "weights.bin": b"2", "README.md": b"3", "model.safetensors": b"4"}
    files = export(replace(bundle, extras={**bundle.extras, **added}), state, tmp_path, KNOWN)
    assert {path.name for path in tmp_path.iterdir()} == set(files)
    assert not set(files) & {"modeling_evil.py", "weights.bin"}
    assert (tmp_path / "README.md").read_bytes() != b"3"
    assert len((tmp_path / "model.safetensors").read_bytes()) > 1


@pytest.mark.parametrize("name", ["../x.json", "/etc/x.json", ".hidden", "a/b.json", "", "x" * 65])
def test_a_name_that_could_be_a_path_is_refused(name: str) -> None:
    bundle, _ = story()
    with pytest.raises(InvalidInput, match="use a plain name"):
        replace(bundle, extras={name: b""})


def test_extras_are_checked_when_a_bundle_is_read(tmp_path: Path) -> None:
    bundle, _ = story()
    bundle.write(tmp_path)
    assert Bundle.read(tmp_path).extras == bundle.extras
    file = next((tmp_path / "extras").iterdir())
    file.write_bytes(b"other")
    with pytest.raises(HashMismatch, match="build the bundle again"):
        Bundle.read(tmp_path)
    file.unlink()
    with pytest.raises(Unavailable, match="is missing"):
        Bundle.read(tmp_path)


def test_experts_are_loaded_from_the_names_in_memory(tmp_path: Path) -> None:
    """Files of this family hold each expert by itself, memory holds them together."""
    torch.manual_seed(0)
    config = hf.MixtralConfig(
        vocab_size=16,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=2,
    )
    model = hf.MixtralForCausalLM(config)
    save_model_file(
        {key: tensor.detach() for key, tensor in _filed(model).items()}, tmp_path / "model.safetensors"
    )
    config.save_pretrained(tmp_path)
    loaded, info = hf.MixtralForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    for name, parameter in model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), parameter)
