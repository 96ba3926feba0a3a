"""Files as other exporters write them: paddings of all modes, weights in Constant nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from assay_capture.capture import SGD, CaptureError, Recipe, build
from assay_capture.onnx import load


def saved(folder: Path, graph: onnx.GraphProto) -> Path:
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)]), path)
    return path


def values(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [[0, 0, 1, 0, 0, 1], [0, 1, 2, 0, 1, 3], [0, 0, 0, 0, 0, 2]])
def test_padding_is_that_of_onnx_in_every_mode(tmp_path: Path, mode: str, pads: list[int]) -> None:
    table = numpy_helper.from_array(np.array(pads, np.int64), "pads")
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)
    path = saved(
        tmp_path, helper.make_graph([node], "g", [values("x", 1, 3, 4)], [values("y", 1, "a", "b")], [table])
    )
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    (wanted,) = ReferenceEvaluator(str(path)).run(None, {"x": x})
    np.testing.assert_array_equal(load(path).eval()(torch.from_numpy(x)).numpy(), wanted)


def test_negative_widths_cut_before_others_wrap(tmp_path: Path) -> None:
    table = numpy_helper.from_array(np.array([0, 0, -1, 0, 0, 1], np.int64), "pads")
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode="wrap")
    path = saved(
        tmp_path, helper.make_graph([node], "g", [values("x", 1, 1, 4)], [values("y", 1, 1, 4)], [table])
    )
    assert load(path).eval()(torch.arange(4.0).reshape(1, 1, 4)).flatten().tolist() == [1, 2, 3, 1]


def with_constant(folder: Path, name: str) -> Path:
    weight = numpy_helper.from_array(np.eye(4, 2, dtype=np.float32))
    nodes = [
        helper.make_node("Constant", [], [name], value=weight),
        helper.make_node("MatMul", ["x", name], ["y"]),
    ]
    return saved(folder, helper.make_graph(nodes, "g", [values("x", "n", 4)], [values("y", "n", 2)]))


def recipe(path: Path, train: tuple[str, ...] = ()) -> Recipe:
    data: dict[str, Any] = {"x": np.ones((4, 4), np.float32), "y": np.zeros(4, np.int64)}
    loss = torch.nn.functional.cross_entropy
    return Recipe("x", load(path, train=train), loss, SGD(0.1), data, 1, 2, initial="module")


def test_weights_in_constant_nodes_are_parameters_by_their_names_or_if_asked_for(tmp_path: Path) -> None:
    bundle = build(recipe(with_constant(tmp_path, "fc.weight")))
    assert "param.fc.weight" in bundle.labels["slots"]
    path = with_constant(tmp_path, "linear_0.w_0")
    with pytest.raises(
        CaptureError,
        match=r"which of 1 tensors are parameters and which are buffers: linear_0\.w_0 .*--train NAME",
    ):
        build(recipe(path))
    assert build(recipe(path, ("linear*",))).labels["slots"] == ["param.linear_0.w_0"]
    assert torch.equal(load(path).eval()(torch.ones(1, 4)), torch.ones(1, 2))
