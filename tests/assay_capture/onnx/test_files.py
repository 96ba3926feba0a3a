"""What published files hold: paddings, weights in Constant nodes and branches, conditions, old opsets, fixed norms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper, version_converter
from onnx.reference import ReferenceEvaluator
from torch.nn import functional as f

from assay_capture.capture import SGD, Recipe, build
from assay_capture.capture.errors import CaptureError, Unsupported
from assay_capture.onnx import load

FLOAT = TensorProto.FLOAT


def save(
    path: Path,
    nodes: list[Any],
    inputs: dict[str, list[Any]],
    output: str,
    tensors: Any = None,
    opset: int = 18,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "file",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(output, FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in (tensors or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    path.write_bytes(model.SerializeToString())
    return model


def same(path: Path, model: onnx.ModelProto, x: np.ndarray[Any, Any]) -> None:
    with torch.no_grad():
        ours = load(path).eval()(torch.from_numpy(x)).numpy()
    results: Any = ReferenceEvaluator(model).run(None, {"x": x})
    theirs = results[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def constant(name: str, value: np.ndarray[Any, Any]) -> Any:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))


PADDINGS = [(mode, opset) for mode in ("constant", "reflect", "edge") for opset in (11, 13, 19, 28)]
PADDINGS += [("wrap", 19), ("wrap", 28)]  # it is of opset 19
X = np.arange(12, dtype=np.float32).reshape(1, 2, 6)


@pytest.mark.parametrize(("mode", "opset"), PADDINGS)
@pytest.mark.parametrize("pads", [(0, 0, 2, 0, 0, 3), (0, 0, -1, 0, 0, 2), (0, 1, -2, 0, -1, -1)], ids=str)
def test_a_padding_of_any_mode(mode: str, pads: tuple[int, ...], opset: int, tmp_path: Path) -> None:
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)
    save(tmp_path / "m", [node], {"x": [1, 2, 6]}, "y", {"pads": np.array(pads, np.int64)}, opset)
    before, after = np.array(pads[:3]), np.array(pads[3:])
    cut = X[tuple(slice(max(0, -b), n - max(0, -a)) for b, a, n in zip(before, after, X.shape, strict=True))]
    widths = list(zip(np.maximum(before, 0), np.maximum(after, 0), strict=True))
    found = load(tmp_path / "m").eval()(torch.from_numpy(X)).numpy()
    np.testing.assert_array_equal(found, np.pad(cut, widths, mode=mode))  # type: ignore[call-overload]


def test_weights_in_constant_nodes_are_trained(tmp_path: Path) -> None:
    """The file has no initialiser, so its numbers are weights where data meets them, or the user has to say."""
    weight = np.ones((4, 2), np.float32)
    product = helper.make_node("MatMul", ["x", "fc.weight"], ["y"])
    save(tmp_path / "named", [constant("fc.weight", weight), product], {"x": ["n", 4]}, "y")
    assert list(dict(load(tmp_path / "named").named_parameters())) == ["fc.weight"]

    product = helper.make_node("MatMul", ["x", "w_0"], ["y"])
    save(tmp_path / "bare", [constant("w_0", weight), product], {"x": ["n", 4]}, "y")
    data: dict[str, Any] = {"x": np.ones((4, 4), np.float32), "y": np.zeros(4, np.int64)}

    def job(**options: Any) -> Any:
        module = load(tmp_path / "bare", **options)
        return build(Recipe("bare", module, f.cross_entropy, SGD(0.1), data, 1, 2, initial="module"))

    with pytest.raises(CaptureError, match=r"which of 1 tensors .*: w_0 \[4, 2\]; say --train NAME"):
        job()
    assert [slot for slot in job(train=("w_0",)).labels["slots"] if slot.startswith("param.")] == [
        "param.w_0"
    ]


def test_numbers_that_shapes_are_computed_from_are_no_weights(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["size"], to=FLOAT),
        constant("factor", np.array([1, 1, 1.5], np.float32)),
        helper.make_node("Mul", ["size", "factor"], ["larger"]),
        helper.make_node("Cast", ["larger"], ["sizes"], to=TensorProto.INT64),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
    ]
    model = save(tmp_path / "m", nodes, {"x": [1, 2, 6]}, "y")
    same(tmp_path / "m", model, X)
    assert not list(load(tmp_path / "m").parameters())


def branches(path: Path) -> None:
    """Write y = x w, with another w in each branch of the same name."""
    one, two = (
        helper.make_graph(
            [
                constant("w", np.full((4, 2), value, np.float32)),
                helper.make_node("MatMul", ["x", "w"], ["inner"]),
            ],
            f"branch {value}",
            [],
            [helper.make_tensor_value_info("inner", FLOAT, None)],
        )
        for value in (1, 2)
    )
    nodes = [
        constant("rate", np.array(16000, np.float32)),
        helper.make_node("Equal", ["sr", "rate"], ["is"]),
        helper.make_node("If", ["is"], ["y"], then_branch=one, else_branch=two, name="choice"),
    ]
    save(path, nodes, {"x": ["n", 4], "sr": []}, "y")


@pytest.mark.parametrize(("rate", "value"), [(16000.0, 4.0), (8000.0, 8.0)])
def test_a_branch_is_chosen_by_an_input_that_is_given(rate: float, value: float, tmp_path: Path) -> None:
    branches(tmp_path / "m")
    module = load(tmp_path / "m", given={"sr": rate})
    assert module.inputs == ("x",)
    assert torch.equal(module.eval()(torch.ones(3, 4)), torch.full((3, 2), value))


def test_a_branch_by_data_is_refused_with_the_remedy(tmp_path: Path) -> None:
    branches(tmp_path / "m")
    with pytest.raises(
        Unsupported, match=r"ONNX node choice: operator If .* depends on data; give the input"
    ):
        load(tmp_path / "m").eval()(torch.ones(3, 4), torch.tensor(16000.0))
    with pytest.raises(CaptureError, match="no input 'rate'; it has x, sr"):
        load(tmp_path / "m", given={"rate": 1})


def test_softmax_of_an_old_opset_is_over_all_axes_after(tmp_path: Path) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"])
    save(tmp_path / "m", [node], {"x": [1, 2, 6]}, "y", opset=11)
    x = torch.from_numpy(X)
    assert torch.equal(load(tmp_path / "m").eval()(x), torch.softmax(x.reshape(1, 12), -1).reshape(1, 2, 6))


def test_an_operator_of_an_older_opset_is_converted_as_advised(tmp_path: Path) -> None:
    node = helper.make_node("Clip", ["x"], ["y"], min=2.0, max=5.0)
    model = save(tmp_path / "m", [node], {"x": [1, 2, 6]}, "y", opset=9)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, [1, 2, 6]))
    with pytest.raises(
        Unsupported, match=r"operator Clip as it was in opset 9; .*convert_version\(model, 11\)"
    ):
        load(tmp_path / "m")
    newer = version_converter.convert_version(model, 11)
    (tmp_path / "m").write_bytes(newer.SerializeToString())
    assert load(tmp_path / "m").eval()(torch.from_numpy(X)).tolist() == np.clip(X, 2, 5).tolist()


def test_batch_norm_in_evaluation_form_trains_with_fixed_statistics(tmp_path: Path) -> None:
    names = ("weight", "bias", "mean", "variance")
    tensors = dict(zip(names, (np.full(2, v, np.float32) for v in (2, 1, 0.5, 4)), strict=True))
    node = helper.make_node("BatchNormalization", ["x", *names], ["y"])
    save(tmp_path / "m", [node], {"x": ["n", 2, 6]}, "y", tensors)
    x = torch.from_numpy(X)
    with pytest.raises(Unsupported, match="--freeze mean and variance"):
        load(tmp_path / "m").train()(x)
    fixed = load(tmp_path / "m", freeze=("mean", "variance")).train()
    assert torch.equal(fixed(x), load(tmp_path / "m").eval()(x))
