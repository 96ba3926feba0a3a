"""Programs do what the module does, where a trace could lose something without a word."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers as hf
from torch import nn
from torch.utils.checkpoint import checkpoint

from assay_capture.capture import SGD, CaptureError, Recipe, Unsupported, build, capture
from assay_capture.capture.seeded import data_order

from . import eager

STEPS = 4
RNG = np.random.default_rng(0)
X = RNG.standard_normal((16, 6)).astype(np.float32)
Y = RNG.integers(0, 3, 16)
DATA: eager.Data = {"x": X, "y": Y}
ORDER = data_order(0, 16, 4, STEPS)
cross_entropy = nn.functional.cross_entropy


def check(module: nn.Module, loss: Callable[..., Any] = cross_entropy, data: eager.Data = DATA) -> None:
    """Compare losses, parameters and buffers with eager PyTorch's after a few steps."""
    built = capture(module, loss, SGD(0.1), data, ORDER)
    ours, slots = eager.run_program(built, STEPS)
    theirs = copy.deepcopy(module)
    trained = [p for p in theirs.parameters() if p.requires_grad]
    want = eager.run_eager(theirs, eager.of(loss), torch.optim.SGD(trained, 0.1), data, ORDER)
    np.testing.assert_allclose(ours, want, rtol=1e-4)
    for name, tensor in theirs.state_dict().items():
        found = [
            slots[f"{kind}.{name}"] for kind in ("param", "frozen", "buffer") if f"{kind}.{name}" in slots
        ]
        for array in found:
            np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-4, atol=1e-6)
        assert found or torch.equal(tensor, module.state_dict()[name])


class Teacher(nn.Module):
    """A momentum encoder: frozen parameters that follow the trained ones, as in MoCo and BYOL."""

    def __init__(self, follow: Callable[[torch.Tensor, torch.Tensor], object]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.student, self.teacher = nn.Linear(6, 3), nn.Linear(6, 3)
        self.teacher.requires_grad_(False)
        self.follow = follow

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for mine, other in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                self.follow(mine, other)
        return self.student(x) - self.teacher(x)


@pytest.mark.parametrize(
    "follow",
    [
        lambda mine, other: mine.mul_(0.9).add_(other, alpha=0.1),
        lambda mine, other: mine.lerp_(other, 0.1),
        lambda mine, other: mine.copy_(0.9 * mine + 0.1 * other),
    ],
)
def test_frozen_parameters_that_are_written_are_state(follow: Callable[..., object]) -> None:
    check(Teacher(follow))


class Rewritten(nn.Module):
    """A trained weight that each forward pass brings back into a set, as in SwAV and WGAN."""

    def __init__(self, write: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)
        self.write = write

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.write(self.second.weight)
        return self.second(self.first(x).tanh())


@pytest.mark.parametrize(
    "write",
    [
        lambda w: w.clamp_(-0.1, 0.1),
        lambda w: w.copy_(nn.functional.normalize(w, dim=1)),
        lambda w: w.mul_(0.5),
    ],
)
def test_the_optimizer_starts_from_what_the_forward_pass_wrote(write: Callable[..., object]) -> None:
    check(Rewritten(write))


def test_data_that_is_replaced_is_refused() -> None:
    def replace(weight: torch.Tensor) -> None:
        weight.data = weight.data * 0.5

    with pytest.raises(CaptureError, match=r"second\.weight"):
        check(Rewritten(replace))


def test_writing_through_data_is_seen() -> None:
    check(Rewritten(lambda weight: weight.data.clamp_(-0.1, 0.1)))


class Counting(nn.Module):
    """A module that counts its calls, and may use the count."""

    def __init__(self, uses: bool) -> None:
        super().__init__()
        self.layer, self.calls, self.uses = nn.Linear(6, 3), 0, uses

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.layer(x) * (1 / self.calls if self.uses else 1)


def test_a_step_that_depends_on_a_python_counter_is_refused() -> None:
    module = Counting(True)
    with pytest.raises(
        Unsupported, match=r"calls, which it changes itself; .* keep what changes in a buffer"
    ):
        capture(module, cross_entropy, SGD(0.1), DATA, ORDER)
    assert module.calls == 0
    harmless = Counting(False)
    check(harmless)


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.inner, self.head, self.reentrant = nn.Linear(6, 6), nn.Linear(6, 3), reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.requires_grad_() if self.reentrant else x
        return self.head(checkpoint(lambda t: self.inner(t).tanh(), x, use_reentrant=self.reentrant))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_layers_are_called_once(reentrant: bool) -> None:
    check(Checkpointed(reentrant))


@pytest.mark.parametrize("reentrant", [False, True])
def test_adapters_have_gradients_under_gradient_checkpointing(reentrant: bool) -> None:
    """The usual set-up of LoRA; the reentrant kind hides its backward pass from autograd.grad."""
    config = hf.LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
    )
    torch.manual_seed(0)
    base = hf.LlamaForCausalLM(config)
    adapter = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    model = peft.get_peft_model(base, adapter)
    model.enable_input_require_grads()
    with warnings.catch_warnings(action="ignore"):
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model.train()
    tokens = np.random.default_rng(1).integers(0, 32, (8, 6))
    data = {"input_ids": tokens, "labels": tokens}
    built = capture(model, None, SGD(0.1), data, data_order(0, 8, 4, 2), gradients=True)
    eager.check_gradients(built, model, eager.own_loss, data, data_order(0, 8, 4, 2), 1e-4)


