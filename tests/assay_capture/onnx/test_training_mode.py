"""Operators that are others in training, and those that give several values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from assay_capture.onnx import OPERATORS, OnnxModule, read

from .test_operators import IMAGE, Case, f32, model_of, positive, save


def test_batch_norm_in_training_mode_averages_its_statistics(tmp_path: Path) -> None:
    """y, and the running mean and variance, are those of ONNX; the buffers hold them afterwards."""
    arrays = [f32(4), f32(4), f32(4), positive(4)]
    node = helper.make_node(
        "BatchNormalization",
        ["x", "w", "b", "mean", "var"],
        ["y", "new_mean", "new_var"],
        training_mode=1,
        momentum=0.8,
    )
    named = dict(zip(("w", "b", "mean", "var"), arrays, strict=True))
    graph = helper.make_graph(
        [node],
        "norm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, IMAGE.shape)],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            for name in ("y", "new_mean", "new_var")
        ],
        [numpy_helper.from_array(array, name) for name, array in named.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    expected: Any = ReferenceEvaluator(model).run(None, {"x": IMAGE})
    module = OnnxModule(read(save(model, tmp_path), OPERATORS.__contains__)).train()
    assert dict(module.named_parameters()).keys() == {"w", "b"}
    y = module(torch.from_numpy(IMAGE))
    for found, wanted in zip((y, module.mean, module.var), expected, strict=True):
        np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-4, atol=1e-5)
    module.eval()(torch.from_numpy(IMAGE))
    np.testing.assert_allclose(module.get_buffer("var").numpy(), expected[2], rtol=1e-5)


def test_dropout_is_drawn_in_training_mode_only(tmp_path: Path) -> None:
    case = Case("Dropout", [np.ones((50, 50), np.float32), np.float32(0.5), np.array(True)])
    graph = read(save(model_of(case, {1, 2}), tmp_path), OPERATORS.__contains__)
    x = torch.ones(50, 50)
    assert 0.3 < (OnnxModule(graph).train()(x) == 0).float().mean() < 0.7
    assert torch.equal(OnnxModule(graph).eval()(x), x)


def test_a_sequence_is_split_and_picked_from(tmp_path: Path) -> None:
    """The newer exporter writes `split` and `unbind` this way."""
    nodes = [
        helper.make_node("Constant", [], ["sizes"], value_ints=[1, 3]),
        helper.make_node("Constant", [], ["last"], value_int=-1),
        helper.make_node("SplitToSequence", ["x", "sizes"], ["parts"], axis=1),
        helper.make_node("SequenceAt", ["parts", "last"], ["y"]),
        helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0, keepdims=0),
        helper.make_node("SequenceAt", ["rows", "last"], ["z"]),
    ]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "z")]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [value], outputs), opset_imports=[helper.make_opsetid("", 17)]
    )
    graph = read(save(model, tmp_path), OPERATORS.__contains__)
    x = torch.arange(8.0).reshape(2, 4)
    assert torch.equal(OnnxModule(graph)(x), x[:, 1:])
    assert torch.equal(OnnxModule(graph, output="z")(x), x[1])
