"""A model in a local folder, files of data and a file of arguments, as the recipe of a training run.

config.json, *.safetensors, tokenizer ──> model, LoRA ─┐
.jsonl .csv .parquet, folder of images ──> examples ───┼──> Trainer ──> recipe
arguments.yaml ────────────────────────────────────────┘

SAFETY: nothing is downloaded, no code of the folder is run, and weights that would be unpickled are refused.
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from pydantic_core import from_json

from referee_py.errors import InvalidInput

from ..capture.recipe import Recipe
from ..datasets import read_images
from ..errors import ConfigError
from .arguments import read_arguments
from .lora import Lora
from .text import Examples, examples, read_rows

TASKS = {
    "causal-lm": "AutoModelForCausalLM",
    "masked-lm": "AutoModelForMaskedLM",
    "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "sequence-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "image-classification": "AutoModelForImageClassification",
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Source:
    """What a run is made from: folder of the model, task, data, arguments. `length` is the most tokens of a row."""

    folder: Path
    task: str
    data: Sequence[Path]
    arguments: Path | None = None
    lora: Lora | None = None
    length: int | None = None
    packing: bool = False
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise InvalidInput(f"task {self.task!r}; choose {', '.join(TASKS)}")
        if self.dtype not in DTYPES:
            raise InvalidInput(f"dtype {self.dtype!r}; choose {' or '.join(DTYPES)}")

    def recipe(self, steps: int | None = None, seed: int | None = None) -> Recipe:
        """Return the recipe. Raises InvalidInput, InvalidEncoding, ConfigError or CaptureError."""
        _check_folder(self.folder)
        library = _library()
        with tempfile.TemporaryDirectory() as scratch:
            arguments = read_arguments(self.arguments, Path(scratch), steps, seed)
            library.set_seed(
                arguments.seed
            )  # NOTE: heads that the folder does not have, and adapters, are drawn
            images = self.task == "image-classification"
            processor = None if images else self._load(library.AutoTokenizer)
            found = self._images() if images else self._texts(processor)
            model = self._model(library, found.classes)
            trainer = library.Trainer(
                model,
                arguments,
                _collator(library, self.task, processor, model),
                found.rows,
                processing_class=processor,
            )
            return replace(Recipe.from_trainer(trainer, self.folder.resolve().name), processor=processor)

    def _load(self, kind: Any, **options: Any) -> Any:
        try:
            return kind.from_pretrained(
                self.folder, local_files_only=True, trust_remote_code=False, **options
            )
        except Exception as error:  # NOTE: the library's code on files of others, with errors of every kind
            reason = " ".join(str(error).split())[:300]
            raise InvalidInput(f"{self.folder} cannot be loaded for {self.task}: {reason}") from error

    def _model(self, library: Any, classes: Sequence[str]) -> Any:
        options: dict[str, Any] = {"use_safetensors": True, "dtype": DTYPES[self.dtype]}
        if classes:
            options |= {
                "num_labels": len(classes),
                "id2label": dict(enumerate(classes)),
                "label2id": {name: k for k, name in enumerate(classes)},
                "ignore_mismatched_sizes": True,
            }
        model = self._load(getattr(library, TASKS[self.task]), **options)
        return model if self.lora is None else self.lora.applied(model, self.task)

    def _texts(self, tokenizer: Any) -> Examples:
        if tokenizer.pad_token is None:
            if tokenizer.eos_token is None:
                raise InvalidInput(
                    f"the tokenizer of {self.folder} has no token to pad with; add a pad_token"
                )
            tokenizer.pad_token = tokenizer.eos_token
        return examples(self.task, read_rows(self.data), tokenizer, self._length(tokenizer), self.packing)

    def _length(self, tokenizer: Any) -> int:
        """Return the most tokens of a row: what was asked for, within what model and tokenizer take."""
        config = json.loads((self.folder / "config.json").read_bytes())
        places = [config.get(name) for name in ("max_position_embeddings", "n_positions")]
        known = [n for n in (*places, tokenizer.model_max_length) if isinstance(n, int) and 0 < n < 1 << 30]
        if self.length is None and not known:
            raise InvalidInput("model and tokenizer do not say how long a row may be; add --max-length")
        if self.length is not None and known and not 1 < self.length <= min(known):
            raise InvalidInput(
                f"--max-length {self.length}; this model takes rows of 2 to {min(known)} tokens"
            )
        return self.length or min(known)

    def _images(self) -> Examples:
        """Return the images of a folder with one folder for each class, scaled and normalised for the model."""
        if len(self.data) != 1:
            raise InvalidInput(
                "images come from one folder, with one folder for each class; give --data once"
            )
        config = json.loads((self.folder / "config.json").read_bytes())
        size, channels = config.get("image_size"), config.get("num_channels", 3)
        side = (size, size) if isinstance(size, int) else tuple(size or ())
        if len(side) != 2:
            raise InvalidInput(f"{self.folder / 'config.json'} has no image_size; add one")
        images = read_images(self.data[0], (int(side[0]), int(side[1])), channels)
        mean, deviation = (torch.tensor(v).reshape(-1, 1, 1) for v in _normalisation(self.folder, channels))
        pixels = (torch.from_numpy(images.tensors["x"]) - mean) / deviation
        rows = [
            {"pixel_values": x, "labels": int(y)} for x, y in zip(pixels, images.tensors["y"], strict=True)
        ]
        return Examples(rows, [str(name) for name in images.origin["classes"]])


def _library() -> Any:
    # NOTE: read when the library is imported; what is loaded later is also told to stay local.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        importlib.import_module("accelerate")
        return importlib.import_module("transformers")
    except ImportError as error:
        raise ConfigError(
            f"this needs {error.name}; install it with: pip install 'assay-referee[huggingface]'"
        ) from error


def _check_folder(folder: Path) -> None:
    """Raise InvalidInput unless the folder holds a configuration and weights that need no unpickling."""
    if not (folder / "config.json").is_file():
        raise InvalidInput(f"{folder} holds no config.json; name the folder of a model of transformers")
    if not any(folder.glob("*.safetensors")):
        pickled = sorted(
            path.name for path in folder.iterdir() if path.suffix in (".bin", ".pt", ".pth", ".ckpt")
        )
        remedy = (
            f"{pickled[0]} would be unpickled, which can run any code; where you trust it, load it and write it "
            "with save_pretrained"
            if pickled
            else "write them with save_pretrained"
        )
        raise InvalidInput(f"{folder} holds no weights as safetensors: {remedy}")
    for path in folder.glob("*.index.json"):
        _check_index(path)


def _check_index(path: Path) -> None:
    """SAFETY: the library opens whatever an index of weights names, anywhere, and unpickles what is no safetensors."""
    try:
        names = set(from_json(path.read_bytes())["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{path} does not say where weights are: {error}; write it again") from error
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            raise InvalidInput(
                f"{path} names {str(name)[:80]!r}; weights are read from safetensors of the same folder only: write "
                "them again with save_pretrained"
            )


def _normalisation(folder: Path, channels: int) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each channel; 0 and 1 if the folder does not say."""
    path = folder / "preprocessor_config.json"
    found = json.loads(path.read_bytes()) if path.is_file() else {}
    mean, deviation = found.get("image_mean", [0.0]), found.get("image_std", [1.0])
    if not found.get("do_normalize", True):
        mean, deviation = [0.0], [1.0]
    if not all(len(values) in (1, channels) for values in (mean, deviation)) or not all(deviation):
        raise InvalidInput(f"{path} normalises {len(mean)} channels; the model has {channels}")
    return mean, deviation


def _collator(library: Any, task: str, processor: Any, model: Any) -> Any:
    match task:
        case "masked-lm":
            return library.DataCollatorForLanguageModeling(processor)
        case "causal-lm":
            return library.DataCollatorForSeq2Seq(processor)
        case "seq2seq-lm":
            return library.DataCollatorForSeq2Seq(processor, model=model)
        case "token-classification":
            return library.DataCollatorForTokenClassification(processor)
        case "sequence-classification":
            return library.DataCollatorWithPadding(processor)
    return library.default_data_collator