def test_a_loss_that_depends_on_no_parameter_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"no parameter gets a gradient|does not require grad"):
        capture(nn.Linear(6, 3), lambda y, _: (y.detach() ** 2).mean(), SGD(0.1), DATA, ORDER)


def test_parameters_without_a_gradient_are_told() -> None:
    module = nn.Sequential(nn.Linear(6, 3))
    module.register_parameter("unused", nn.Parameter(torch.ones(2)))
    with pytest.warns(UserWarning, match="no gradient: unused"):
        capture(module, cross_entropy, SGD(0.1), DATA, ORDER)


def test_a_batch_without_a_target_has_gradients_of_zero() -> None:
    """As in PyTorch: the loss is 0 / 0, its gradient 0."""
    labels = np.where(np.isin(np.arange(16), ORDER[1]), -100, Y)
    module = nn.Linear(6, 3)
    built = capture(module, cross_entropy, SGD(0.1), {"x": X, "y": labels}, ORDER)
    losses, slots = eager.run_program(built, STEPS)
    theirs = copy.deepcopy(module)
    want = eager.run_eager(
        theirs,
        eager.of(cross_entropy),
        torch.optim.SGD(theirs.parameters(), 0.1),
        {"x": X, "y": labels},
        ORDER,
    )
    assert np.isnan(losses[1])
    np.testing.assert_allclose(losses, want, rtol=1e-4)
    np.testing.assert_allclose(slots["param.weight"], theirs.weight.detach(), rtol=1e-4)


def test_the_margin_loss_of_several_labels() -> None:
    """PyTorch's own decomposition of it gives another number."""
    labels = np.array([[3, 0, -1, 1], [-1, 2, 0, 1], [1, 2, 3, 0], [2, -1, -1, -1]] * 4)
    check(nn.Linear(6, 4), nn.functional.multilabel_margin_loss, {"x": X, "y": labels})


def test_hooks_of_parameters_change_their_gradients() -> None:
    module = nn.Linear(6, 3)
    module.weight.register_hook(lambda gradient: gradient * 2)
    module.weight.register_hook(lambda gradient: gradient.clamp(max=0.01))
    built = capture(module, cross_entropy, SGD(0.1), DATA, ORDER)
    ours, slots = eager.run_program(built, STEPS)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    want = eager.run_eager(module, eager.of(cross_entropy), optimizer, DATA, ORDER)
    np.testing.assert_allclose(ours, want, rtol=1e-5)
    np.testing.assert_allclose(slots["param.weight"], module.weight.detach(), rtol=1e-4)


def test_a_hook_that_steps_by_itself_is_refused() -> None:
    module = nn.Linear(6, 3)
    module.weight.register_post_accumulate_grad_hook(lambda _: None)
    with pytest.raises(Unsupported, match=r"weight has a hook after its gradient .*part of the optimizer"):
        capture(module, cross_entropy, SGD(0.1), DATA, ORDER)


