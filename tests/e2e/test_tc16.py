"""Jobs in tc16: a lie about a product of bf16 loses, by a verdict and before the court alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import repops
from repops.opset import BF16
from repops.sums import SumMode
from repops.tensors import NUMPY_DTYPE

from assay_lab.demo.operator import _element
from assay_lab.faults import EXPECTED, Fault, first_narrow_product, fits
from referee_py.execute import Run
from referee_py.program.modes import TC16
from referee_py.walk.reason import Reason
from tests.conftest import Anvil
from trainer_node.chain import JobPhase
from trainer_node.local.bundle import Bundle

from .arena import STAKE, Arena, Outcome

LIES = [pytest.param(fault, marks=pytest.mark.slow) for fault in EXPECTED if fits(fault, TC16)]
COURTS = [pytest.param(2, id="verdict"), pytest.param(0, id="court")]


@pytest.fixture(scope="session")
def narrow() -> Bundle:
    """Digits, 64-16-10 without biases under autocast, 40 steps, three levels of strides."""
    from torch import nn

    from assay_capture.capture import Recipe, build, load_recipe

    recipe = load_recipe("digits-mlp-bf16", steps=40, batch_size=16)
    assert isinstance(recipe, Recipe)
    module = nn.Sequential(nn.Linear(64, 16, bias=False), nn.ReLU(), nn.Linear(16, 10, bias=False))
    return build(replace(recipe, module=module, strides=(20, 5, 1))).with_mode(TC16.byte)


def products(bundle: Bundle) -> list[int]:
    """Return the nodes that multiply matrices of bf16."""
    nodes = bundle.program.nodes
    return [
        number for number, node in enumerate(nodes) if node.name == "mm" and node.outputs[0].dtype == BF16
    ]


def expect_justice(arena: Arena, outcome: Outcome, bundle: Bundle) -> None:
    """Check that the root of the readable reference is accepted, no honest party has lost, and the liar has."""
    run = Run.of(bundle, repops.backend("reference", SumMode.TC16))
    assert outcome.job.phase is JobPhase.ACCEPTED
    assert outcome.job.accepted_root == run.commit_run().claim().root
    for member in arena.members:
        if member.honest:
            assert outcome.profit[member.name] >= 0, f"{member.name} lost {outcome.profit[member.name]}"
        else:
            assert outcome.profit[member.name] in (-STAKE, -STAKE // 2), member.name


@pytest.mark.parametrize("verifiers", COURTS)
def test_a_lie_about_a_product_of_bf16_loses(
    anvil: Anvil, tmp_path: Path, narrow: Bundle, verifiers: int
) -> None:
    with Arena(
        anvil,
        tmp_path,
        narrow,
        trainers=[Fault.NONE, Fault.WRONG_OP_OUTPUT],
        fault_node=products(narrow)[verifiers],
        verifiers=verifiers,
        threshold=min(1, verifiers),
    ) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, narrow)
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-1")})]


@pytest.mark.parametrize("fault", LIES)
def test_every_liar_loses(anvil: Anvil, tmp_path: Path, narrow: Bundle, fault: Fault) -> None:
    with Arena(anvil, tmp_path, narrow, trainers=[Fault.NONE, fault]) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, narrow)
        assert outcome.matches == [(EXPECTED[fault], {arena.address("trainer-1")})]


@pytest.mark.slow
def test_a_sampler_finds_the_lie(anvil: Anvil, tmp_path: Path, narrow: Bundle) -> None:
    with Arena.sampled(anvil, tmp_path, narrow, fault_node=products(narrow)[0]) as arena:
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.UNCLAIMED
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-0")})]


def test_the_demonstration_lies_about_a_product_and_tells_which_element(narrow: Bundle) -> None:
    assert first_narrow_product(narrow.program) == products(narrow)[0]
    right, wrong = (np.array([[1, 2], [value, 4]], NUMPY_DTYPE[BF16]) for value in (3, 3.5))
    assert _element(right, wrong) == "element [1, 0]: 3.0 is right, 3.5 is claimed"
