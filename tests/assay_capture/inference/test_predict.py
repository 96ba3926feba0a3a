"""A module over a data set: each row's output is at the row's place, for any batches."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repops
import torch
from torch import nn

from assay_capture.capture import CaptureError, build, load_recipe
from assay_capture.capture.recipe import bundle_of
from assay_capture.inference import Predict, loop, row
from referee_py.execute import Run
from trainer_node.local.bundle import Bundle

RNG = np.random.default_rng(2)
X = RNG.standard_normal((10, 6)).astype(np.float32)


def mlp() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def final(bundle: Bundle) -> dict[str, np.ndarray[Any, Any]]:
    terms = bundle.terms
    run = Run.of(bundle, repops.backend("cpu"))
    return dict(zip(bundle.labels["slots"], run.advance(run.initial(), terms.steps).arrays, strict=True))


@pytest.mark.parametrize("batch", [1, 4, 5, 10, 16])
def test_outputs_stand_where_their_rows_do(batch: int) -> None:
    """Dropout is off, and a short last batch changes nothing."""
    module = mlp()
    found = final(Predict("mlp", module, {"x": X}, batch).build())
    np.testing.assert_allclose(
        found["output"], module.eval()(torch.from_numpy(X)).detach().numpy(), rtol=1e-5
    )


def test_a_row_does_not_depend_on_its_batch() -> None:
    """Bit for bit: the order of a sum does not depend on the number of rows."""
    one, other = (final(Predict("mlp", mlp(), {"x": X}, batch).build())["output"] for batch in (3, 10))
    assert one.tobytes() == other.tobytes()


def test_zeros_keep_their_signs() -> None:
    class Negated(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return -torch.relu(x)

    found = final(Predict("zeros", Negated(), {"x": X}, 4).build())["output"]
    expected = -np.maximum(X, np.float32(0))
    assert found.tobytes() == expected.tobytes()
    assert np.signbit(found[X < 0]).all()


def test_several_inputs_and_outputs_by_name() -> None:
    class Both(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"sum": a + b.unsqueeze(1), "rows": a.sum(1)}

    tens = np.arange(10, dtype=np.int64) * 10
    found = final(Predict("both", Both(), {"a": X, "b": tens}, 4, outputs=dict).build())
    np.testing.assert_array_equal(found["sum"], X + tens[:, None].astype(np.float32))
    np.testing.assert_allclose(found["rows"], X.sum(1), rtol=1e-5, atol=1e-6)


def test_images_through_running_statistics() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    module(torch.randn(8, 3, 8, 8))
    images = RNG.standard_normal((5, 3, 8, 8)).astype(np.float32)
    bundle = Predict("images", module, {"x": images}, 2).build()
    expected = module.eval()(torch.from_numpy(images)).detach().numpy()
    np.testing.assert_allclose(final(bundle)["output"], expected, rtol=1e-4, atol=1e-5)
    assert bundle.labels["slots"] == ["output"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": {}}, "as many rows each"),
        ({"data": {"x": X, "y": X[:3]}}, "as many rows each"),
        ({"batch_size": 0}, "batch size from 1"),
        ({"outputs": lambda y: {"class": y.argmax(1)}}, r"output class is torch\.int64"),
        ({"outputs": lambda y: {"all": y.sum()}}, "a row for each of the 4 examples"),
    ],
)
def test_what_cannot_be_put_into_a_table_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        Predict(**{"name": "mlp", "module": mlp(), "data": {"x": X}, "batch_size": 4, **options}).build()


# ------------------------------------------------------------------------------------------------- steps of any kind


def test_any_step_function_is_a_program() -> None:
    """A power iteration: the state is a vector, the module a matrix."""
    module = nn.Linear(4, 4, bias=False)

    def body(forward: Any, state: Any, constants: Any, step: Any) -> Any:
        image = forward(state["v"])
        norm = image.square().sum().sqrt()
        scale = row(constants["scale"], step)
        return {"v": image / norm * scale}, {"norm": norm}

    start = np.ones(4, np.float32)
    scales = np.array([1.0, 1.0, 2.0], np.float32)
    built = loop(module, body, {"v": start}, {"scale": scales})
    found = final(bundle_of("power", built, 3, None))["v"]
    v = torch.ones(4)
    for scale in scales:
        image = module(v).detach()
        v = image / image.square().sum().sqrt() * float(scale)
    np.testing.assert_allclose(found, v.numpy(), rtol=1e-5)
    assert set(built.labels.constants) == {"weight.weight", "scale"}


def test_a_state_that_is_not_there_is_refused() -> None:
    with pytest.raises(CaptureError, match="gives other, which the state does not have"):
        loop(nn.Identity(), lambda *given: ({"other": given[1]["v"]}, {}), {"v": X})
    with pytest.raises(CaptureError, match=r"v: dtype torch\.float64"):
        loop(nn.Identity(), lambda *given: (given[1], {}), {"v": X.astype(np.float64)})


RECIPE = """
import numpy as np
from torch import nn
from assay_capture.inference import Predict

def scores(batch: int = 4) -> Predict:
    return Predict("scores", nn.Flatten(), {"x": np.ones((6, 2, 2), np.float32)}, batch)
"""


def test_a_recipe_may_give_an_inference_job(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RECIPE)
    bundle = build(load_recipe(f"{tmp_path / 'mine.py'}:scores", batch=3))
    assert (bundle.name, bundle.terms.steps) == ("scores", 2)
    assert final(bundle)["output"].tolist() == [[1.0] * 4] * 6


def test_commands_build_inference_from_onnx_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx import TensorProto, helper, numpy_helper

    from assay_capture.datasets import Dataset
    from trainer_node.cli import main

    table = (np.eye(20, dtype=np.float32)[(np.arange(20) * 3 + 1) % 20]).copy()
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "x"], ["scores"])],
        "bigrams",
        [helper.make_tensor_value_info("x", TensorProto.INT64, ["n", "t"])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "bigrams.onnx").write_bytes(model.SerializeToString())
    Dataset({"prompts": np.array([[1], [2]])}).write(tmp_path / "prompts")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["assay", "program", "build", "bigrams.onnx", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        return int(caught.value.code or 0)

    assert run("story", "--data", "prompts", "--decode", 5) == 0
    assert final(Bundle.read(Path("story")))["tokens"].tolist() == [[1, 4, 13, 0, 1], [2, 7, 2, 7, 2]]
    assert run("table", "--data", "prompts", "--predict", "--batch", 1, "--strides", "2,1") == 0
    bundle = Bundle.read(Path("table"))
    assert bundle.terms.strides == (2, 1)
    np.testing.assert_array_equal(final(bundle)["output"][:, 0], table[[1, 2]])
    Dataset({"x": np.array([[1], [2]]), "y": np.array([0, 1])}).write(tmp_path / "labelled")
    for more in ((), ("--inputs", "x")):
        assert run("scores", "--data", "labelled", "--predict", "--batch", 2, *more) == 0, (
            "labels are no input"
        )
        np.testing.assert_array_equal(final(Bundle.read(Path("scores")))["output"][:, 0], table[[1, 2]])
    assert run("other", "--data", "labelled", "--predict", "--inputs", "z") == 2
    assert run("other", "--data", "prompts", "--decode", 5, "--loss", "mse") == 2
    assert run("other", "--predict") == 2
    assert run("other", "--data", "prompts", "--predict", "--steps", 5) == 2
