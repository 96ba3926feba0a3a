"""An untrusted ONNX file is refused with a reason, and never read from outside its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from assay_capture.capture.errors import CaptureError, Unsupported
from assay_capture.onnx import graphs, load
from assay_capture.onnx import model as model_module
from referee_py.errors import InvalidInput

W = np.arange(6, dtype=np.float32).reshape(3, 2)


def linear(weight: TensorProto | None = None, **changes: Any) -> onnx.ModelProto:
    """Return the model y = x W."""
    weight = weight or numpy_helper.from_array(W, "layer.weight")
    graph = helper.make_graph(
        changes.get("nodes", [helper.make_node("MatMul", ["x", "layer.weight"], ["y"], name="layer")]),
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", changes.get("opset", 17))])


def save(model: onnx.ModelProto, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def refused(
    model: onnx.ModelProto, folder: Path, message: str, error: type[Exception] = CaptureError
) -> None:
    with pytest.raises(error, match=message):
        load(save(model, folder))(torch.ones(2, 3))


# ---------------------------------------------------------------------------------------------------- external data


def external(location: str, offset: int = 0, length: int | None = 24, **more: str) -> onnx.ModelProto:
    weight = TensorProto(name="layer.weight", data_type=TensorProto.FLOAT, dims=[3, 2])
    weight.data_location = TensorProto.EXTERNAL
    entries = {"location": location, "offset": str(offset), **more}
    if length is not None:
        entries["length"] = str(length)
    for key, value in entries.items():
        weight.external_data.add(key=key, value=value)
    return linear(weight)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with its data, beside a secret."""
    place = tmp_path / "model"
    (place / "inner").mkdir(parents=True)
    (place / "weights.bin").write_bytes(b"head" + W.tobytes())
    (place / "inner" / "weights.bin").write_bytes(W.tobytes())
    (tmp_path / "secret.bin").write_bytes(bytes(1000))
    return place


def test_data_beside_the_model_is_read(folder: Path) -> None:
    for model in (
        external("weights.bin", 4),
        external("inner/weights.bin"),
        external("./weights.bin", 4, None),
    ):
        module = load(save(model, folder))
        np.testing.assert_array_equal(module(torch.eye(3)).detach().numpy(), W)


