"""A model in a local folder, files of data and a file of arguments, as the recipe of a training run.

config.json, *.safetensors, tokenizer ──> model, LoRA ─┐
.jsonl .csv .parquet, folder of images ──> examples ───┼──> Trainer ──> recipe
arguments.yaml ────────────────────────────────────────┘

SAFETY: nothing is downloaded, no code of the folder is run, and weights that would be unpickled are refused.
"""

from __future__ import annotations

import math
import re
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic_core import from_json

from referee_py.errors import AssayError, InvalidEncoding, InvalidInput
from trainer_node.storage.untrusted_file import read_plain

from ..datasets import read_images
from . import library
from .arguments.file import read_file, training_arguments
from .lora import Lora
from .plain_json import IMPLEMENTATIONS
from .row_files import Row, read_rows

if TYPE_CHECKING:  # these load PyTorch, which takes seconds
    from ..capture.recipe import Recipe
    from .tokenized import Examples

TASKS = {
    "causal-lm": "AutoModelForCausalLM",
    "masked-lm": "AutoModelForMaskedLM",
    "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "sequence-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "image-classification": "AutoModelForImageClassification",
}
DTYPES = ("float32", "bfloat16")
_MAX_JSON_BYTES = 64 << 20
_COUNTS = re.compile(r"(num|n)_(\w+_)?layers?|(encoder|decoder)_layers|num_labels")
_MAX_COUNT = 1 << 16
"""Most layers or classes: the library makes lists of so many before it builds a model."""
_TOKENIZER_FILES = (
    "tokenizer*",
    "vocab*",
    "*.model",
    "*.spm",
    "*.tiktoken",
    "spiece*",
    "special_tokens_map.json",
)


