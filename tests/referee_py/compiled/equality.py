"""A compiled step and the interpreter have the same bits, step after step, at any number of threads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import repops

from referee_py.commit import tensor_hash
from referee_py.commit.tensor import Array
from referee_py.compiled import Compiled
from referee_py.execute import Capture, Interpreter, State
from referee_py.program import Program, SlotSource, validate

STEPS = 3


def check(program: Program, constants: Sequence[Array], initial: Sequence[Array], seed: int) -> Compiled:
    """Compare every slot after each step, and the outputs of three nodes. `seed` draws nodes and numbers of threads."""
    validate(program.skeleton)
    draw = np.random.default_rng(seed)
    nodes = sorted({int(k) for k in draw.integers(0, len(program.nodes), 3)})
    watched = [SlotSource(node, 0) for node in nodes]
    capture = Capture(*nodes)
    interpreter = Interpreter(program, constants, repops.backend("cpu"), capture)
    compiled = Compiled(program, constants, watched)
    state = State.of(0, initial)
    compiled.load(initial)
    threads = repops.get_num_threads()
    for step in range(1, STEPS + 1):
        repops.set_num_threads(int(draw.integers(1, 4)))
        state, _ = interpreter.step(state, False)
        compiled.run(step)
        repops.set_num_threads(threads)
        for slot, (expected, got) in enumerate(zip(state.arrays, compiled.slots, strict=True)):
            assert tensor_hash(got) == tensor_hash(expected), f"seed {seed}, step {step}, slot {slot}"
        for source in watched:
            expected = capture.found[source.node].outputs[0]
            assert tensor_hash(compiled.value(source)) == tensor_hash(expected), f"seed {seed}: {source}"
    return compiled
