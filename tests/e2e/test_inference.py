"""A decoding job is disputed like a training job: on a real chain, down to one operator of one token."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay_lab.faults import Fault
from referee_py.walk.reason import Reason
from tests.conftest import Anvil
from trainer_node.local.bundle import Bundle

from .arena import Arena


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """GPT-2, two rows of twelve tokens, one token a step."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from assay_capture.inference import Decode

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=40, n_positions=12, n_embd=16, n_layer=1, n_head=2, bos_token_id=None, eos_token_id=None
    )
    return Decode("story", GPT2LMHeadModel(config), [[3, 7], [5, 1, 2]], 12, strides=(4, 1)).build()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param(Fault.WRONG_STRUCTURE, Reason.STRUCTURE, marks=pytest.mark.slow),
        (Fault.WRONG_INPUT, Reason.INPUT_NODE),
    ],
)
def test_a_liar_loses_to_an_honest_node(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, fault: Fault, reason: Reason
) -> None:
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, fault], challenger=None, fault_step=5) as arena:
        outcome = arena.play()
        liar = arena.address("trainer-1")
    assert outcome.matches == [(reason, {liar})]
    assert outcome.profit["trainer-0"] > 0 > outcome.profit["trainer-1"]


@pytest.mark.slow
def test_two_honest_nodes_have_nothing_to_dispute(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, Fault.NONE]) as arena:
        assert arena.play().matches == []
