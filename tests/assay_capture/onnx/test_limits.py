"""Outputs that have no rule, shapes and counts at the limits of their types, and files that never end."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch._subclasses.fake_tensor import FakeTensorMode

from assay_capture.capture import untrusted
from assay_capture.capture.errors import CaptureError, Unexpected, Unsupported
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


LEAST = -(1 << 63)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_quotient_that_has_no_number_ends_no_process(shape: tuple[int, ...], tmp_path: Path) -> None:
    """The processor's division of the least integer by -1 is a signal, not a result."""
    values = [np.full(shape, LEAST, np.int64), np.full(shape, -1, np.int64)]
    for op, expected in (("Div", LEAST), ("Mod", 0)):
        for known in (set[int](), {0}, {1}):
            graph = read(save(model_of(Case(op, list(values)), known), tmp_path), OPERATORS.__contains__)
            given = [torch.from_numpy(value) for k, value in enumerate(values) if k not in known]
            assert (OnnxModule(graph)(*given) == expected).all()
    nodes = [
        helper.make_node("Constant", [], ["a"], value=numpy_helper.from_array(values[0])),
        helper.make_node("Constant", [], ["b"], value=numpy_helper.from_array(values[1])),
        helper.make_node("Div", ["a", "b"], ["q"]),
        helper.make_node("Equal", ["q", "a"], ["same"]),
        helper.make_node("ReduceMin", ["number"], ["all"], keepdims=0),
        helper.make_node("Add", ["x", "all"], ["y"]),
    ]
    nodes.insert(4, helper.make_node("Cast", ["same"], ["number"], to=TensorProto.FLOAT))
    assert (load(save(linear(nodes=nodes), tmp_path))(torch.zeros(2, 3)) == 1).all()


def test_integers_are_divided_towards_zero(tmp_path: Path) -> None:
    a, b = np.array([7, -7, 7, -7, 0], np.int64), np.array([2, 2, -2, -1, -1], np.int64)
    graph = read(save(model_of(Case("Div", [a, b]), set()), tmp_path), OPERATORS.__contains__)
    assert OnnxModule(graph)(torch.from_numpy(a), torch.from_numpy(b)).tolist() == [3, -3, -3, 7, 0]


@pytest.mark.parametrize("step", [LEAST, -LEAST - 1, -5])
def test_a_step_beyond_the_size_takes_one_element(step: int, tmp_path: Path) -> None:
    start, end = (-1, LEAST) if step < 0 else (0, 3)
    values = [np.array([n], np.int64) for n in (start, end, 1, step)]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    module = load(save(model_of(Case("Slice", [x, *values]), {1, 2, 3, 4}), tmp_path))
    assert module(torch.from_numpy(x)).tolist() == x[:, [start]].tolist()


def test_doubling_stops_at_the_limit(tmp_path: Path) -> None:
    """A value that is joined with itself forty times: of a constant, and of data."""
    for first in ("x", "c"):
        names = [first, *(f"p{k}" for k in range(40))]
        nodes = [helper.make_node("Concat", [a, a], [b], axis=0) for a, b in itertools.pairwise(names)]
        one = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.ones(1, np.int64)))
        nodes = [one, *nodes, helper.make_node("Identity", ["p39"], ["y"])]
        refuses_traced(
            linear(nodes=nodes), tmp_path, r"Concat gives a value of shape .*the limit is 268435456"
        )


def refuses_traced(model: onnx.ModelProto, folder: Path, message: str) -> None:
    """Refuse a model while it is traced, on tensors without data."""
    module = load(save(model, folder))
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(CaptureError, match=message) as raised:
        module(torch.ones(2, 3))
    assert not isinstance(raised.value, Unexpected)


def test_all_constants_together_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "MAX_CONSTANT_BYTES", 1 << 20)

    def twelve(*, together: bool) -> onnx.ModelProto:
        size = numpy_helper.from_array(np.array([1 << 16], np.int64))
        nodes = [helper.make_node("Constant", [], ["s"], value=size)]
        made = [helper.make_node("ConstantOfShape", ["s"], [f"c{k}"]) for k in range(12)]
        read_ = [helper.make_node("ReduceMax", [f"c{k}"], [f"r{k}"], keepdims=0) for k in range(12)]
        added = [helper.make_node("Add", [f"a{k - 1}" if k else "x", f"r{k}"], [f"a{k}"]) for k in range(12)]
        pairs = [node for pair in zip(made, read_, strict=True) for node in pair]
        ordered = [*made, *read_] if together else pairs
        return linear(nodes=[*nodes, *ordered, *added, helper.make_node("Identity", ["a11"], ["y"])])

    assert (load(save(twelve(together=False), tmp_path))(torch.ones(2, 3)) == 1).all()
    message = (
        "gives 262144 bytes, with which the constants of the model take 1048584 at once; the limit is 1048576"
    )
    refused(twelve(together=True), tmp_path, message)


def test_one_file_of_data_is_not_many_tensors(tmp_path: Path) -> None:
    def sharing(count: int) -> onnx.ModelProto:
        model = linear()
        for k in range(count):
            weight = TensorProto(name=f"e{k}.weight", data_type=TensorProto.FLOAT, dims=[100_000])
            weight.data_location = TensorProto.EXTERNAL
            for key, value in {"location": "w.bin", "offset": "0", "length": "400000"}.items():
                weight.external_data.add(key=key, value=value)
            model.graph.initializer.append(weight)
        return model

    (tmp_path / "w.bin").write_bytes(bytes(400_000))
    load(save(sharing(7), tmp_path))
    with pytest.raises(
        CaptureError, match=r"'e8.weight': the tensors of model.onnx take .*; the limit is 35.*once"
    ):
        load(save(sharing(600), tmp_path))


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    """Opening it would wait for somebody who writes to it."""
    os.mkfifo(tmp_path / "model.onnx")
    with pytest.raises(InvalidInput, match="is not a file of at most"):
        load(tmp_path / "model.onnx")