@dataclass(frozen=True)
class Source:
    """Inputs of a run: folder of the model, task, data, arguments. `length` is the most tokens of a row."""

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
        if self.packing and self.task != "causal-lm":
            raise InvalidInput(f"--packing is for causal-lm; leave it out for {self.task}")

    def recipe(self, steps: int | None = None, seed: int | None = None) -> Recipe:
        """Return the recipe. Raises InvalidInput, InvalidEncoding, ConfigError or CaptureError.

        What needs no library is checked before one is loaded, which takes seconds.
        """
        if steps is not None and steps < 1:
            raise InvalidInput(f"--steps {steps}; a run has at least one step")
        _check_folder(self.folder, tokenizer=not self._images)
        given = read_file(self.arguments)
        if self._images:
            _check_images(self.data)
        rows = [] if self._images else read_rows(self.data, self.task)
        hf = library.load()
        from ..capture.recipe import Recipe

        with tempfile.TemporaryDirectory() as scratch, library.quiet():
            arguments = training_arguments(given, self.arguments, Path(scratch), steps, seed)
            hf.set_seed(arguments.seed)  # NOTE: heads that the folder does not have, and adapters, are drawn
            processor = None if self._images else self._load(hf.AutoTokenizer)
            found = self._pictures() if self._images else self._texts(rows, processor)
            model = self._model(hf, found.classes)
            collator = _collator(hf, self.task, processor, model)
            try:
                trainer = hf.Trainer(model, arguments, collator, found.rows, processing_class=processor)
                recipe = Recipe.from_trainer(trainer, self.folder.resolve().name)
            except AssayError:
                raise
            except Exception as error:  # NOTE: arguments of a wrong type are found where they are used
                reason = " ".join(str(error).split())[:300]
                raise InvalidInput(
                    f"{self.arguments or 'the arguments'}: the library cannot train so: {type(error).__name__}: "
                    f"{reason}; check the values of the arguments"
                ) from error
            return replace(recipe, processor=processor)

    @property
    def _images(self) -> bool:
        return self.task == "image-classification"

    def _load(
        self, kind: Any, within: Callable[[Path], AbstractContextManager[Any]] | None = None, **options: Any
    ) -> Any:
        try:
            with within(self.folder) if within else nullcontext():
                return kind.from_pretrained(
                    self.folder, local_files_only=True, trust_remote_code=False, **options
                )
        except AssayError:
            raise
        except Exception as error:  # NOTE: the library's code on files of others, with errors of every kind
            reason = " ".join(str(error).split())[:300]
            raise InvalidInput(f"{self.folder} cannot be loaded for {self.task}: {reason}") from error

    def _load_model(self, kind: Any, **options: Any) -> Any:
        """Return a model, and what was not in the files, within the size that the files explain."""
        from .size import bounded

        return self._load(kind, bounded, output_loading_info=True, **options)

    def _model(self, hf: Any, classes: Sequence[str]) -> Any:
        options: dict[str, Any] = {"use_safetensors": True, "dtype": self.dtype}
        if classes:
            options |= {
                "num_labels": len(classes),
                "id2label": dict(enumerate(classes)),
                "label2id": {name: k for k, name in enumerate(classes)},
                "ignore_mismatched_sizes": True,
            }
        model, info = self._load_model(getattr(hf, TASKS[self.task]), **options)
        drawn = sorted({*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])})
        if drawn:
            warnings.warn(
                f"{self.folder} has no values of this shape for {', '.join(drawn[:4])}"
                f"{f' and {len(drawn) - 4} more' if len(drawn) > 4 else ''}: they are drawn from the seed",
                stacklevel=3,
            )
        return model if self.lora is None else self.lora.applied(model, self.task)

    def _texts(self, rows: Sequence[Row], tokenizer: Any) -> Examples:
        from .tokenized import examples

        if tokenizer.pad_token is None:
            if tokenizer.eos_token is None:
                raise InvalidInput(
                    f"the tokenizer of {self.folder} has no token to pad with; add a pad_token"
                )
            tokenizer.pad_token = tokenizer.eos_token
        own = _own_classes(self.folder)
        return examples(self.task, rows, tokenizer, self._length(tokenizer), self.packing, own)

    def _length(self, tokenizer: Any) -> int:
        """Return the most tokens of a row: what was asked for, within what model and tokenizer take."""
        config = _read_object(self.folder / "config.json")
        places = [config.get(name) for name in ("max_position_embeddings", "n_positions")]
        known = [n for n in (*places, tokenizer.model_max_length) if isinstance(n, int) and 0 < n < 1 << 30]
        if self.length is None and not known:
            raise InvalidInput("model and tokenizer do not say how long a row may be; add --max-length")
        if self.length is not None and known and not 1 < self.length <= min(known):
            raise InvalidInput(
                f"--max-length {self.length}; this model takes rows of 2 to {min(known)} tokens"
            )
        return self.length or min(known)

    def _pictures(self) -> Examples:
        """Return the images of a folder with one folder for each class, scaled and normalised for the model."""
        from .tokenized import Examples

        config = _read_object(self.folder / "config.json")
        size, channels = config.get("image_size"), config.get("num_channels", 3)
        side: list[Any] = size if isinstance(size, list) else [size, size]
        if len(side) != 2 or any(type(n) is not int for n in (*side, channels)):
            raise InvalidInput(
                f"{self.folder / 'config.json'} has image_size {str(size)[:80]} and num_channels "
                f"{str(channels)[:80]}; give a whole number, or two for height and width"
            )
        images = read_images(self.data[0], (side[0], side[1]), channels)
        mean, deviation = (
            np.array(v, np.float32).reshape(-1, 1, 1) for v in _normalisation(self.folder, channels)
        )
        pixels = (images.tensors["x"] - mean) / deviation
        folders = [str(name) for name in images.origin["classes"]]
        own = _own_classes(self.folder)
        classes = own if set(folders) <= set(own) else folders  # NOTE: a head that is trained keeps its order
        numbers = {name: k for k, name in enumerate(classes)}
        rows = [
            {"pixel_values": x, "labels": numbers[folders[y]]}
            for x, y in zip(pixels, images.tensors["y"], strict=True)
        ]
        return Examples(rows, classes)


def causal_model(folder: Path) -> tuple[Any, Any]:
    """Return the causal language model of a folder, in f32, and its tokenizer. Raises InvalidInput, ConfigError."""
    _check_folder(folder, tokenizer=True)
    hf, source = library.load(), Source(folder, "causal-lm", ())
    with library.quiet():
        options: dict[str, Any] = {"use_safetensors": True, "dtype": "float32"}
        model, info = source._load_model(hf.AutoModelForCausalLM, **options)
        if missing := sorted({*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])}):
            raise InvalidInput(
                f"{folder} has no values of this shape for {', '.join(missing[:4])}; write the whole model with "
                "save_pretrained"
            )
        return model, source._load(hf.AutoTokenizer)


def tokenizer_files(folder: Path) -> list[Path]:
    """Return the files of a folder's tokenizer, by name."""
    return sorted({path for pattern in _TOKENIZER_FILES for path in folder.glob(pattern) if path.is_file()})


