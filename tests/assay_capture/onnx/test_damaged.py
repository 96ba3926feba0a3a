"""ONNX files with bytes exchanged: refused, or run."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from assay_capture.capture.errors import CaptureError
from assay_capture.onnx import load
from referee_py.errors import AssayError

from .test_hostile import linear, two


def network() -> bytes:
    """Return a model of many operators with many attributes, so that there is much to damage."""
    nodes = [
        helper.make_node("Constant", [], ["shape"], value_ints=[1, 1, 2, 3]),
        helper.make_node("Reshape", ["x", "shape"], ["image"]),
        helper.make_node("Pad", ["image", "pads"], ["padded"]),
        helper.make_node(
            "MaxPool", ["padded"], ["pooled"], kernel_shape=[2, 2], pads=[0, 1, 0, 1], strides=[1, 2]
        ),
        helper.make_node("AveragePool", ["pooled"], ["average"], kernel_shape=[1, 2], ceil_mode=1),
        helper.make_node("Concat", ["average", "average"], ["joined"], axis=3),
        helper.make_node("Split", ["joined"], ["left", "right"], axis=3, num_outputs=2),
        helper.make_node("Slice", ["left", "starts", "ends"], ["piece"]),
        helper.make_node("Transpose", ["piece"], ["turned"], perm=[3, 2, 1, 0]),
        helper.make_node("ReduceMean", ["turned"], ["mean"], keepdims=0),
        helper.make_node("Cast", ["mean"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Softmax", ["layer.weight"], ["soft"], axis=-1),
        helper.make_node("MatMul", ["x", "soft"], ["product"]),
        helper.make_node("Add", ["product", "mean"], ["y"]),
    ]
    vectors = {"pads": [0, 0, 1, 1, 0, 0, 0, 1], "starts": [0, 0], "ends": [1, 9]}
    model = linear(nodes=nodes, opset=18)
    tensors = [numpy_helper.from_array(np.array(value), name) for name, value in vectors.items()]
    model.graph.initializer.extend(tensors)
    return model.SerializeToString()


def test_the_network_to_damage_runs(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(network())
    assert load(tmp_path / "model.onnx")(torch.ones(2, 3)).shape == (2, 2)


NETWORK = network()
GOOD = two(["x", "layer.weight"], ["h"]).SerializeToString()


def test_a_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    for name in (b"MatMul", b"layer.weight", b"y"):
        (tmp_path / "model.onnx").write_bytes(linear().SerializeToString().replace(name, b"\x80" + name[1:]))
        with pytest.raises(CaptureError, match="not text"):
            load(tmp_path / "model.onnx")


@settings(deadline=None, max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_models_are_refused_or_run(data: st.DataObject, tmp_path: Path) -> None:
    sent = bytearray(data.draw(st.sampled_from([GOOD, NETWORK])))
    for _ in range(data.draw(st.integers(1, 3))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "model.onnx").write_bytes(bytes(sent))
    with contextlib.suppress(AssayError):
        load(tmp_path / "model.onnx")(torch.ones(2, 3))
