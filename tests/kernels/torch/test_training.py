"""Training in eager PyTorch with repops.torch: the same parameters everywhere, and PyTorch's losses up to rounding."""

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repops.torch as rt
import torch
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.opset import OpError

from . import networks

SCRIPT = Path(networks.__file__)


def elsewhere(name, threads, isa):
    """Return the losses and the digest of another process."""
    environment = os.environ | {
        "REPOPS_NUM_THREADS": str(threads),
        "REPOPS_ISA": isa,
        "OMP_NUM_THREADS": str(threads),
    }
    command = [sys.executable, SCRIPT, name, "repops"]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_training_has_the_same_bits_for_any_threads_and_instruction_set(name):
    ways = [(1 + i % 2, isa) for i, isa in enumerate(ISA_NAMES[: BEST_ISA + 1])] + [(2, ISA_NAMES[0])]
    assert len({elsewhere(name, *way) for way in ways}) == 1


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_losses_are_pytorchs_up_to_rounding(name):
    ours, _ = networks.train(name, "repops")
    theirs, _ = networks.train(name, "torch")
    assert ours[-1] < 0.7 * ours[0]
    np.testing.assert_allclose(ours, theirs, rtol=2e-3)
    np.testing.assert_allclose(ours[:5], theirs[:5], rtol=1e-5)


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_gradients_are_those_of_float64(name):
    network = networks.NETWORKS[name](networks.flavour("repops"))
    network.loss().backward()
    exact = networks.NETWORKS[name](networks.flavour("torch"))
    for holder in (exact, exact.p):
        items = holder if isinstance(holder, dict) else vars(holder)
        for key, value in items.items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                items[key] = value.detach().double().requires_grad_(value.requires_grad)
    exact.loss().backward()
    for key, parameter in network.p.items():
        error = (parameter.grad.double() - exact.p[key].grad).abs().max() / exact.p[key].grad.abs().max()
        if key != "b1":  # a bias before a batch norm, whose true gradient is 0
            assert error < 1e-5, (key, error)


OPTIMIZERS: dict[str, list[dict[str, Any]]] = {
    "SGD": [{"lr": 0.1}, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}],
    "Adam": [{"lr": 0.1}, {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.01}],
    "AdamW": [{"lr": 0.1, "weight_decay": 0.05}],
}


def parameters():
    return [torch.nn.Parameter(networks.draw(*shape, seed=3)) for shape in ((5, 7), (1,), (3000,), (0, 2))]


def steps(optimizer, params, count, first=0):
    for step in range(first, first + count):
        for i, p in enumerate(params):
            p.grad = networks.draw(*p.shape, seed=100 * step + i)
        optimizer.step()


@pytest.mark.parametrize(("name", "options"), [(n, o) for n, many in OPTIMIZERS.items() for o in many])
def test_optimizers_are_torchs_up_to_rounding(name, options):
    ours, theirs = parameters(), parameters()
    places = [p.data_ptr() for p in ours]
    steps(getattr(rt.optim, name)(ours, **options), ours, 5)
    steps(getattr(torch.optim, name)(theirs, **options), theirs, 5)
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-5)
    assert places == [p.data_ptr() for p in ours]  # parameters stay where they are


@pytest.mark.parametrize(("name", "options"), [(n, o) for n, many in OPTIMIZERS.items() for o in many])
def test_optimizers_resume_from_their_state(name, options):
    whole, halves = parameters(), parameters()
    steps(getattr(rt.optim, name)(whole, **options), whole, 6)
    first = getattr(rt.optim, name)(halves, **options)
    steps(first, halves, 3)
    second = getattr(rt.optim, name)(halves, **options)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    steps(second, halves, 3, first=3)
    assert all(torch.equal(p, q) for p, q in zip(whole, halves, strict=True))


def test_schedulers_work():
    (p,) = params = [torch.nn.Parameter(torch.ones(3))]
    optimizer = rt.optim.SGD(params, lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for _ in range(2):
        p.grad = torch.ones(3)
        optimizer.step()
        scheduler.step()
    assert p.tolist() == [0.25] * 3


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda p: rt.optim.SGD([p], lr=-1.0), "lr"),
        (lambda p: rt.optim.SGD([p], momentum=-0.1), "momentum"),
        (lambda p: rt.optim.Adam([p], betas=(0.9, 1.0)), "betas"),
        (lambda p: rt.optim.AdamW([p], eps=-1e-8), "eps"),
    ],
)
def test_bad_hyperparameters(make, word):
    with pytest.raises(OpError, match=word):
        make(torch.nn.Parameter(torch.ones(3)))


def test_bad_parameters_and_gradients():
    p = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    p.grad = torch.ones(3, dtype=torch.float64)
    with pytest.raises(OpError, match="sgd: p "):
        rt.optim.SGD([p]).step()
    q = torch.nn.Parameter(torch.ones(3, 4).t())
    q.grad = torch.ones(4, 3)
    with pytest.raises(OpError, match="adam: p is not contiguous"):
        rt.optim.Adam([q]).step()
    r = torch.nn.Parameter(torch.ones(3))
    r.grad = torch.ones(3).to_sparse()
    with pytest.raises(OpError, match="sgd: grad is not a plain dense tensor"):
        rt.optim.SGD([r]).step()
