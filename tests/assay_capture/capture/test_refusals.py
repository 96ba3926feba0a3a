"""Code that cannot become a program is refused with module path, ATen operator and remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import nn
from torch.utils.checkpoint import checkpoint

from assay_capture.capture import SGD, Adam, CaptureError, Optimizer, Unsupported, capture
from assay_capture.capture.recipes import synthetic
from assay_capture.capture.seeded import data_order

from .eager import Apply

X = np.zeros((20, 6), np.float32)
CLASSES = np.zeros(20, np.int64)
ORDER = data_order(0, 20, 4, 3)
cross_entropy = nn.functional.cross_entropy


def captured(
    module: nn.Module,
    loss: Callable[..., Any] = cross_entropy,
    x: np.ndarray[Any, Any] = X,
    y: np.ndarray[Any, Any] = CLASSES,
    order: np.ndarray[Any, Any] = ORDER,
    optimizer: Optimizer | None = None,
) -> None:
    capture(module, loss, optimizer or SGD(0.1), {"x": x, "y": y}, order)


class Block(nn.Module):
    """A module in a module, so that the path has more than one part."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 6), layer)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(x))


OPERATORS: dict[str, tuple[nn.Module, str, str]] = {
    "random integers": (
        Apply(lambda x: x + torch.randint(0, 1 << 40, (6,))),
        "aten.randint",
        "a range has at most 16777216",
    ),
    "a long permutation": (
        Apply(lambda x: x + torch.randperm(5000)[:6]),
        "aten.randperm",
        "permute at most 2048",
    ),
    "poisson": (Apply(lambda x: x + torch.poisson(x.exp())), "aten.poisson", "rand, randn, bernoulli"),
    "float64": (Apply(lambda x: x.double().float()), "aten._to_copy", "use one of torch.float32"),
    "half": (Apply(lambda x: x.half().float()), "aten._to_copy", "use one of torch.float32"),
    "float16": (Apply(lambda x: x.half().float()), "aten._to_copy", "use one of torch.float32"),
    "complex": (Apply(lambda x: torch.fft.fft(x).real), "aten._fft_r2c", "use one of torch.float32"),
    "Bessel function": (Apply(torch.special.bessel_j0), "aten.special_bessel_j0.default", "add a rule"),
    "a large matrix": (
        Apply(lambda x: x + torch.linalg.inv(torch.eye(100) + x.sum())[0, 0]),
        "aten.linalg_inv_ex.default",
        "factorise at most 64",
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_unsupported_operator_is_named_with_its_module_and_a_remedy(name: str) -> None:
    layer, operator, remedy = OPERATORS[name]
    with pytest.raises(Unsupported) as caught:
        captured(Block(layer))
    message = str(caught.value)
    assert message.startswith("module inner.1, ATen operator ")
    assert operator in message
    assert remedy in message


TRACING: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "a branch": (lambda x: x if x.sum() > 0 else -x, "_local_scalar_dense.default makes the program depend"),
    "a number": (lambda x: x * x.sum().item(), "_local_scalar_dense.default makes the program depend"),
    "a mask": (lambda x: x + x[x > 0].sum(), "nonzero.default makes the program depend on values"),
    "numpy": (lambda x: x + torch.from_numpy(x.detach().numpy()), "PyTorch says: .numpy"),
    "shapes that do not fit": (lambda x: x @ x, "PyTorch says: "),
}


@pytest.mark.parametrize("name", TRACING)
def test_what_depends_on_values_is_refused_where_it_happens(name: str) -> None:
    function, message = TRACING[name]
    with pytest.raises(CaptureError) as caught:
        captured(Block(Apply(function)))
    assert re.match(r"module inner\.1(, ATen operator aten\.\S+)?: ", str(caught.value))
    assert message in str(caught.value)


def checkpointed_gpt2(reentrant: bool) -> nn.Module:
    module = hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=50, n_layer=1, n_embd=16, n_head=2, n_positions=16))
    module.train().gradient_checkpointing_enable({"use_reentrant": reentrant})
    return module


def test_a_long_sort_is_refused_with_its_length() -> None:
    with pytest.raises(
        Unsupported,
        match=r"module inner\.1, ATen operator aten\.sort\.default: a sort of rows of 3000 .*sort at most 2048",
    ):
        captured(Block(Apply(lambda x: x + x.repeat(1, 500).sort(1)[0][:, :6])))


def test_both_kinds_of_activation_checkpointing_are_one_program() -> None:
    """Dropout included: the layers are called once, however they are checkpointed."""
    ids = synthetic.tokens(0, 20, 8, 50)
    roots = set()
    for reentrant in (False, True):
        torch.manual_seed(0)
        module = checkpointed_gpt2(reentrant)
        built = capture(module, None, SGD(0.1), {"input_ids": ids, "labels": ids}, ORDER)
        roots.add(built.program.structure_root)
    assert len(roots) == 1


