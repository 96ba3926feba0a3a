"""LSTM, GRU and RNN, and transposed convolutions, train from ONNX files as they do in PyTorch."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import repops
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from torch import nn

from assay_capture.capture import SGD, Unsupported, capture
from assay_capture.capture.seeded import data_order
from assay_capture.model_files import cross_entropy
from assay_capture.onnx import OPERATORS, OnnxModule, load, read
from referee_py.execute import Metrics, Run

RNG = np.random.default_rng(23)
STEPS, EXAMPLES, INPUTS, STATES = 5, 3, 7, 4


class States(nn.Module):
    """All that a layer gives, from initial states if `given`, as one tensor of four scores."""

    def __init__(self, layer: nn.Module, given: int = 0) -> None:
        super().__init__()
        self.layer = layer
        self.initial = nn.ParameterList(torch.rand(2, EXAMPLES, STATES) for _ in range(given))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        initial = tuple(self.initial)
        y, last = self.layer(x, *((initial if len(initial) > 1 else initial[0],) if initial else ()))
        ends = last if isinstance(last, tuple) else (last,)
        mean = y.mean(1 if self.layer.batch_first else 0)
        return torch.cat([mean, *(end.sum(0) * k for k, end in enumerate(ends, 1))], 1).tanh()


class Upwards(nn.Module):
    """Transposed convolutions of odd sizes: groups, dilation, output padding, no bias, one dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ConvTranspose2d(2, 6, (3, 2), stride=(2, 3), padding=1, output_padding=(1, 0))
        self.second = nn.ConvTranspose2d(6, 4, 3, groups=2, dilation=(1, 2), bias=False)
        self.third = nn.ConvTranspose1d(4, 4, 4, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(self.second(self.first(x).tanh()).mean(2)).mean(2)


SEQUENCE, SEQUENCES = (STEPS, EXAMPLES, INPUTS), (EXAMPLES, STEPS, INPUTS)
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "lstm": (lambda: States(nn.LSTM(INPUTS, STATES)), SEQUENCE),
    "lstm, deep, both ways": (
        lambda: States(nn.LSTM(INPUTS, STATES, num_layers=2, bidirectional=True, batch_first=True)),
        SEQUENCES,
    ),
    "lstm without biases": (lambda: States(nn.LSTM(INPUTS, STATES, bias=False)), SEQUENCE),
    "lstm from states": (lambda: States(nn.LSTM(INPUTS, STATES, bidirectional=True), 2), SEQUENCE),
    "gru": (lambda: States(nn.GRU(INPUTS, STATES, batch_first=True)), SEQUENCES),
    "gru, both ways": (lambda: States(nn.GRU(INPUTS, STATES, bidirectional=True), 1), SEQUENCE),
    "gru without biases": (lambda: States(nn.GRU(INPUTS, STATES, bias=False)), SEQUENCE),
    "rnn": (lambda: States(nn.RNN(INPUTS, STATES)), SEQUENCE),
    "rnn of relu": (
        lambda: States(nn.RNN(INPUTS, STATES, nonlinearity="relu", bidirectional=True), 1),
        SEQUENCE,
    ),
    "transposed": (Upwards, (EXAMPLES, 2, 5, 4)),
}


def export(name: str, newer: bool, folder: Path) -> tuple[nn.Module, torch.Tensor, Path]:
    torch.manual_seed(len(name))
    make, shape = MODELS[name]
    module, x, path = make(), torch.randn(shape), folder / "model.onnx"
    options: dict[str, Any] = (
        {"dynamo": True, "optimize": False, "verbose": False}
        if newer
        else {
            "dynamo": False,
            "training": torch.onnx.TrainingMode.TRAINING,
            "do_constant_folding": False,
            "opset_version": 17,
        }
    )
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(module, (x,), path, **options)
    return module, x, path