def _check_folder(folder: Path, tokenizer: bool) -> None:
    """Raise InvalidInput unless the folder holds a configuration, weights that need no unpickling, and a tokenizer."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder; name the folder of a model of transformers")
    if not (folder / "config.json").is_file():
        raise InvalidInput(f"{folder} holds no config.json; name the folder of a model of transformers")
    _check_config(folder)
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
    if tokenizer and not any(path for pattern in _TOKENIZER_FILES for path in folder.glob(pattern)):
        raise InvalidInput(
            f"{folder} holds no tokenizer (tokenizer.json); write that of the model there, with "
            f"AutoTokenizer.from_pretrained(...).save_pretrained({str(folder)!r})"
        )


def _check_config(folder: Path) -> None:
    """Raise InvalidInput for a configuration that makes the library load something else than this folder's model."""
    path, config = folder / "config.json", _read_object(folder / "config.json")
    # SAFETY: it would follow an index of weights in a folder below, which nobody has looked at.
    if config.get("transformers_weights"):
        raise InvalidInput(
            f"{path} names a file of weights (transformers_weights); write it with save_pretrained again"
        )
    # SAFETY: with a slash, the name of an implementation is that of a package of code on a hub.
    for place in (config, *(part for part in config.values() if isinstance(part, dict))):
        for name in IMPLEMENTATIONS:
            if "/" in str(place.get(name, "")):
                raise InvalidInput(
                    f"{path} asks for code of a hub ({name}: {str(place[name])[:80]}); take that line out"
                )
        for name, value in place.items():
            if type(value) is int and value > _MAX_COUNT and _COUNTS.fullmatch(name):
                raise InvalidInput(
                    f"{path} has {name} {value}; the limit is {_MAX_COUNT}: give the number that the model has"
                )
    if (folder / "adapter_config.json").exists():
        raise InvalidInput(
            f"{folder} holds an adapter next to the model (adapter_config.json), which would be loaded, too; move it "
            "away, or merge it with merge_and_unload() and save_pretrained"
        )


def _own_classes(folder: Path) -> list[str]:
    """Return the names of the classes that the model has, in their order; none if the folder does not say."""
    known = _read_object(folder / "config.json").get("id2label")
    names = [known.get(str(k)) for k in range(len(known))] if isinstance(known, dict) else []
    plain = [name for name in names if isinstance(name, str)]
    return plain if len(set(plain)) == len(names) else []


def _check_index(path: Path) -> None:
    """SAFETY: the library opens whatever an index of weights names, anywhere, and unpickles what is not safetensors."""
    files = _read_object(path).get("weight_map")
    if not isinstance(files, dict):
        raise InvalidInput(f"{path} does not say where weights are; write them with save_pretrained again")
    for name in files.values():
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            raise InvalidInput(
                f"{path} names {str(name)[:80]!r}; weights are read from safetensors of the same folder only: write "
                "them with save_pretrained again"
            )


def _read_object(path: Path) -> dict[str, Any]:
    """Return a file of JSON. Raises InvalidEncoding."""
    try:
        # SAFETY: this parser limits nesting; json.loads overflows the C stack on a file of brackets.
        found = from_json(read_plain(path, _MAX_JSON_BYTES))
    except ValueError as error:
        raise InvalidEncoding(f"{path} is not JSON: {error}; write it with save_pretrained again") from error
    if not isinstance(found, dict):
        raise InvalidEncoding(f"{path} holds no object {{...}}; write it with save_pretrained again")
    return found


def _check_images(data: Sequence[Path]) -> None:
    if len(data) != 1 or not data[0].is_dir():
        raise InvalidInput(
            f"--data {', '.join(map(str, data))}; images come from one folder, with one folder for each class"
        )


def _normalisation(folder: Path, channels: int) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each channel; 0 and 1 if the folder does not say."""
    path = folder / "preprocessor_config.json"
    found = _read_object(path) if path.is_file() else {}
    factor = found.get("rescale_factor", 1 / 255)
    if not found.get("do_rescale", True) or found.get("rescale_offset") or factor != 1 / 255:
        raise InvalidInput(
            f"{path} scales pixels otherwise than from 0 to 1 (do_rescale, rescale_factor, rescale_offset); images are "
            "scaled so here: use Recipe.from_trainer with this processor"
        )
    mean, deviation = found.get("image_mean") or [0.0], found.get("image_std") or [1.0]
    if not found.get("do_normalize", True):
        mean, deviation = [0.0], [1.0]
    for values in (mean, deviation):
        numbers = isinstance(values, list) and all(
            type(n) in (int, float) and math.isfinite(n) for n in values
        )
        if not numbers or len(values) not in (1, channels):
            raise InvalidInput(
                f"{path} normalises by {str(values)[:80]}; give a list of one number, or of {channels}"
            )
    if not all(deviation):
        raise InvalidInput(f"{path} divides by {deviation}; a deviation is not 0")
    return mean, deviation


def _collator(hf: Any, task: str, processor: Any, model: Any) -> Any:
    match task:
        case "masked-lm":
            return hf.DataCollatorForLanguageModeling(processor)
        case "causal-lm":
            return hf.DataCollatorForSeq2Seq(processor)
        case "seq2seq-lm":
            return hf.DataCollatorForSeq2Seq(processor, model=model)
        case "token-classification":
            return hf.DataCollatorForTokenClassification(processor)
        case "sequence-classification":
            return hf.DataCollatorWithPadding(processor)
    return hf.default_data_collator