class Again(torch.autograd.Function):
    """Activation checkpointing by a library of its own: the module runs again in the backward pass."""

    @staticmethod
    def forward(context: Any, module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        context.module = module
        context.save_for_backward(x)
        return module(x)

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> Any:
        (x,) = context.saved_tensors
        with torch.enable_grad():
            given = x.detach().requires_grad_()
            (found,) = torch.autograd.grad(context.module(given), given, grad)
        return None, found


class Recomputed(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = Again.apply(self.inner, x)
        return y


def test_a_layer_that_runs_again_in_the_backward_pass_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"a second time in the backward pass .*switch checkpointing off"):
        captured(Block(Recomputed(nn.Dropout(0.2))))


def test_dropout_that_runs_again_without_a_module_is_refused() -> None:
    dropout: Any = lambda x: nn.functional.dropout(x.tanh(), 0.2)  # noqa: E731
    layer = Apply(lambda x: Again.apply(dropout, x))
    with pytest.raises(Unsupported, match=r"in the backward pass"):
        captured(Block(layer))


def test_what_is_computed_again_without_dropout_is_computed_once() -> None:
    """Checkpointing a function without random numbers changes nothing: equal nodes are merged."""

    def program(function: Callable[[torch.Tensor], torch.Tensor]) -> bytes:
        torch.manual_seed(0)
        module = Block(Apply(function))
        return capture(module, cross_entropy, SGD(0.1), {"x": X, "y": CLASSES}, ORDER).program.structure_root

    assert program(lambda x: checkpoint(torch.tanh, x, use_reentrant=False)) == program(torch.tanh)


def test_a_model_without_a_loss_is_told_so() -> None:
    with pytest.raises(CaptureError, match="gives a tensor without a loss; pass a loss function"):
        capture(nn.Linear(6, 3), None, SGD(0.1), {"input": X}, ORDER)


NAMES: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown input": ({"inputs": ("z",)}, r"inputs \('z',\) of the arrays \['x', 'y'\]"),
    "an input that the module does not take": (
        {"inputs": ("x", "y")},
        r"Linear.forward\(\) got an unexpected keyword",
    ),
    "inputs without a loss": ({"loss": None, "inputs": ("x",)}, "without a loss the module gets every array"),
    "a seed beyond 64 bits": ({"seed": 1 << 64}, "below 2\\^64"),
    "a negative seed": ({"seed": -1}, "at least 0"),
}


@pytest.mark.parametrize("name", NAMES)
def test_options_that_do_not_fit_are_refused(name: str) -> None:
    options, message = NAMES[name]
    loss = options.pop("loss", cross_entropy)
    with pytest.raises(CaptureError, match=message):
        capture(nn.Linear(6, 3), loss, SGD(0.1), {"x": X, "y": CLASSES}, ORDER, **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_parameters_of_another_dtype_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(CaptureError, match=rf"weight: dtype {dtype} is not in the operator set"):
        captured(nn.Linear(6, 3).to(dtype), lambda out, y: cross_entropy(out.float(), y))


def test_complex_parameters_are_refused() -> None:
    module = nn.Linear(6, 3, dtype=torch.complex64)
    with pytest.raises(
        CaptureError, match=r"torch\.complex64: there are no complex numbers in the operator set"
    ):
        captured(module, lambda out, y: cross_entropy(out.real, y))


def test_indices_beyond_an_embedding_are_refused() -> None:
    ids = np.full((20, 4), 7)
    module = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(16, 3))
    with pytest.raises(Unsupported, match=r"module 0, .*indices from 7 to 7 into an embedding of 7"):
        captured(module, x=ids)


def test_a_tensor_of_a_module_without_values_is_refused() -> None:
    with torch.device("meta"):
        module = nn.Linear(6, 3)
        table = torch.ones(3)
    with pytest.raises(CaptureError, match=r"register it as a buffer|PyTorch says"):
        capture(module, lambda out, y: cross_entropy(out + table, y), SGD(0.1), {"x": X, "y": CLASSES}, ORDER)


def test_the_loss_has_no_module_path() -> None:
    with pytest.raises(Unsupported, match=r"loss or gradient, ATen operator aten\.i0"):
        captured(nn.Linear(6, 3), lambda out, y: cross_entropy(torch.i0(out), y))


BAD_INPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "float64 data": ({"x": X.astype(np.float64)}, "torch.float64 is not in the operator set"),
    "a target that is not a class": ({"y": CLASSES + 3}, "targets from 3 to 3 for 3 scores"),
    "a negative target": ({"y": CLASSES - 7}, "targets from -7"),
    "lengths that differ": ({"y": CLASSES[:-1]}, "as many examples each"),
    "data that is not finite": ({"x": X + np.float32(np.nan)}, "data x holds values that are not finite"),
    "an order beyond the data": ({"order": ORDER + 20}, "the data has 20"),
    "an order of floats": ({"order": ORDER.astype(np.float32)}, "order must be i64"),
    "a short learning-rate table": ({"optimizer": SGD([0.1, 0.1])}, "for 3 steps; give one number for each"),
    "nesterov without momentum": ({"optimizer": SGD(0.1, nesterov=True)}, "needs a momentum"),
    "a loss for each example": (
        {"loss": lambda o, y: cross_entropy(o, y, reduction="none")},
        "must be a scalar",
    ),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_bad_input_is_refused(name: str) -> None:
    options, message = BAD_INPUTS[name]
    with pytest.raises(CaptureError, match=message):
        captured(nn.Linear(6, 3), **options)


def test_there_must_be_something_to_train() -> None:
    with pytest.raises(CaptureError, match="nothing to train"):
        captured(nn.Linear(6, 3).requires_grad_(False))


def test_a_parameter_outside_the_module_is_not_baked_in() -> None:
    outside = nn.Linear(3, 3)
    with pytest.raises(Unsupported, match="register it in the module"):
        captured(nn.Linear(6, 3), lambda out, y: cross_entropy(outside(out), y), optimizer=Adam())
