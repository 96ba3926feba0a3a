"""Every rule gives the result of ONNX's own reference, for traced and for known inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from assay_capture.capture.errors import CaptureError, Unsupported
from assay_capture.onnx import OPERATORS, OnnxModule, read

from .node_suite import covered

RNG = np.random.default_rng(7)


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray[Any, Any]:
    return (np.abs(f32(*shape)) + 0.1).astype(np.float32)


def i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def flags(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.integers(0, 2, shape).astype(np.bool_)


@dataclass
class Case:
    """One node. `fixed` lists the inputs that must be known, such as axes and shapes."""

    op: str
    inputs: Sequence[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    fixed: tuple[int, ...] = ()
    outputs: int = 1
    opset: int = 21
    rtol: float = 1e-5


def model_of(case: Case, known: set[int]) -> onnx.ModelProto:
    names = ["" if value is None else f"x{k}" for k, value in enumerate(case.inputs)]
    outputs = [f"y{k}" for k in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, name="node", **case.attributes)
    arrays = {k: np.asarray(value) for k, value in enumerate(case.inputs) if value is not None}
    # f32 tensors of the file would be parameters, so known ones come from Constant nodes, as exporters write them.
    constants = [
        helper.make_node("Constant", [], [f"x{k}"], value=numpy_helper.from_array(array))
        for k, array in arrays.items()
        if k in known
    ]
    graph = helper.make_graph(
        [*constants, node],
        "case",
        [
            helper.make_tensor_value_info(f"x{k}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for k, array in arrays.items()
            if k not in known
        ],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)])


def save(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def check(case: Case, known: set[int], folder: Path) -> None:
    model = model_of(case, known)
    given = {f"x{k}": np.asarray(v) for k, v in enumerate(case.inputs) if v is not None and k not in known}
    expected = ReferenceEvaluator(model).run(None, given)
    graph = read(save(model, folder), OPERATORS.__contains__)
    for number, wanted in enumerate(expected):
        module = OnnxModule(graph, output=f"y{number}").eval()
        tensors = [torch.from_numpy(np.array(array)) for array in given.values()]
        if not given:
            # All inputs are known: the module has nothing to trace, and raises after it has computed everything.
            with pytest.raises(CaptureError, match="does not depend on the inputs"):
                module(*tensors)
            found = module._run(graph.nodes[-1], _constants(module, graph))[number].tensor.numpy()  # type: ignore[union-attr]
        else:
            found = module(*tensors).detach().numpy()
        assert found.shape == np.asarray(wanted).shape
        np.testing.assert_allclose(found, wanted, rtol=case.rtol, atol=1e-5)


def _constants(module: OnnxModule, graph: Any) -> list[Any]:
    made = {node.outputs[0]: module._run(node, [])[0] for node in graph.nodes[:-1]} | module._known
    return [made.get(name) for name in graph.nodes[-1].inputs]


X, Y = f32(2, 3, 4), f32(3, 1)
IMAGE = f32(2, 4, 7, 6)

CASES: dict[str, Case] = {}
for name in ("Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Neg", "Round", "Sign", "Sin", "Tanh"):
    CASES[name] = Case(name, [X])
for name in ("Log", "Sqrt", "Reciprocal"):
    CASES[name] = Case(name, [positive(2, 3)])
for name in (
    "Relu",
    "Sigmoid",
    "Softmax",
    "LogSoftmax",
    "Elu",
    "LeakyRelu",
    "Softplus",
    "HardSigmoid",
    "HardSwish",
):
    CASES[name] = Case(name, [X])
for name in ("Add", "Sub", "Mul", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
    CASES[name] = Case(name, [X, Y])
for name in ("And", "Or", "Xor"):
    CASES[name] = Case(name, [flags(2, 3), flags(3)])
for name in ("Max", "Min", "Sum", "Mean"):
    CASES[name] = Case(name, [X, Y, f32(1, 4)])
for name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"):
    CASES[name] = Case(name, [X, i64(0, -1)], {"keepdims": 0}, fixed=(1,), opset=18)
    CASES[f"{name} of everything"] = Case(name, [X], opset=18)
CASES |= {
    "Not": Case("Not", [flags(3)]),
    "IsNaN": Case("IsNaN", [np.array([1, np.nan, np.inf], np.float32)]),
    "Equal of integers": Case("Equal", [i64(1, 2, 3), i64(1, 0, 3)]),
    "Div towards zero": Case("Div", [i64(-7, 7, -7, 7), i64(2, 2, -2, -2)]),
    "Mod": Case("Mod", [i64(-7, 7, -7, 7), i64(3, 3, -3, -3)]),
    "Mod as in C": Case("Mod", [f32(6), positive(6)], {"fmod": 1}),
    "Pow": Case("Pow", [positive(2, 3), f32(3)]),
    "Pow of a scalar": Case("Pow", [positive(2, 3), np.float32(1.5)]),
    "Square": Case("Pow", [X, np.float32(2)], fixed=(1,)),
    "Clip": Case("Clip", [X, np.float32(-0.5), np.float32(0.5)], fixed=(1, 2)),
    "Clip above": Case("Clip", [X, None, np.float32(0.5)], fixed=(2,)),
    "Where": Case("Where", [flags(3, 1), X, Y]),
    "Cast": Case("Cast", [X * 3], {"to": TensorProto.INT64}),
    "Cast to bool": Case("Cast", [i64(0, 1, -2)], {"to": TensorProto.BOOL}),
    "CastLike": Case("CastLike", [i64(1, 2), f32(1)]),
    "Softmax of another axis": Case("Softmax", [X], {"axis": 1}),
    "Gelu": Case("Gelu", [X]),
    "Gelu by tanh": Case("Gelu", [X], {"approximate": "tanh"}),
    "PRelu": Case("PRelu", [X, f32(4)]),
    "Swish": Case("Swish", [X], {"alpha": 1.5}, opset=24),
    "ReduceMean, axes as an attribute": Case("ReduceMean", [X], {"axes": [1]}, opset=13),
    "ReduceSum of nothing": Case("ReduceSum", [X], {"noop_with_empty_axes": 1}),
    "ReduceSumSquare": Case("ReduceSumSquare", [X, i64(1)], fixed=(1,)),
    "ReduceLogSumExp": Case("ReduceLogSumExp", [X, i64(1)], fixed=(1,)),
    "ArgMax": Case("ArgMax", [X], {"axis": -1, "keepdims": 0}),
    "CumSum": Case("CumSum", [X, np.array(1, np.int64)], fixed=(1,)),
    "Einsum": Case("Einsum", [X, f32(4, 5)], {"equation": "bij,jk->bik"}),
    # layout
    "Identity": Case("Identity", [X]),
    "Shape": Case("Shape", [X], {"start": 1}),
    "Size": Case("Size", [X]),
    "Reshape": Case("Reshape", [X, i64(0, -1)], fixed=(1,)),
    "Flatten": Case("Flatten", [IMAGE], {"axis": 2}),
    "Flatten all": Case("Flatten", [IMAGE], {"axis": 0}),
    "Transpose": Case("Transpose", [X], {"perm": [1, 2, 0]}),
    "Transpose reversed": Case("Transpose", [X]),
    "Squeeze": Case("Squeeze", [f32(1, 3, 1), i64(0)], fixed=(1,)),
    "Squeeze all": Case("Squeeze", [f32(1, 3, 1)]),
    "Unsqueeze": Case("Unsqueeze", [X, i64(-1, 0)], fixed=(1,)),
    "Concat": Case("Concat", [X, f32(2, 1, 4)], {"axis": -2}),
    "Split": Case("Split", [X, i64(1, 3)], {"axis": 2}, fixed=(1,), outputs=2),
    "Split evenly": Case("Split", [f32(7, 2)], {"num_outputs": 3}, outputs=3),
    "Slice": Case("Slice", [f32(5, 6), i64(1, -4), i64(100, -1), i64(0, 1), i64(2, 1)], fixed=(1, 2, 3, 4)),
    "Slice backwards": Case("Slice", [f32(5, 6), i64(-1), i64(-100), i64(1), i64(-2)], fixed=(1, 2, 3, 4)),
    "Slice backwards to a bound": Case(
        "Slice", [f32(6), i64(4), i64(1), i64(0), i64(-1)], fixed=(1, 2, 3, 4)
    ),
    "Expand": Case("Expand", [Y, i64(2, 1, 4)], fixed=(1,)),
    "Tile": Case("Tile", [Y, i64(2, 3)], fixed=(1,)),
    "Pad": Case("Pad", [X, i64(0, 1, 2, 1, 0, 0), np.float32(3)], fixed=(1, 2)),
    "Pad some axes": Case("Pad", [X, i64(1, 2), None, i64(-1)], fixed=(1, 3)),
    "Trilu": Case("Trilu", [f32(2, 4, 4)]),
    "Trilu below": Case("Trilu", [f32(4, 5), np.array(-1, np.int64)], {"upper": 0}, fixed=(1,)),
    "Gather": Case("Gather", [f32(5, 3), np.array([[0, 4], [2, 2]])]),
    "Gather from the end": Case("Gather", [f32(5, 3), i64(-1, 0)], fixed=(1,)),
    "Gather inside": Case("Gather", [f32(2, 5, 3), np.array([[0, 4], [2, 2]])], {"axis": 1}),
    "Gather one": Case("Gather", [X, np.array(-2, np.int64)], {"axis": 1}, fixed=(1,)),
    "Gather of integers": Case("Gather", [i64(3, 4, 5), i64(2, 0)]),
    "GatherElements": Case("GatherElements", [f32(3, 4), RNG.integers(0, 4, (3, 2))], {"axis": 1}),
    "GatherND": Case("GatherND", [f32(3, 4, 5), np.array([[[0, 1], [2, 3]]])]),
    "GatherND of elements": Case("GatherND", [f32(3, 4), np.array([[0, 1], [2, 3], [0, 1]])]),
    "ScatterND": Case("ScatterND", [f32(4, 3), np.array([[1], [3]]), f32(2, 3)]),
    "ScatterND adding": Case("ScatterND", [f32(4), np.array([[1], [3], [1]]), f32(3)], {"reduction": "add"}),
    "OneHot": Case(
        "OneHot", [i64(0, 2, 1), np.array(3, np.int64), np.array([0, 1], np.float32)], fixed=(1, 2)
    ),
    "ConstantOfShape": Case(
        "ConstantOfShape",
        [i64(2, 3)],
        {"value": numpy_helper.from_array(np.array([7], np.int64))},
        fixed=(0,),
    ),
    "ConstantOfShape zero": Case("ConstantOfShape", [i64(2)], fixed=(0,)),
    "Range": Case("Range", [np.array(k, np.int64) for k in (10, 1, -3)], fixed=(0, 1, 2)),
    "Range of floats": Case("Range", [np.float32(k) for k in (0, 2, 0.5)], fixed=(0, 1, 2)),
    # networks
    "MatMul": Case("MatMul", [f32(2, 3, 4), f32(4, 5)]),
    "MatMul of vectors": Case("MatMul", [f32(4), f32(4)]),
    "Gemm": Case("Gemm", [f32(2, 3), f32(4, 3), f32(4)], {"transB": 1}),
    "Gemm scaled": Case("Gemm", [f32(3, 2), f32(3, 4), f32(1, 4)], {"transA": 1, "alpha": 0.5, "beta": 2.0}),
    "Gemm without a bias": Case("Gemm", [f32(2, 3), f32(3, 4)]),
    "Conv": Case(
        "Conv", [IMAGE, f32(6, 2, 3, 2), f32(6)], {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 0]}
    ),
    "Conv, uneven padding": Case(
        "Conv", [IMAGE, f32(3, 4, 2, 2)], {"pads": [0, 1, 2, 0], "dilations": [1, 2]}
    ),
    "Conv, SAME_UPPER": Case("Conv", [IMAGE, f32(3, 4, 3, 2)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "Conv, SAME_LOWER": Case("Conv", [IMAGE, f32(3, 4, 2, 3)], {"auto_pad": "SAME_LOWER"}),
    "Conv, one dimension": Case("Conv", [f32(2, 4, 9), f32(3, 4, 3)], {"pads": [1, 1]}),
    "ConvTranspose": Case(
        "ConvTranspose",
        [IMAGE, f32(4, 3, 3, 2), f32(3)],
        {"strides": [2, 3], "pads": [1, 0, 1, 0], "output_padding": [1, 2]},
    ),
    "ConvTranspose, uneven padding": Case(
        "ConvTranspose", [IMAGE, f32(4, 3, 3, 2)], {"pads": [0, 1, 2, 0], "dilations": [1, 2]}
    ),
    "ConvTranspose, SAME_UPPER": Case(
        "ConvTranspose", [IMAGE, f32(4, 3, 4, 3)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}
    ),
    "ConvTranspose, SAME_LOWER": Case("ConvTranspose", [IMAGE, f32(4, 3, 5, 4)], {"auto_pad": "SAME_LOWER"}),
    "ConvTranspose, VALID": Case("ConvTranspose", [IMAGE, f32(4, 3, 2, 3), f32(3)], {"auto_pad": "VALID"}),
    "ConvTranspose, 1-d": Case("ConvTranspose", [f32(2, 4, 9), f32(4, 3, 3)], {"pads": [1, 1]}),
    "MaxPool": Case("MaxPool", [IMAGE], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "MaxPool, uneven padding": Case("MaxPool", [IMAGE], {"kernel_shape": [3, 3], "pads": [0, 1, 1, 1]}),
    "AveragePool": Case("AveragePool", [IMAGE], {"kernel_shape": [2, 3], "strides": [1, 2]}),
    "AveragePool with padding": Case(
        "AveragePool", [IMAGE], {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    ),
    "GlobalAveragePool": Case("GlobalAveragePool", [IMAGE]),
    "GlobalMaxPool": Case("GlobalMaxPool", [IMAGE]),
    "BatchNormalization": Case("BatchNormalization", [IMAGE, f32(4), f32(4), f32(4), positive(4)]),
    "LayerNormalization": Case("LayerNormalization", [X, f32(3, 4), f32(3, 4)], {"axis": 1, "epsilon": 1e-3}),
    "LayerNormalization without a bias": Case("LayerNormalization", [X, f32(4)]),
    "RMSNormalization": Case("RMSNormalization", [X, f32(4)], opset=23),
    "GroupNormalization": Case("GroupNormalization", [IMAGE, f32(4), f32(4)], {"num_groups": 2}, rtol=1e-4),
    "InstanceNormalization": Case("InstanceNormalization", [IMAGE, f32(4), f32(4)], rtol=1e-4),
    "Dropout that is off": Case("Dropout", [X]),
}


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("Shape", "Size")])
def test_a_traced_operator_gives_what_the_reference_gives(name: str, tmp_path: Path) -> None:
    check(CASES[name], set(CASES[name].fixed), tmp_path)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if OPERATORS[case.op].folds])
def test_an_operator_on_known_values_gives_the_same(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    check(case, {k for k, value in enumerate(case.inputs) if value is not None}, tmp_path)


def test_the_shape_of_a_traced_tensor_is_known(tmp_path: Path) -> None:
    """Reshape x to [first size of x, number of elements / it], as exporters flatten."""
    nodes = [
        helper.make_node("Shape", ["x"], ["first"], end=1),
        helper.make_node("Size", ["x"], ["size"]),
        helper.make_node("Div", ["size", "first"], ["rest"]),
        helper.make_node("Concat", ["first", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 4])
    graph = helper.make_graph(
        nodes, "g", [value], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    module = OnnxModule(read(save(model, tmp_path), OPERATORS.__contains__))
    assert module(torch.zeros(5, 3, 4)).shape == (5, 12)


def test_every_operator_has_a_case() -> None:
    elsewhere = {"LSTM", "GRU", "RNN", "Constant", "SplitToSequence", "SequenceAt"}
    assert {case.op for case in CASES.values()} | elsewhere | covered() == set(OPERATORS)


def test_a_size_that_depends_on_data_is_refused_with_a_remedy(tmp_path: Path) -> None:
    case = CASES["Reshape"]
    graph = read(save(model_of(case, set()), tmp_path), OPERATORS.__contains__)
    with pytest.raises(
        Unsupported, match=r"node: shape that depends on data; export the model with fixed shapes"
    ):
        OnnxModule(graph)(torch.zeros(2, 3, 4), torch.tensor([2, -1]))


UNSUPPORTED: dict[str, tuple[Case, str]] = {
    "a volume": (Case("Conv", [f32(1, 1, 3, 3, 3), f32(1, 1, 2, 2, 2)]), "3 spatial dimensions"),
    "a transposed volume": (
        Case("ConvTranspose", [f32(1, 1, 3, 3, 3), f32(1, 1, 2, 2, 2)]),
        "3 spatial dimensions; use one or two",
    ),
    "negative padding": (
        Case("ConvTranspose", [IMAGE, f32(4, 3, 2, 2)], {"output_shape": [9, 7]}),
        r"padding \[0, 0, -1, 0\]; use padding of 0 or more",
    ),
    "indices of a maximum": (
        Case("MaxPool", [IMAGE], {"kernel_shape": [2, 2]}, outputs=2),
        "the indices of MaxPool",
    ),
    "another padding": (
        Case("Pad", [X, i64(0, 0, 1, 0, 0, 1)], {"mode": "zigzag"}, fixed=(1,)),
        "mode zigzag",
    ),
    "half precision": (
        Case("Cast", [X], {"to": TensorProto.FLOAT16}),
        "FLOAT16; export the model in float32",
    ),
    "an average with uneven padding": (
        Case("AveragePool", [IMAGE], {"kernel_shape": [2, 2], "pads": [0, 1, 0, 0]}),
        "uneven padding",
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_an_option_without_a_rule_is_refused(name: str, tmp_path: Path) -> None:
    case, message = UNSUPPORTED[name]
    graph = read(save(model_of(case, set(case.fixed)), tmp_path), OPERATORS.__contains__)
    given = [
        torch.from_numpy(np.array(v))
        for k, v in enumerate(case.inputs)
        if v is not None and k not in case.fixed
    ]
    with pytest.raises(Unsupported, match=message):
        OnnxModule(graph)(*given)
