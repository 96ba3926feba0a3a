"""Captured programs have no unneeded node, and their canonical form trains to the same bits."""

from __future__ import annotations

import numpy as np
import pytest
import repops
from repops.fuse.phases import ELEMENTWISE

from assay_capture.capture import BUILTIN, build, load_recipe
from referee_py.execute import Metrics, Run
from referee_py.program import Kind, Program, SlotSource
from referee_py.program.canonical import canonical_program
from trainer_node.local.bundle import Bundle

STEPS = 4
SMALL = [name for name in BUILTIN if name.startswith("digits")]


def live(program: Program, kept: list[SlotSource]) -> set[int]:
    found = {source.node for source in (*program.slots, *kept)}
    for k in range(len(program.nodes) - 1, -1, -1):
        if k in found:
            found |= {o.index for o in program.nodes[k].inputs if o.kind == Kind.NODE}
    return found


def trained(
    bundle: Bundle, program: Program, constants: list[int], loss: SlotSource
) -> tuple[list[bytes], list[float]]:
    """Return state and losses after a few steps."""
    metrics = Metrics({"loss": loss})
    tensors = [bundle.constants[k] for k in constants]
    run = Run(program, tensors, bundle.initial, STEPS, (1,), repops.backend("cpu"), hook=metrics)
    losses: list[float] = []
    state = run.advance(run.initial(), STEPS, lambda *_: losses.append(float(metrics.latest["loss"])))
    return state.slot_hashes(), losses


@pytest.mark.parametrize("name", SMALL)
def test_a_captured_program_has_no_dead_and_no_equal_nodes(name: str) -> None:
    bundle = build(load_recipe(name, steps=STEPS))
    program = bundle.program
    assert live(program, list(bundle.metrics.values())) == set(range(len(program.nodes)))
    assert len(set(program.nodes)) == len(program.nodes)


@pytest.mark.parametrize("name", SMALL)
def test_its_canonical_form_trains_to_the_same_bits(name: str) -> None:
    bundle = build(load_recipe(name, steps=STEPS))
    kept = list(bundle.metrics.values())
    program, found = canonical_program(bundle.program, kept)
    assert len(program.nodes) <= len(bundle.program.nodes)
    assert canonical_program(program, found.keep)[0] == program
    place = dict(zip(bundle.metrics, found.keep, strict=True))["loss"]
    before = trained(bundle, bundle.program, list(range(len(bundle.constants))), bundle.metrics["loss"])
    assert trained(bundle, program, list(found.constants), place) == before
    assert np.isfinite(before[1]).all()
    for node in program.nodes:
        made = {program.nodes[o.index].name if o.kind == Kind.NODE else "" for o in node.inputs}
        assert node.name not in ELEMENTWISE or made != {"full"}, "what is known is computed before the run"