def test_the_module_inside_a_compiled_or_parallel_one_is_taken() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 3))
    plain = capture(module, cross_entropy, SGD(0.1), DATA, ORDER)
    wrapped: list[Any] = [torch.compile(module), nn.DataParallel(module)]
    for other in (capture(w, cross_entropy, SGD(0.1), DATA, ORDER) for w in wrapped):
        assert other.program.to_bytes() == plain.program.to_bytes()
        assert other.labels.slots == plain.labels.slots


def test_what_is_compiled_inside_is_captured_as_it_was_written() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(6, 3)
    plain = build(Recipe("plain", nn.Sequential(layer), cross_entropy, SGD(0.1), DATA, STEPS, 4))
    compiled: Any = torch.compile(layer)
    inside, loss = nn.Sequential(compiled), torch.compile(cross_entropy)
    for module, objective in ((inside, cross_entropy), (nn.Sequential(layer), loss), (inside, loss)):
        of = build(Recipe("compiled", module, objective, SGD(0.1), DATA, STEPS, 4))
        assert of.program.nodes == plain.program.nodes
        assert str(of.labels["checked"]).startswith(
            "loss and gradients of the first step are those of PyTorch"
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Sequential(nn.LazyLinear(3)), r"module 0: weight has no shape yet; call the module once"),
        (lambda: torch.jit.script(nn.Linear(6, 3)), r"is scripted; give the module that it was made of"),
    ],
)
def test_what_cannot_be_traced_is_refused(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        capture(make(), cross_entropy, SGD(0.1), DATA, ORDER)


@pytest.mark.parametrize("dtype", [np.int32, np.int16, np.uint8, np.int8])
def test_smaller_integers_are_those_of_64_bits(dtype: type) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Embedding(10, 6), nn.Linear(6, 3))
    x = np.random.default_rng(0).integers(0, 10, 16)
    wide, small = (
        capture(module, cross_entropy, SGD(0.1), {"x": array, "y": Y}, ORDER).program.to_bytes()
        for array in (x, x.astype(dtype))
    )
    assert wide == small


def test_hooks_of_an_optimizer_are_refused() -> None:
    module = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    optimizer.register_step_post_hook(lambda *_: None)
    with pytest.raises(CaptureError, match=r"hooks around its steps"):
        capture(module, cross_entropy, optimizer, DATA, ORDER)


def test_two_parameters_in_one_memory_are_refused() -> None:
    first, second = nn.Linear(6, 3, bias=False), nn.Linear(3, 6, bias=False)
    second.weight = nn.Parameter(first.weight.data.t())
    module = nn.Sequential(first, second, nn.Linear(6, 3))
    with pytest.raises(CaptureError, match=r"0\.weight and 1\.weight are two tensors in the same memory"):
        capture(module, cross_entropy, SGD(0.1), DATA, ORDER)


class Centred(nn.Module):
    """A running mean in a plain attribute, which eager PyTorch keeps from step to step."""

    center: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.center = nn.Linear(6, 3), torch.zeros(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x)
        with torch.no_grad():
            self.center.mul_(0.5).add_(y.mean(0), alpha=0.5)
        return y - self.center


def test_state_in_a_plain_tensor_is_refused() -> None:
    with pytest.raises(
        Unsupported, match=r"writes to a tensor that is not a parameter or buffer.*register it"
    ):
        capture(Centred(), cross_entropy, SGD(0.1), DATA, ORDER)


def test_a_module_with_several_names_keeps_its_tensors() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(*([nn.Linear(6, 6)] * 3 + [nn.Linear(6, 3)]))
    before = [p.clone() for p in module.parameters()]
    built = capture(module, cross_entropy, SGD(0.1), DATA, ORDER)
    assert all(type(p) is nn.Parameter for p in module.parameters())
    assert all(torch.equal(p, old) for p, old in zip(module.parameters(), before, strict=True))
    ours, _ = eager.run_program(built, STEPS)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    want = eager.run_eager(module, eager.of(cross_entropy), optimizer, DATA, ORDER)
    np.testing.assert_allclose(ours, want, rtol=1e-4)
