"""ONNX's own node tests through the reader: what comes of each case.

    right     all outputs are those of the case
    refused   a CaptureError; `remedied` says whether it names operator and remedy
    skipped   the case asks for what a program has no values for; the reason says what
    wrong     anything else: another result, another error

`Way` says what runs the module that the reader makes: eager PyTorch, or the kernels, after it was captured as a
program. Inputs are data, as in training. If the refusal is that something depends on data, all inputs but the first
are given once and for all (`given=`), as the refusal advises; then all.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import repops
import torch
from onnx.backend.test.case import node as suite

from assay_capture.capture import SGD, capture
from assay_capture.capture.errors import CaptureError, Unsupported
from assay_capture.onnx import OPERATORS, OnnxModule, read
from referee_py.execute import Metrics, Run

_DTYPES = ("float32", "float64", "bool", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32")
"""Dtypes with a counterpart: integers of all sizes are i64."""


@dataclass(frozen=True)
class Outcome:
    name: str
    kind: str
    reason: str = ""
    remedied: bool = False


Way = Callable[[OnnxModule, dict[str, Any]], Any]
"""Returns the output of a module for inputs by name."""


_PREFIX = f"{suite.__name__}."
FILES = tuple(
    name.removeprefix(_PREFIX)
    for _, name, is_folder in pkgutil.walk_packages(suite.__path__, _PREFIX)
    if not is_folder and "._" not in name
)
"""ONNX's files of cases, also those of its folders."""
DEAR = {"averagepool": "AveragePool", "lppool": "LpPool", "maxpool": "MaxPool"}
"""Files whose results ONNX computes for seconds when they are read, and their operators."""


@functools.cache
def cases(file: str) -> dict[str, Any]:
    """Return the cases of one of ONNX's files by name."""
    before = len(suite._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(_PREFIX + file)
    found = {case.name: case for case in suite._NodeTestCases[before:]}
    assert found, file
    return found


def every() -> dict[str, Any]:
    """Return all of ONNX's cases by name, in the order of their names."""
    return dict(sorted(pair for file in FILES for pair in cases(file).items()))


def by_torch(module: OnnxModule, arrays: dict[str, Any]) -> Any:
    with torch.no_grad():
        return module(*(_tensor(arrays[key]) for key in module.inputs)).numpy()


class _OneRow(torch.nn.Module):
    """A module on the first row of each input. The parameter is there because a program trains something."""

    def __init__(self, module: OnnxModule) -> None:
        super().__init__()
        self.anchor = torch.nn.Parameter(torch.zeros(()))
        self.module = module

    def forward(self, *alone: torch.Tensor, **batch: torch.Tensor) -> Any:
        given = [batch[f"in.{key}"] for key in self.module.inputs] if batch else alone
        return self.anchor, self.module(*(x[0] for x in given[: len(self.module.inputs)]))


def by_program(module: OnnxModule, arrays: dict[str, Any]) -> Any:
    data = {f"in.{key}": _narrow(arrays[key])[None] for key in module.inputs}
    data = data or {"in.": np.zeros((1, 1), np.float32)}
    built = capture(
        *(_OneRow(module), lambda result: (result[0], {"output": result[1]}), SGD(0.0), data),
        np.zeros((1, 1), np.int64),
        inputs=list(data),
    )
    metrics = Metrics(built.labels.metrics)
    kernels = repops.backend("cpu")
    run = Run(built.program, built.constants, built.initial, 1, (1,), kernels, hook=metrics)
    run.advance(run.initial(), 1)
    return metrics.latest["output"]


def _narrow(value: Any) -> Any:
    array = _tensor(value).numpy()
    return array.astype(np.float32) if array.dtype == np.float64 else array


def outcome(case: Any, folder: Path, way: Way = by_torch) -> Outcome:
    """Run one case."""
    name, path = case.name, folder / "model.onnx"
    path.write_bytes(case.model.SerializeToString())
    inputs, outputs = case.data_sets[0]
    for value in (*inputs, *outputs):
        dtype = str(getattr(value, "dtype", type(value).__name__))
        if dtype not in _DTYPES:
            return Outcome(name, "skipped", f"dtype {dtype}")
    if re.search("training_mode|training_dropout", name):
        return Outcome(
            name, "skipped", "computed as in training; a program takes statistics and masks of its own"
        )
    names = [value.name for value in case.model.graph.input]
    if len(names) != len(inputs):
        return Outcome(name, "skipped", "inputs that the case does not give")
    arrays = dict(zip(names, inputs, strict=True))
    ways: list[dict[str, Any]] = [{}, {n: arrays[n] for n in names[1:]}, arrays]
    refusal: CaptureError | None = None
    for given in ways:
        try:
            return _compared(name, case, path, arrays, given, way)
        except CaptureError as error:
            if "not finite" in str(error):
                return Outcome(name, "skipped", "data that is not finite")
            refusal = refusal or error
            if "depends on data" not in str(error) and "does not depend on" not in str(error):
                return _refused(name, case, error)
        except Exception as error:  # NOTE: whatever is raised, the case is wrong
            return Outcome(name, "wrong", f"{type(error).__name__}: {str(error)[:200]}")
    assert refusal is not None
    return _refused(name, case, refusal)


def _refused(name: str, case: Any, error: CaptureError) -> Outcome:
    operators = {node.op_type for node in case.model.graph.node}
    remedied = isinstance(error, Unsupported) and any(op in str(error) for op in operators)
    return Outcome(name, "refused", str(error), remedied)


def _compared(
    name: str, case: Any, path: Path, arrays: dict[str, Any], given: dict[str, Any], way: Way
) -> Outcome:
    graph = read(path, OPERATORS.__contains__)
    _, outputs = case.data_sets[0]
    for output, wanted in zip(case.model.graph.output, outputs, strict=True):
        fixed = {key: np.asarray(value) for key, value in given.items()}
        module = OnnxModule(graph, output=output.name, given=fixed).eval()
        found = way(module, arrays)
        if found.shape != np.shape(wanted):
            return Outcome(name, "wrong", f"{output.name}: shape {found.shape}, not {np.shape(wanted)}")
        rtol, atol = max(case.rtol, 1e-5), max(case.atol, 1e-5)
        wide = np.asarray(wanted, np.float64)
        if not np.allclose(found.astype(np.float64), wide, rtol=rtol, atol=atol, equal_nan=True):
            apart = np.nanmax(np.abs(found.astype(np.float64) - wide))
            return Outcome(name, "wrong", f"{output.name}: apart by {apart:.3g}")
    return Outcome(name, "right")


def _tensor(value: Any) -> torch.Tensor:
    array = np.asarray(value)
    keep = array.dtype in (np.float32, np.float64, np.bool_)
    return torch.from_numpy(array.copy() if keep else array.astype(np.int64))


def covered() -> set[str]:
    """Return the operators that ONNX's cases use and the reader has rules for."""
    found = (case for file in FILES if file not in DEAR for case in cases(file).values())
    return ({node.op_type for case in found for node in case.model.graph.node} | {*DEAR.values()}) & set(
        OPERATORS
    )
