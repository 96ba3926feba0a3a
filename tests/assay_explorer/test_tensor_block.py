"""A block of tensor cores on the page of an element: its digits are the rule's, and a real dispute's page has it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from assay_explorer.tensor_block import KEPT_BITS, Block, block_of, first_step
from assay_lab.faults import Fault
from referee_py.element import Case, rule_of, states
from referee_py.element.tensor import State, TensorContraction, turn_of
from referee_py.program.modes import REPOPS_F32, TC16
from tests.conftest import Anvil
from tests.e2e.arena import Arena
from tests.e2e.test_tc16 import narrow as narrow_bundle  # noqa: F401 # a fixture
from tests.e2e.test_tc16 import products as products_of
from tests.referee_py.element.operands import cases_of, reader
from tests.referee_py.element.tensor_data import KINDS, SPECIAL, products
from tests.referee_py.trial.narrow import narrow_call
from trainer_node.local.bundle import Bundle

from .conftest import play

SIGNS = {False: 1, True: -1}


def blocks(case: Case, inputs: list[np.ndarray]) -> list[tuple[Block, State]]:
    """Return each block of an element, and the state after it."""
    rule, read = rule_of(case), reader(inputs)
    every = [rule.begin(case), *states(case, read, 0, rule.begin(case))]
    firsts = [t for t in range(rule.length(case)) if turn_of(case, t).opens]
    for t in range(rule.length(case)):
        assert first_step(case, t) == max(first for first in firsts if first <= t)
    after = [*firsts[1:], rule.length(case)][: len(firsts)]
    return [
        (block_of(case, first, every[first], read), State.decode(every[end]))
        for first, end in zip(firsts, after, strict=True)
    ]


def check(block: Block, after: State, number: int) -> None:
    assert (block.number, block.result.bits) == (number, after.c)
    finite = not any(term.words == "not finite" for term in block.terms)
    drawn = [term for term in block.terms if not term.words]
    assert all(len(term.kept) == KEPT_BITS and len(term.cut) <= KEPT_BITS for term in drawn)
    assert all(term.exponent is not None and term.exponent <= block.exponent for term in drawn)
    assert sum(SIGNS[term.negative] * int(term.kept, 2) for term in drawn) == block.total
    if finite and abs(block.total) < 1 << 24 and -100 < block.exponent < 100:  # nothing is rounded
        assert np.float32(block.result.decimal) == block.total * 2.0 ** (block.exponent - 25)


@pytest.mark.parametrize("kind", KINDS)
def test_every_block_is_the_rule_s(kind: str) -> None:
    for k in (1, 16, 40, 530):
        case, inputs = products(kind, k)
        found = blocks(case, inputs)
        assert len(found) == -(-k // 16)
        for number, (block, after) in enumerate(found, 1):
            check(block, after, number)
            assert len(block.terms) == 1 + min(16, k - 16 * (number - 1)), "the accumulator, too"
            assert block.chunk == (number - 1) // 32 + 1


@pytest.mark.parametrize("name", ["bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad"])
def test_blocks_of_other_contractions(name: str) -> None:
    """With taps that pad their channels, terms that meet padding, and special values."""
    rng, words = np.random.default_rng([*name.encode()]), set()
    for number in range(8):
        inputs, attrs = narrow_call(name, f"drawn/{number}")
        inputs = [np.asarray(array, order="C").copy() for array in inputs]
        for array in inputs:
            flat = array.reshape(-1).view(np.uint16)
            flat[rng.random(flat.size) < 0.1] = rng.choice(SPECIAL)
        for found in cases_of(name, inputs, attrs, rng.random(2)):
            case = Case(**{**{k: getattr(found, k) for k in found.__dataclass_fields__}, "mode": TC16.byte})
            for block, after in blocks(case, inputs):
                check(block, after, block.number)
                words |= {term.words for term in block.terms}
    assert {"not finite", "zero: no term"} <= words
    assert ("does not exist: it meets padding" in words) == name.startswith("conv2d")


def test_other_chains_have_no_blocks() -> None:
    case, _ = products("ordinary", 16)
    assert isinstance(rule_of(case), TensorContraction)
    usual = Case(**{**{k: getattr(case, k) for k in case.__dataclass_fields__}, "mode": REPOPS_F32.byte})
    assert not isinstance(rule_of(usual), TensorContraction)


def test_the_page_of_a_dispute_about_a_product_draws_the_block(
    anvil: Anvil, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    narrow: Bundle = request.getfixturevalue("narrow_bundle")
    with Arena(
        anvil,
        tmp_path,
        narrow,
        trainers=[Fault.NONE, Fault.WRONG_OP_OUTPUT],
        fault_node=products_of(narrow)[0],
        verifiers=0,
        threshold=0,
    ) as arena:
        played = play(arena, narrow, tmp_path)
        page = played.pages().element(arena.job_id, f"{played.match:#066x}")
        for _ in range(50):
            if "are being fetched" not in page:
                break
            page = played.pages().element(arena.job_id, f"{played.match:#066x}")
    assert "as tensor cores add it" in page
    rows = re.findall(r'<code class="kept">([+−])([01]{2}\.[01]{25})</code>', page)
    assert 1 <= len(rows) <= 17
    assert re.search(r'id="block-result"><code>[-0-9.e]+</code> <code>0x[0-9a-f]{8}</code>', page)
