"""`assay data`: build, show and prove data sets."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from referee_py.errors import InvalidInput
from trainer_node.cli.common import printable, show_rows
from trainer_node.cli.flags import flag, only_given, with_flags

if TYPE_CHECKING:
    from referee_py.commit.tensor import Array

    from ..datasets import Dataset


if TYPE_CHECKING:
    from referee_py.commit.tensor import Array

    from ..datasets import Dataset

app = typer.Typer(no_args_is_help=True)

_arrays, _text, _images = (
    functools.partial(flag, panel=panel) for panel in ("Arrays (.npz, .safetensors)", "Text", "Images")
)
_OPTIONS: dict[str, Any] = {
    "names": _arrays(str, "--names", 'Arrays to take, in order: "x,y".'),
    "rounded": _arrays(bool, "--round", "Round float64 to float32."),
    "window": _text(int, "--window", "Tokens of context in a row: 64."),
    "stride": _text(int, "--stride", "Tokens from one row to the next: as --window."),
    "tokenizer": _text(Path, "--tokenizer", "A tokenizer.json; tokens are bytes if not given."),
    "vocabulary": _text(int, "--vocabulary", "Train a byte-pair encoding of that size on the text."),
    "pairs": _text(bool, "--pairs", "Write x and y instead of one row of tokens."),
    "size": _images(str, "--size", "Height and width: 32x32."),
    "channels": _images(int, "--channels", "3 for colour, 1 for grey."),
}


@app.command()
@with_flags("options", _OPTIONS, only_given)
def build(
    options: dict[str, Any],
    source: Annotated[
        Path, typer.Argument(help="A .npz or .safetensors file, a text, or a folder of images by class.")
    ],
    folder: Annotated[Path, typer.Argument(help="Folder to write the data set to.")],
) -> None:
    """Read a data set from files and write it as committed tensors."""
    from ..datasets import Dataset, read_arrays, read_images, read_text

    if source.is_dir():
        chosen = _only(options, "images", "size", "channels")
        dataset = read_images(source, _size(chosen.pop("size", "32x32")), **chosen)
    elif source.suffix in (".npz", ".safetensors"):
        chosen = _only(options, "arrays", "names", "rounded")
        tensors = read_arrays(source, _names(chosen.pop("names", "")), **chosen)
        dataset = Dataset(tensors, {"source": "arrays", "file": source.name})
    else:
        chosen = _only(options, "text", "window", "stride", "tokenizer", "vocabulary", "pairs")
        dataset = read_text(source, chosen.pop("window", 64), **chosen)
    dataset.write(folder)
    _show(dataset, folder)


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="A data set.")],
    row: Annotated[int | None, typer.Option(help="Show the values of this row too.")] = None,
) -> None:
    """Check a data set and show its contents."""
    from ..datasets import Dataset

    dataset = Dataset.read(folder)
    _show(dataset, folder)
    if row is not None:
        if not 0 <= row < dataset.rows:
            raise InvalidInput(f"row {row} does not exist; there are rows 0 to {dataset.rows - 1}")
        _values(row, {name: array[row] for name, array in dataset.tensors.items()})


@app.command("prove")
def prove_command(
    folder: Annotated[Path, typer.Argument(help="A data set, or the bundle of a program.")],
    row: Annotated[int, typer.Argument(help="Number of the row, from 0.")],
    file: Annotated[Path, typer.Argument(help="File to write the proof to.")],
    tensor: Annotated[
        list[str] | None,
        typer.Option(
            help="Prove the row of this tensor only; may be repeated. In a program, data.order is one too."
        ),
    ] = None,
) -> None:
    """Prove a row against the root of a data set, or against the constant root of a program."""
    from ..datasets import prove

    tensors, hashes, root = _committed(folder)
    numbers = {name: number for number, name in enumerate(tensors)}
    chosen = (
        tensor
        or [name for name in tensors if name.startswith("data.") and name != "data.order"]
        or list(tensors)
    )
    for name in chosen:
        if name not in tensors:
            raise InvalidInput(f"{folder} has no tensor {name!r}; it has {', '.join(tensors)}")
    proof = prove({numbers[name]: tensors[name] for name in chosen}, hashes, row)
    proof.verify(root, row)
    data = proof.to_bytes()
    file.write_bytes(data)
    rows: dict[str, object] = {"root": root.hex(), "row": row}
    rows |= {f"tensor {numbers[name]}": name for name in chosen}
    show_rows(f"{file}  {len(data)} bytes", rows)


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(help="A proof.")],
    root: Annotated[
        str, typer.Option(help="The root that you trust: that of a data set, or a program's constant root.")
    ],
    row: Annotated[int, typer.Option(help="The row that you asked for.")],
    save: Annotated[
        Path | None, typer.Option(help="Write the row's tensors, by number, to this safetensors file.")
    ] = None,
) -> None:
    """Check a proof. Needs only the root, not the data."""
    import numpy as np

    from trainer_node.storage.artifacts import parse_hash
    from trainer_node.storage.tensor_file import save_tensors

    from ..datasets import RowProof
    from ..datasets.proof import MAX_PROOF_BYTES

    with file.open("rb") as stream:
        proof = RowProof.from_bytes(stream.read(MAX_PROOF_BYTES + 1))
    found = proof.verify(parse_hash(root), row)
    _values(row, {f"tensor {number}": array for number, array in found.items()})
    if save is not None:
        save_tensors({str(number): np.ascontiguousarray(array) for number, array in found.items()}, save)


def _committed(folder: Path) -> tuple[dict[str, Array], list[bytes], bytes]:
    """Return the tensors under a root, by name and in order; their hashes; the root."""
    from trainer_node.local.bundle import Bundle

    from ..datasets import Dataset
    from ..datasets.dataset import is_dataset

    if is_dataset(folder):
        dataset = Dataset.read(folder)
        return dict(dataset.tensors), list(dataset.hashes().values()), dataset.root()
    bundle = Bundle.read(folder)
    labels = bundle.labels.get("constants", [])
    if not isinstance(labels, list) or len(labels) != len(bundle.constants):
        raise InvalidInput(f"{folder} has no name for each constant in labels.json; build it again")
    named: dict[str, Array] = {}
    for number, (label, array) in enumerate(zip(map(str, labels), bundle.constants, strict=True)):
        named[label if label not in named else f"{label}#{number}"] = array
    return named, [constant.hash for constant in bundle.program.constants], bundle.program.constant_root


def _only(options: dict[str, Any], kind: str, *allowed: str) -> dict[str, Any]:
    """Return the options. Raises InvalidInput for one that does not apply to this kind of source."""
    for name in options:
        if name not in allowed:
            spelling = "--round" if name == "rounded" else f"--{name}"
            raise InvalidInput(f"{spelling} does not apply to {kind}; leave it out")
    return dict(options)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _size(text: str) -> tuple[int, int]:
    try:
        height, width = map(int, text.lower().split("x"))
    except ValueError:
        raise InvalidInput(f"{text!r} is not a size; write height x width, as 32x32") from None
    return height, width


def _show(dataset: Dataset, folder: Path) -> None:
    from referee_py.program import TensorType

    hashes = dataset.hashes()
    rows: dict[str, object] = {"root": dataset.root().hex(), "rows": dataset.rows}
    rows |= {name: f"{TensorType.of(array)}  {hashes[name].hex()}" for name, array in dataset.tensors.items()}
    show_rows(str(folder), rows)
    origin = {printable(key, 40): printable(_listed(value), 200) for key, value in dataset.origin.items()}
    show_rows("origin", origin)


def _values(row: int, arrays: dict[str, Array]) -> None:
    import numpy as np

    from referee_py.program import TensorType

    with np.printoptions(threshold=24, edgeitems=2, precision=6, linewidth=1 << 16):
        lines = {name: " ".join(str(array).split()) for name, array in arrays.items()}
    show_rows(f"row {row}", {name: f"{TensorType.of(arrays[name])}  {lines[name]}" for name in arrays})


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
