"""Outputs that have no rule, shapes and counts at the limits of their types, and files that never end."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from assay_capture.capture.errors import Unsupported
from assay_capture.onnx import OPERATORS, load
from assay_capture.onnx.model import read
from assay_capture.onnx.module import OnnxModule
from referee_py.errors import InvalidInput

from .test_hostile import linear, refused, tensor
from .test_operators import Case, model_of, save


def test_dropout_is_drawn_although_the_mask_has_a_name(tmp_path: Path) -> None:
    """PyTorch's exporter names both outputs of dropout, and nothing reads the second."""
    case = Case("Dropout", [np.ones((50, 50), np.float32), np.float32(0.5), np.array(True)], outputs=2)
    graph = read(save(model_of(case, {1, 2}), tmp_path), OPERATORS.__contains__)
    x = torch.ones(50, 50)
    assert 0.3 < (OnnxModule(graph).train()(x) == 0).float().mean() < 0.7
    with pytest.raises(Unsupported, match="'y1', an output after the first, which has no rule"):
        OnnxModule(graph, output="y1")(x)


def test_dropout_of_an_exported_model_is_trained_with(tmp_path: Path) -> None:
    torch.onnx.export(
        torch.nn.Sequential(torch.nn.Linear(3, 50), torch.nn.Dropout(0.5)).train(),
        (torch.ones(2, 3),),
        tmp_path / "model.onnx",
        dynamo=False,
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
    )
    module = load(tmp_path / "model.onnx").train()
    assert 0.3 < (module(torch.ones(2, 3)) == 0).float().mean() < 0.7


NODES: dict[str, tuple[onnx.NodeProto, str]] = {
    "more parts than outputs": (
        helper.make_node("Split", ["x"], ["y"], num_outputs=1 << 30),
        "is split into 1073741824 and has 1 outputs",
    ),
    "fewer parts than outputs": (
        helper.make_node("Split", ["x"], ["y", "z"], num_outputs=1),
        "split into 1 and",
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_a_node_that_lies_is_refused(name: str, tmp_path: Path) -> None:
    node, message = NODES[name]
    refused(linear(nodes=[node], opset=18), tmp_path, message)


def test_an_output_that_has_no_rule_cannot_be_read(tmp_path: Path) -> None:
    nodes = [helper.make_node("Dropout", ["x"], ["h", "m"]), helper.make_node("Not", ["m"], ["y"])]
    refused(linear(nodes=nodes), tmp_path, "'m', an output after the first", Unsupported)


TENSORS: dict[str, tuple[TensorProto, str]] = {
    "no elements of a huge shape": (tensor(dims=[0, 1 << 62], raw_data=b""), "the limits are"),
    "too many dimensions": (tensor(dims=[1] * 100, raw_data=b"abcd"), "of 100 dimensions"),
    "a value beyond its type": (
        TensorProto(name="layer.weight", data_type=TensorProto.UINT32, dims=[1], uint64_data=[1 << 63]),
        "its type cannot hold",
    ),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_beyond_a_limit_is_refused(name: str, tmp_path: Path) -> None:
    weight, message = TENSORS[name]
    refused(linear(weight), tmp_path, message)


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    """Opening it would wait for somebody who writes to it."""
    os.mkfifo(tmp_path / "model.onnx")
    with pytest.raises(InvalidInput, match="is not a file of at most"):
        load(tmp_path / "model.onnx")