@pytest.mark.parametrize(
    ("name", "newer"),
    [
        # NOTE: the quick tests have every model from one exporter, and each exporter's files.
        pytest.param(name, newer, marks=[] if newer is bool(place % 2) else [pytest.mark.slow])
        for place, name in enumerate(MODELS)
        for newer in (False, True)
    ],
)
def test_outputs_and_gradients_are_those_of_pytorch(name: str, newer: bool, tmp_path: Path) -> None:
    original, x, path = export(name, newer, tmp_path)
    imported = load(path, train=["initial.*"] if any("initial" in n for n in original.state_dict()) else [])
    gradients = []
    for module in (original, imported):
        given = x.clone().requires_grad_()
        output = module(given)
        (output * torch.arange(1.0, 1 + output.numel()).reshape(output.shape)).sum().backward()
        parameters = {n: p.grad for n, p in module.named_parameters()}
        gradients.append({"output": output.detach(), "x": given.grad, **parameters})
    assert gradients[0].keys() == gradients[1].keys(), "the file's tensors have the names of the module's"
    for key, wanted in gradients[0].items():
        torch.testing.assert_close(gradients[1][key], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", [pytest.param("lstm, deep, both ways", marks=pytest.mark.slow), "gru", "transposed"]
)
def test_the_captured_program_trains_as_the_original_does(name: str, tmp_path: Path) -> None:
    original, x, path = export(name, False, tmp_path)
    data: dict[str, Any] = {
        "x": RNG.standard_normal((12, *x.shape[1:])).astype(np.float32),
        "y": np.arange(12) % 4,
    }
    order = data_order(1, 12, EXAMPLES, 3)
    built = capture(load(path).train(), cross_entropy, SGD(0.1), data, order)
    metrics, losses = Metrics(built.labels.metrics), []
    run = Run(built.program, built.constants, built.initial, 3, (1,), repops.backend("cpu"), hook=metrics)
    run.advance(run.initial(), 3, lambda *_: losses.append(float(metrics.latest["loss"])))
    optimizer, expected = torch.optim.SGD(original.parameters(), 0.1), []
    for rows in order:
        optimizer.zero_grad()
        loss = cross_entropy(original(torch.from_numpy(data["x"][rows])), torch.from_numpy(data["y"][rows]))
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("given", "pads"),
    [
        ({}, [2, 1, 1, 0]),
        ({"auto_pad": "SAME_UPPER"}, [1, 0, 2, 1]),
        ({"auto_pad": "SAME_LOWER"}, [2, 1, 1, 0]),
    ],
)
def test_a_transposed_convolution_of_a_given_size(
    given: dict[str, Any], pads: list[int], tmp_path: Path
) -> None:
    """16 x 13 places are cut to 13 x 12; ONNX says on which side more is cut."""
    x, w = (torch.from_numpy(RNG.standard_normal(shape)).float() for shape in ((2, 4, 7, 6), (4, 3, 4, 3)))
    results = []
    for attributes in ({**given, "output_shape": [13, 12]}, {"pads": pads}):
        node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], **attributes)
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xwy"]
        graph = helper.make_graph([node], "up", values[:2], values[2:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        (tmp_path / "up.onnx").write_bytes(model.SerializeToString())
        results.append(load(tmp_path / "up.onnx")(x, w))
    assert torch.equal(*results)
    whole = torch.nn.functional.conv_transpose2d(x, w, stride=2)
    cut = whole[:, :, pads[0] : 16 - pads[2], pads[1] : 13 - pads[3]]
    torch.testing.assert_close(results[0], cut, rtol=1e-5, atol=1e-5)


# --------------------------------------------------------------------------------------- what exporters do not write


def layer(
    op: str,
    outputs: int = 2,
    inputs: tuple[str, ...] = ("x", "w", "r", "b"),
    lengths: Sequence[int] = (),
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model of one node with these inputs, and the constant `lengths` if given."""
    given = {*inputs, *(["lengths"] if lengths else [])}
    names = [name if name in given else "" for name in ("x", "w", "r", "b", "lengths", "h", "c", "p")]
    while not names[-1]:
        names.pop()
    attributes = {"hidden_size": STATES, **attributes}
    nodes = [helper.make_node(op, names, [f"y{k}" for k in range(outputs)], name="node", **attributes)]
    if lengths:
        nodes.insert(0, helper.make_node("Constant", [], ["lengths"], value_ints=lengths))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in inputs]
    results = [helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, None) for k in range(outputs)]
    graph = helper.make_graph(nodes, "layer", values, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def arrays(gates: int, ways: int = 1, x: tuple[int, ...] = SEQUENCE) -> dict[str, Any]:
    shapes = {
        "x": x,
        "w": (ways, gates * STATES, INPUTS),
        "r": (ways, gates * STATES, STATES),
        "b": (ways, 2 * gates * STATES),
        "h": (ways, EXAMPLES, STATES),
        "c": (ways, EXAMPLES, STATES),
        "p": (ways, 3 * STATES),
    }
    return {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def run(model: onnx.ModelProto, given: dict[str, Any], folder: Path) -> list[Any]:
    (folder / "layer.onnx").write_bytes(model.SerializeToString())
    graph = read(folder / "layer.onnx", OPERATORS.__contains__)
    tensors = [torch.from_numpy(given[name].copy()) for name in graph.inputs]
    return [OnnxModule(graph, output=name)(*tensors).numpy() for name in graph.outputs]


@pytest.mark.parametrize(
    ("op", "gates", "attributes"),
    [
        ("LSTM", 4, {"inputs": ("x", "w", "r", "b", "h", "c")}),
        ("GRU", 3, {}),
        ("GRU", 3, {"inputs": ("x", "w", "r", "b", "h"), "linear_before_reset": 1}),
        ("RNN", 1, {}),
    ],
)
def test_results_are_those_of_the_reference(
    op: str, gates: int, attributes: dict[str, Any], tmp_path: Path
) -> None:
    model, given = layer(op, **attributes), arrays(gates)
    names = [value.name for value in model.graph.input]
    expected = ReferenceEvaluator(model).run(None, {name: given[name] for name in names})
    for found, wanted in zip(run(model, given, tmp_path), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_directions_and_layouts(op: str, gates: int, tmp_path: Path) -> None:
    """Reverse is forward on the reversed steps; both ways are one after the other; layout 1 swaps two dimensions."""
    both = arrays(gates, 2)
    y, h = run(layer(op, direction="bidirectional"), both, tmp_path)
    first = {name: value[:1] if name != "x" else value for name, value in both.items()}
    second = {name: value[1:] if name != "x" else value for name, value in both.items()}
    flipped = {**second, "x": second["x"][::-1]}
    forward, reverse = run(layer(op), first, tmp_path), run(layer(op), flipped, tmp_path)
    np.testing.assert_allclose(y, np.concatenate([forward[0], reverse[0][::-1]], 1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(h, np.concatenate([forward[1], reverse[1]]), rtol=1e-4, atol=1e-6)
    backwards = run(layer(op, direction="reverse"), second, tmp_path)
    np.testing.assert_allclose(backwards[0], y[:, 1:], rtol=1e-4, atol=1e-6)
    swapped = {**both, "x": both["x"].swapaxes(0, 1)}
    found = run(layer(op, direction="bidirectional", layout=1), swapped, tmp_path)
    np.testing.assert_allclose(found[0], y.transpose(2, 0, 1, 3), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1], h.swapaxes(0, 1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "gates", "attributes", "message"),
    [
        ("LSTM", 4, {"clip": 3.0}, "LSTM with clip; export the layer without it"),
        ("LSTM", 4, {"input_forget": 1}, "LSTM with input_forget"),
        ("LSTM", 4, {"inputs": ("x", "w", "r", "b", "h", "c", "p")}, r"peepholes \(input P\)"),
        (
            "LSTM",
            4,
            {"activations": ["Sigmoid", "Tanh", "Relu"]},
            "LSTM with activations sigmoid, tanh, relu; use sigmoid, tanh, tanh",
        ),
        ("GRU", 3, {"activation_alpha": [0.1, 0.2]}, "GRU with activation_alpha"),
        ("GRU", 3, {"activations": ["Relu", "Tanh"]}, "activations relu, tanh"),
        ("GRU", 3, {"direction": "sideways"}, "direction sideways with 1 sets of weights; use forward"),
        ("GRU", 3, {"direction": "bidirectional"}, "direction bidirectional with 1 sets"),
        ("RNN", 1, {"activations": ["Affine"]}, "RNN with activation affine; use Tanh or Relu"),
        ("RNN", 1, {"hidden_size": 9}, "hidden_size 9 with R of 4"),
        ("LSTM", 4, {"lengths": [5, 5, 2]}, "other than the full 5 steps; pad"),
    ],
)
def test_what_pytorch_does_not_write_is_refused(
    op: str, gates: int, attributes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(Unsupported, match=message):
        run(layer(op, **attributes), arrays(gates), tmp_path)


def test_lengths_that_are_all_full_are_taken(tmp_path: Path) -> None:
    given = arrays(4)
    with_lengths = run(layer("LSTM", lengths=[STEPS] * EXAMPLES), given, tmp_path)
    np.testing.assert_array_equal(with_lengths[0], run(layer("LSTM"), given, tmp_path)[0])
