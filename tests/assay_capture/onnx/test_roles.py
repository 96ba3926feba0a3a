"""What was a buffer in the exported model is not trained, and what the file leaves open is asked."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from assay_capture.capture import SGD, CaptureError, Unsupported, build
from assay_capture.model_files import cross_entropy, optimizer_of, recipe
from assay_capture.onnx import load

LENGTH, WIDTH, TOKENS = 5, 6, 9


class Places(nn.Module):
    """Positions of all kinds: learned, a table, one that is not stored, a mask, and a constant."""

    table: torch.Tensor
    inv_freq: torch.Tensor
    mask: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.learned = nn.Parameter(torch.rand(1, LENGTH, WIDTH))
        self.register_buffer("table", torch.rand(1, LENGTH + 2, WIDTH))
        self.register_buffer("inv_freq", torch.rand(WIDTH), persistent=False)
        self.register_buffer("mask", torch.rand(LENGTH, 1))
        self.constant = torch.rand(WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.embed(x) + self.learned + self.table[:, :LENGTH] * self.inv_freq + self.constant
        return self.out(self.norm(y * self.mask).mean(1))


PARAMETERS = {"embed.weight", "learned", "norm.weight", "norm.bias", "out.weight", "out.bias"}


def images() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 4))


def export(module: nn.Module, x: torch.Tensor, path: Path, **options: Any) -> Path:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.rand(parameter.shape) + 0.1)
    more: dict[str, Any] = {"verbose": False} if options["dynamo"] else {"opset_version": 17}
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(module, (x,), path, **more, **options)
    return path


OLDER: dict[str, Any] = {
    "dynamo": False,
    "training": torch.onnx.TrainingMode.TRAINING,
    "do_constant_folding": False,
}
NEWER: dict[str, Any] = {"dynamo": True, "optimize": False}
IMAGES, IDS = torch.rand(4, 2, 5, 5), torch.arange(4 * LENGTH).reshape(4, LENGTH) % TOKENS


def trained(module: nn.Module) -> set[str]:
    return {name for name, value in module.named_parameters() if value.requires_grad}


def test_the_newer_exporter_notes_what_a_buffer_is(tmp_path: Path) -> None:
    torch.manual_seed(1)
    original = Places()
    path = export(original, IDS, tmp_path / "places.onnx", **NEWER)
    module = load(path)
    assert trained(module) == PARAMETERS
    assert set(dict(module.named_buffers())) == {"table", "inv_freq", "mask", "constant"}
    torch.testing.assert_close(module(IDS), original(IDS))


def test_a_job_keeps_buffers_as_they_are(tmp_path: Path) -> None:
    path = export(Places(), IDS, tmp_path / "places.onnx", **NEWER)
    data = {"x": np.tile(IDS.numpy(), (3, 1)), "y": np.arange(12) % 3}
    made = recipe(path, data, loss="cross-entropy", optimizer=SGD(0.1), steps=2, batch_size=4)
    assert {n for n in build(made).labels["slots"] if n.startswith("param.")} == {
        f"param.{name}" for name in PARAMETERS
    }


def test_what_was_folded_from_buffers_is_no_parameter(tmp_path: Path) -> None:
    """A transposed weight is one, under the name of the file."""
    torch.manual_seed(2)
    original = Places()
    path = export(original, IDS, tmp_path / "places.onnx", dynamo=True, optimize=True)
    module = load(path)
    assert trained(module) >= PARAMETERS - {"out.weight"}
    sizes = sorted(value.numel() for value in module.parameters() if value.requires_grad)
    assert sizes == sorted(value.numel() for value in original.parameters())
    torch.testing.assert_close(module(IDS), original(IDS))


def test_a_parameter_that_is_folded_into_several_tensors_is_asked_for(tmp_path: Path) -> None:
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.RNN(WIDTH, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.rnn(x)[0]

    x = torch.rand(3, 2, WIDTH)
    path = export(Steps(), x, tmp_path / "rnn.onnx", dynamo=True, optimize=True)
    with pytest.raises(CaptureError, match=r"does not say which of 2 tensors .*\[4, 4\].*--train NAME"):
        load(path)(x)


class Merged(nn.Module):
    """A parameter and a buffer with the same numbers."""

    fixed: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("fixed", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.scale).tanh() * self.fixed


def test_a_parameter_that_stands_for_a_buffer_too_is_asked_for(tmp_path: Path) -> None:
    model, x = Merged(), torch.rand(2, 4)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(model, (x,), tmp_path / "m.onnx", dynamo=True, optimize=True, verbose=False)
    assert len(onnx.load(tmp_path / "m.onnx").graph.initializer) == 1, "the exporter has merged them"
    with pytest.raises(CaptureError, match=r"does not say which of 1 tensors"):
        load(tmp_path / "m.onnx")(x)


def test_a_file_of_the_older_exporter_is_judged_by_names(tmp_path: Path) -> None:
    torch.manual_seed(3)
    original = Places()
    path = export(original, IDS, tmp_path / "places.onnx", **OLDER)
    with pytest.raises(
        CaptureError,
        match=r"which of 2 tensors are parameters and which are buffers: learned \[1, 5, 6\], table \[1, 7, 6\]; "
        r"say --train NAME or --freeze NAME",
    ):
        load(path)(IDS)
    module = load(path, train=["learn*"], freeze=["table"])
    assert trained(module) == PARAMETERS
    torch.testing.assert_close(module(IDS), original(IDS))
    assert "mask" in dict(load(path).named_buffers())
    torch.testing.assert_close(load(path).eval()(IDS), original(IDS))  # inference trains nothing


def test_a_decision_overrides_the_file(tmp_path: Path) -> None:
    path = export(Places(), IDS, tmp_path / "places.onnx", **NEWER)
    assert trained(load(path, train=["inv_freq"], freeze=["norm.*"])) == (PARAMETERS | {"inv_freq"}) - {
        "norm.weight",
        "norm.bias",
    }
    with pytest.raises(
        CaptureError, match=r"'learned' is to be frozen \(l\*\) and to be trained \(learned\)"
    ):
        load(path, train=["learned"], freeze=["l*"])
    for given in (("lerned",), ()):
        with pytest.raises(CaptureError, match=r"no tensor of the model matches 'lerned'; it has .*learned"):
            load(path, train=given, freeze=() if given else ("lerned",))


# ----------------------------------------------------------------------------------- files of other programs, by hand


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.weight", "trained"),
        ("a/bias", "trained"),
        ("b.in_proj_weight", "trained"),
        ("r.weight_hh_l1_reverse", "trained"),
        ("a.rotary.inv_freq", "buffer"),
        ("a.causal_mask", "buffer"),
        ("pe", "buffer"),
        ("x.cos_cached", "buffer"),
        ("loss.pos_weight", "asked"),
        ("anything", "asked"),
    ],
)
def test_names(name: str, kind: str, tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.ones((2, 3), np.float32), name)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", name], ["y"])], "g", values[:1], values[1:], [tensor]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    module = load(tmp_path / "m.onnx")
    assert len(list(module.buffers())) == (kind == "buffer")
    assert len(trained(module)) == (kind in ("trained", "asked"))  # whoever trains it is asked first
    if kind == "asked":
        with pytest.raises(CaptureError, match=f"which of 1 tensors .* {name}"):
            module(torch.ones(2, 3))
    else:
        module(torch.ones(2, 3))


@pytest.mark.parametrize(
    ("note", "kind"),
    [("PARAMETER", "trained"), ("BUFFER", "buffer"), ("CONSTANT_TENSOR", "buffer")],
)
def test_notes_go_before_names(note: str, kind: str, tmp_path: Path) -> None:
    for name in ("weight", "inv_freq"):
        tensor = numpy_helper.from_array(np.ones(3, np.float32), name)
        values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("x", "y", name)]
        values[2].metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value=note)
        graph = helper.make_graph(
            [helper.make_node("Mul", ["x", name], ["y"])], "g", values[:1], values[1:2], [tensor]
        )
        graph.value_info.append(values[2])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        module = load(tmp_path / "m.onnx")
        assert (len(trained(module)), len(list(module.buffers()))) == (kind == "trained", kind == "buffer")


# ---------------------------------------------------------------------------------------------------------- batch norm


@pytest.mark.parametrize(
    ("options", "train", "message"),
    [
        (NEWER, True, "evaluation form"),
        ({"dynamo": True, "optimize": True}, True, "folded into other tensors.*1.running_mean"),
        ({"dynamo": True, "optimize": True}, False, "folded into other tensors.*1.running_mean"),
        ({"dynamo": False}, False, r"folded into other tensors.*onnx::Conv_\d+"),
        ({"dynamo": False, "do_constant_folding": False, "training": torch.onnx.TrainingMode.PRESERVE}, False,
         "evaluation form"),
    ],
)  # fmt: skip
def test_batch_norm_of_evaluation_is_for_inference_only(
    options: dict[str, Any], train: bool, message: str, tmp_path: Path
) -> None:
    torch.manual_seed(4)
    original = images().train(train)
    path = export(original, IMAGES, tmp_path / "images.onnx", **options)
    data = {"x": IMAGES.numpy(), "y": np.arange(4)}
    made = recipe(path, data, loss="cross-entropy", optimizer=optimizer_of("sgd", 0.1), steps=1, batch_size=2)
    with pytest.raises(
        Unsupported, match=rf"{message}.*dynamo=False, training=torch.onnx.TrainingMode.TRAINING"
    ):
        build(made)
    torch.testing.assert_close(load(path).eval()(IMAGES), original.eval()(IMAGES), rtol=1e-4, atol=1e-5)


def test_the_remedy_works(tmp_path: Path) -> None:
    original = images()
    path = export(original, IMAGES, tmp_path / "images.onnx", **OLDER)
    found, wanted = (cross_entropy(model(IMAGES), torch.arange(4)) for model in (load(path), original))
    assert found.item() == pytest.approx(wanted.item(), rel=1e-4)
