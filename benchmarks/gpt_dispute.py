"""A dispute about a GPT of more than 10 million parameters, from a text file to the verdict.

One element of one operator of the backward pass is wrong; the seed selects the operator and the step.
"""

from __future__ import annotations

import random
from pathlib import Path

from assay_capture.capture import Adam, Recipe, build
from assay_capture.datasets import read_text
from assay_lab.demo import Result, Scenario, play
from assay_lab.faults import Fault, Lie
from trainer_node.local.bundle import Bundle

from .report import Table

STEPS, STRIDES = 20, (10, 1)
WINDOW, BATCH = 64, 4


def gpt(text: Path, steps: int = STEPS) -> Recipe:
    """Return a GPT of 6 layers of width 384 (10.8 million parameters) on the bytes of a text."""
    import transformers

    config = transformers.GPT2Config(
        n_layer=6, n_embd=384, n_head=6, vocab_size=256, n_positions=WINDOW + 1, use_cache=False
    )
    tokens = read_text(text, WINDOW).tensors["tokens"]
    return Recipe(
        name="gpt-10m",
        module=transformers.GPT2LMHeadModel(config).train(),
        loss=None,
        optimizer=Adam(lr=1e-3, decoupled=True),
        data={"input_ids": tokens, "labels": tokens},
        steps=steps,
        batch_size=BATCH,
        strides=STRIDES,
    )


def backward_nodes(bundle: Bundle) -> list[int]:
    """Return the products whose labels say that they are gradients: of weights, and of inputs of layers."""
    nodes, labels = bundle.program.nodes, bundle.labels["nodes"]
    return [
        number
        for number, (node, label) in enumerate(zip(nodes, labels, strict=True))
        if node.name in ("mm", "bmm") and "gradient" in label
    ]


def run(text: Path, folder: Path, seed: int) -> tuple[Result, Lie, str]:
    """Play the dispute. Return the result, the lie, and the operator that was wrong."""
    path = folder / "gpt"
    if not (path / "job.json").exists():
        build(gpt(text)).write(path)
    bundle = Bundle.read(path)
    draw = random.Random(seed)
    node = draw.choice(backward_nodes(bundle))
    lie = Lie(Fault.WRONG_OP_OUTPUT, draw.randint(2, STEPS - 1), node)
    result = play(Scenario.TRAINERS, lie, bundle, folder)
    return result, lie, f"{bundle.program.nodes[node].name}, {bundle.labels['nodes'][node]}"


def measure(text: Path, folder: Path, seed: int) -> tuple[Table, ...]:
    """Play the dispute, and print what it took. Returns no table."""
    result, lie, operator = run(text, folder, seed)
    print(f"wrong: {operator}, operator {lie.node} of step {lie.step}")
    for match in result.disputes:
        print(f"decided by {match.reason.name} about operator {match.operator} of step {match.step}")
        print(f"{match.transactions} transactions, {match.gas:,} gas")
    print(f"{result.seconds:.0f} s in all; just: {result.just}")
    return ()
