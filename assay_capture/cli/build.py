"""`assay program build`: capture a training job into a bundle; `assay program recipes` lists the built-in ones."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from referee_py.errors import InvalidInput
from trainer_node.cli import inspect
from trainer_node.cli.arithmetic import ModeFlags, with_mode
from trainer_node.cli.common import out
from trainer_node.cli.completion import among
from trainer_node.cli.flags import flag, only_given, with_flags
from trainer_node.errors import PIP, ConfigError

from ..huggingface import library
from ..recipe_names import DIGITS, MODELS
from . import huggingface

if TYPE_CHECKING:
    from trainer_node.local.bundle import Bundle

SUFFIXES = (".onnx", ".pt2")
"""Files that `model_files` reads."""
_option = functools.partial(flag, panel="Model files")
_FILES: dict[str, Any] = {
    "data": flag(
        list[Path],
        "--data",
        "A data set, written by `assay data build`; with --hf .jsonl, .csv, .parquet and folders, and may be repeated.",
        "Model files",
    ),
    "batch": _option(int, "--batch", "Examples in a step: 32."),
    "loss": _option(str, "--loss", "cross-entropy, binary, mse, or next-token for rows of tokens."),
    "optimizer": _option(str, "--optimizer", "sgd, adam or adamw."),
    "lr": _option(float, "--lr", "Learning rate: 0.001."),
    "momentum": _option(float, "--momentum", "Momentum of sgd: 0."),
    "weight_decay": _option(float, "--weight-decay", "0 if not given."),
    "freeze": _option(list[str], "--freeze", 'Tensors not to train: "encoder.*"; may be repeated.'),
    "train": _option(list[str], "--train", "Tensors to train that the file does not call parameters."),
    "given": _option(
        list[str], "--given", "An input with one value once and for all: sr=16000; may be repeated."
    ),
    "output": _option(str, "--output", "The output to score; the first if not given."),
    "inputs": _option(str, "--inputs", 'Arrays for the model: "input_ids,mask"; the first.'),
    "predict": _option(bool, "--predict", "Do not train: run the model over the data."),
    "decode": _option(int, "--decode", "Do not train: continue each row of the data to this many tokens."),
    "stop": _option(int, "--stop", "The token that ends a row, with --decode."),
}


def _capture() -> Any:
    try:
        from .. import capture
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] in ("assay_capture", "trainer_node"):
            raise
        raise ConfigError(
            f"capture needs {error.name}; install it with `{PIP} install 'assay-referee[capture]'`"
        ) from error
    return capture


@with_mode
@with_flags("given", _FILES | huggingface.FLAGS, only_given)
def build(
    given: dict[str, Any],
    mode: ModeFlags,
    recipe: Annotated[
        str,
        typer.Argument(
            help="A built-in recipe, path/to/file.py:function (that file is run), model.onnx or model.pt2 (not run).",
            autocompletion=among((*DIGITS, *MODELS)),
        ),
    ],
    folder: Annotated[Path | None, typer.Argument(help="Folder to write the bundle to.")] = None,
    steps: Annotated[int | None, typer.Option(help="Number of training steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of initial weights and data order.")] = None,
    strides: Annotated[
        str | None, typer.Option(help='Checkpoint strides, such as "100,10,1"; suggested if not given.')
    ] = None,
) -> None:
    """Capture a job into a bundle: program, terms and tensors."""
    from referee_py.program.modes import USUAL

    chosen = mode.over(USUAL.byte)
    if "hf" in given:
        if folder is not None:
            raise InvalidInput(f"with --hf there is no recipe; leave out {recipe}")
        folder = Path(recipe)
        training = huggingface.from_folder(given, steps, seed)
    elif folder is None:
        raise InvalidInput("name the folder to write the bundle to, after the recipe")
    elif foreign := sorted(set(given) & set(huggingface.FLAGS)):
        raise InvalidInput(f"--{foreign[0].replace('_', '-')} is for models of transformers; add --hf")
    else:
        training = _training(recipe, steps, seed, given)
    if strides is not None:
        training = dataclasses.replace(training, strides=_strides(strides))
    from ..capture.stages import WRITE
    from .stages import Stages

    with Stages(folder) as stages:
        with library.quiet():
            bundle: Bundle = _capture().build(training, tell=stages)
        stages(WRITE)
        bundle.with_mode(chosen).write(folder)
    inspect.show_summary(inspect.Opened.read(folder))


def _training(recipe: str, steps: int | None, seed: int | None, given: dict[str, Any]) -> Any:
    """Return what a recipe by name or a model file defines. Raises InvalidInput for options that do not apply."""
    capture = _capture()
    from_file = Path(recipe).suffix in SUFFIXES
    if from_file and ("predict" in given or "decode" in given):
        if steps is not None or seed is not None:
            raise InvalidInput("--steps and --seed are for training; the data sets the length of inference")
        return _inference(Path(recipe), given)
    if from_file:
        return _from_file(Path(recipe), 200 if steps is None else steps, seed or 0, given)
    if given:
        name = next(iter(given)).replace("_", "-")
        raise InvalidInput(f"--{name} is for model files; recipe {recipe} defines this itself")
    return capture.load_recipe(recipe, steps=steps, seed=seed)


def captured(recipe: str) -> Bundle:
    """Return the bundle of a recipe as it stands. Raises ConfigError without torch, CaptureError for no recipe."""
    capture = _capture()
    bundle: Bundle = capture.build(capture.load_recipe(recipe))
    return bundle


def _from_file(path: Path, steps: int, seed: int, given: dict[str, Any]) -> Any:
    """Return the recipe of a model file. Raises InvalidInput if an option without a default is missing."""
    _require(path, given, "data", "loss", "optimizer")
    from .. import model_files

    rule = model_files.optimizer_of(
        given["optimizer"],
        given.get("lr", 1e-3),
        given.get("momentum", 0.0),
        given.get("weight_decay", 0.0),
    )
    return model_files.recipe(
        path,
        _dataset(given),
        loss=given["loss"],
        optimizer=rule,
        steps=steps,
        batch_size=given.get("batch", 32),
        seed=seed,
        inputs=_listed(given.get("inputs")),
        output=given.get("output"),
        freeze=given.get("freeze", ()),
        train=given.get("train", ()),
        given=_numbers(given),
    )


def _numbers(given: dict[str, Any]) -> dict[str, int | float]:
    """Return inputs of a model with their values. Raises InvalidInput for what is not NAME=NUMBER."""
    found: dict[str, int | float] = {}
    for text in given.get("given", ()):
        name, _, number = text.rpartition("=")
        try:
            found[name] = int(number) if number.lstrip("-").isdigit() else float(number)
        except ValueError:
            raise InvalidInput(f"--given {text}: give a number, as sr=16000") from None
    return found


def _inference(path: Path, given: dict[str, Any]) -> Any:
    """Return prediction or decoding with a model file. Raises InvalidInput for options of training."""
    import numpy as np

    allowed = (
        {"data", "decode", "stop", "output", "given"}
        if "decode" in given
        else {"data", "predict", "batch", "output", "inputs", "given"}
    )
    for name in given:
        if name not in allowed:
            raise InvalidInput(f"--{name.replace('_', '-')} does not apply to inference; leave it out")
    _require(path, given, "data")
    from ..inference import Decode, Predict
    from ..model_files import load

    module, data = load(path, output=given.get("output"), given=_numbers(given)), _dataset(given)
    if "predict" in given:
        names = (
            _listed(given.get("inputs")) or [name for name in module.inputs if name in data] or list(data)[:1]
        )
        if unknown := [name for name in names if name not in data]:
            raise InvalidInput(f"the data set has no {', '.join(unknown)}; it has {', '.join(data)}")
        return Predict(path.stem, module, {name: data[name] for name in names}, given.get("batch", 32))
    prompts = next(iter(data.values()))
    if len(data) != 1 or prompts.ndim != 2 or prompts.dtype != np.int64:
        raise InvalidInput(
            f"decoding takes one array of tokens [rows, places]; the data set has {', '.join(data)}"
        )
    return Decode(path.stem, module, prompts.tolist(), given["decode"], given.get("stop"))


def _dataset(given: dict[str, Any]) -> Any:
    from ..datasets import Dataset

    if len(given["data"]) != 1:
        raise InvalidInput("a program of a model file takes one data set; give --data once")
    return Dataset.read(given["data"][0]).tensors


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


def _require(path: Path, given: dict[str, Any], *flags: str) -> None:
    for name in flags:
        if name not in given:
            raise InvalidInput(f"{path} does not give {name}; add --{name}")


def _strides(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(stride) for stride in text.split(","))
    except ValueError:
        raise InvalidInput(f"strides {text!r} are not numbers; write 100,10,1") from None


def recipes() -> None:
    """List the built-in recipes."""
    for name in sorted(_capture().BUILTIN):
        out.print(name)