@pytest.mark.parametrize(
    "location",
    [
        "../secret.bin",
        "inner/../../secret.bin",
        "/etc/hostname",
        "",
        ".",
        "..",
        "inner",
        "missing",
        "\\secret.bin",
        "weights.bin\0",
        "a" * 300,
        "C:\\secret.bin",
        "inner/missing",
        "weights.bin/x",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(folder: Path, location: str) -> None:
    refused(
        external(location), folder, "only files in the model's own folder|not a plain file next to the model"
    )


def test_links_are_not_followed(folder: Path) -> None:
    (folder / "link.bin").symlink_to(folder.parent / "secret.bin")
    (folder / "linked").symlink_to(folder.parent)
    refused(external("link.bin"), folder, "not a plain file next to the model")
    refused(external("linked/secret.bin"), folder, "not a plain file next to the model")


@pytest.mark.parametrize(
    ("offset", "length"), [(-4, 24), (5, 24), (1 << 62, 24), (4, 23), (4, 0), (4, -1), (4, 1 << 40)]
)
def test_bytes_beyond_the_file_or_the_tensor_are_refused(folder: Path, offset: int, length: int) -> None:
    refused(external("weights.bin", offset, length), folder, "names bytes")


def test_an_offset_that_is_no_number_is_refused(folder: Path) -> None:
    refused(external("weights.bin", **cast(dict[str, Any], {"offset": "x"})), folder, "not a number")


# ---------------------------------------------------------------------------------------------------------- tensors


def tensor(**changes: Any) -> TensorProto:
    weight = TensorProto(name="layer.weight", data_type=TensorProto.FLOAT, dims=[3, 2], raw_data=W.tobytes())
    for name, value in changes.items():
        if name == "dims":
            del weight.dims[:]
            weight.dims.extend(value)
        else:
            setattr(weight, name, value)
    return weight


TENSORS: dict[str, tuple[TensorProto, str]] = {
    "too few bytes": (tensor(raw_data=W.tobytes()[:-1]), "23 bytes of data"),
    "too many bytes": (tensor(raw_data=W.tobytes() + b"x"), "25 bytes of data"),
    "another shape": (tensor(dims=[3, 3]), "24 bytes of data"),
    "a huge shape": (tensor(dims=[1 << 40, 1 << 40]), "the limits are"),
    "a negative shape": (tensor(dims=[-3, -2]), "has shape"),
    "too few values": (
        TensorProto(name="layer.weight", data_type=1, dims=[3, 2], float_data=[1.0]),
        "1 values",
    ),
    "half precision": (tensor(data_type=TensorProto.FLOAT16), "FLOAT16; export the model in float32"),
    "strings": (tensor(data_type=TensorProto.STRING), "STRING"),
    "an unknown type": (tensor(data_type=99), "element type 99"),
    "a bool that is two": (tensor(data_type=TensorProto.BOOL, raw_data=b"\1\2\0\0\0\0"), "neither 0 nor 1"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_that_lies_is_refused(name: str, tmp_path: Path) -> None:
    weight, message = TENSORS[name]
    refused(linear(weight), tmp_path, message)


# ------------------------------------------------------------------------------------------------------------ graphs


def node(op: str, *, domain: str = "", **attributes: Any) -> list[Any]:
    return [helper.make_node(op, ["x", "layer.weight"], ["y"], name="layer", domain=domain, **attributes)]


BRANCH = helper.make_graph([], "branch", [], [])
MODELS: dict[str, tuple[onnx.ModelProto, str]] = {
    "an unknown operator": (linear(nodes=node("Quantum")), r"ONNX node layer: operator Quantum of opset 17"),
    "another domain": (linear(nodes=node("FusedMatMul", domain="com.microsoft")), "'com.microsoft'"),
    "control flow": (linear(nodes=node("If", then_branch=BRANCH, else_branch=BRANCH)), "operator If"),
    "a graph in an attribute": (linear(nodes=node("MatMul", body=BRANCH)), "attribute body"),
    "an old opset": (
        linear(opset=6),
        r"operator \w+ as it was in opset 6; convert the file: onnx.version_converter",
    ),
    "a future opset": (linear(opset=99), "opset 99"),
    "no opset": (linear(opset=0), "opset 0"),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_has_no_rule_is_named_with_a_remedy(name: str, tmp_path: Path) -> None:
    model, message = MODELS[name]
    refused(model, tmp_path, message, Unsupported)


def test_functions_are_refused(tmp_path: Path) -> None:
    model = linear()
    model.functions.add(name="f", domain="local")
    refused(model, tmp_path, "inline them", Unsupported)


def two(first: list[str], second: list[str], gives: str = "y") -> onnx.ModelProto:
    return linear(nodes=[helper.make_node("MatMul", first, ["h"]), helper.make_node("Relu", second, [gives])])


BROKEN: dict[str, tuple[onnx.ModelProto, str]] = {
    "a value from later": (two(["x", "y"], ["x"]), "nothing before it gives"),
    "a value from nowhere": (two(["x", "layer.weight"], ["z"]), "nothing before it gives"),
    "a value twice": (two(["x", "layer.weight"], ["h"], "h"), "exists already"),
    "an input again": (two(["x", "layer.weight"], ["h"], "x"), "exists already"),
    "an output from nowhere": (two(["x", "layer.weight"], ["h"], "z"), "given by nothing"),
    "an attribute of another type": (linear(nodes=node("Gemm", alpha="x")), "attribute alpha is str"),
    "axes that are text": (
        linear(nodes=[helper.make_node("Transpose", ["x"], ["y"], perm=["a"])]),
        "perm|type 8",
    ),
    "sizes that do not fit": (
        linear(nodes=[helper.make_node("MatMul", ["x", "x"], ["y"])]),
        "exported for x",
    ),
    "too few inputs": (linear(nodes=[helper.make_node("MatMul", ["x"], ["y"])]), "MatMul of"),
    "an axis to reduce that is not there": (
        linear(nodes=[helper.make_node("ReduceMax", ["x"], ["y"], axes=[5])]),
        "axis 5 of 2",
    ),
    "an axis that is not there": (
        linear(nodes=[helper.make_node("Softmax", ["x"], ["y"], axis=7)]),
        "Softmax of",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_graph_is_refused(name: str, tmp_path: Path) -> None:
    model, message = BROKEN[name]
    refused(model, tmp_path, message)


def known(*nodes: Any) -> onnx.ModelProto:
    """Return a model of some constants computed before tracing, and y = x + their sum."""
    last = [
        helper.make_node("ReduceSum", ["big"], ["total"], keepdims=0),
        helper.make_node("Cast", ["total"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "float"], ["y"]),
    ]
    return linear(nodes=[*nodes, *last])


def constant(name: str, *values: int) -> Any:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(values, np.int64)))


BOMBS: dict[str, onnx.ModelProto] = {
    "a constant": known(constant("s", 1 << 20, 1 << 20), helper.make_node("ConstantOfShape", ["s"], ["big"])),
    "an expansion": known(
        constant("one", 1), constant("s", 1 << 20, 1 << 20), helper.make_node("Expand", ["one", "s"], ["big"])
    ),
    "repetition": known(
        constant("one", 1), constant("s", 1 << 40), helper.make_node("Tile", ["one", "s"], ["big"])
    ),
    "broadcasting": known(
        constant("s", 1 << 20, 1),
        constant("t", 1, 1 << 20),
        helper.make_node("ConstantOfShape", ["s"], ["a"]),
        helper.make_node("ConstantOfShape", ["t"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["big"]),
    ),
    "a range": known(
        helper.make_node("Constant", [], ["zero"], value_int=0),
        helper.make_node("Constant", [], ["end"], value_int=1 << 50),
        helper.make_node("Constant", [], ["one"], value_int=1),
        helper.make_node("Range", ["zero", "end", "one"], ["big"]),
    ),
    "padding": known(
        constant("one", 1), constant("s", 1 << 40, 1), helper.make_node("Pad", ["one", "s"], ["big"])
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_cannot_become_a_large_tensor(name: str, tmp_path: Path) -> None:
    refused(BOMBS[name], tmp_path, "the limit is")


# ------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    "name",
    [
        "forward",
        "training",
        "_parameters",
        "a.forward.weight",
        "..",
        "./x",
        "a b\n",
        "x" * 1000,
        "__class__",
        "é/ü",
    ],
)
def test_any_name_of_a_tensor_becomes_a_parameter(name: str, tmp_path: Path) -> None:
    weight = numpy_helper.from_array(W, name)
    model = linear(weight, nodes=[helper.make_node("MatMul", ["x", name], ["y"])])
    module = load(save(model, tmp_path), train=["*"])
    assert len(list(module.parameters())) == 1
    np.testing.assert_array_equal(module(torch.eye(3)).detach().numpy(), W)
    assert type(module).__name__ == "OnnxModule"


def test_names_that_become_the_same_stay_apart(tmp_path: Path) -> None:
    tensors = [numpy_helper.from_array(W + k, name) for k, name in enumerate(("a.b", "a/b", "a.b.c", "a"))]
    nodes = [
        helper.make_node("Sum", [t.name for t in tensors], ["s"]),
        helper.make_node("MatMul", ["x", "s"], ["y"]),
    ]
    model = linear(tensors[0], nodes=nodes)
    model.graph.initializer.extend(tensors[1:])
    module = load(save(model, tmp_path), train=["*"])
    assert len(dict(module.named_parameters())) == 4
    np.testing.assert_array_equal(module(torch.eye(3)).detach().numpy(), 4 * W + 6)


def test_frozen_tensors_are_not_trained(tmp_path: Path) -> None:
    module = load(save(linear(), tmp_path), freeze=["layer.*"])
    assert [p.requires_grad for p in module.parameters()] == [False]
    with pytest.raises(CaptureError, match="no output 'z'; it has y"):
        load(tmp_path / "model.onnx", output="z")
    with pytest.raises(CaptureError, match="the model takes x"):
        module(torch.zeros(2, 3), torch.zeros(1))


# ------------------------------------------------------------------------------------------------------------- bytes


def test_files_that_are_no_models_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    for data in (b"", b"\xff" * 100, b"PK\x03\x04", b"\x08\x07"):
        path.write_bytes(data)
        with pytest.raises(CaptureError, match="not an ONNX model"):
            load(path)
    save(linear(), tmp_path)
    monkeypatch.setattr(model_module, "MAX_FILE_BYTES", 20)
    with pytest.raises(InvalidInput, match="at most 20 bytes; keep its tensors"):
        load(path)


def test_too_many_nodes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MAX_NODES", 1)
    refused(two(["x", "layer.weight"], ["h"]), tmp_path, "a model of more than 1 nodes")
