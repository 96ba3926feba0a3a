"""Sums over the parts of a batch: the tree, the chain that programs had before, and what both compute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import repops

from assay_capture.capture import Recipe, build, load_recipe
from assay_capture.capture.errors import CaptureError
from assay_capture.capture.part_sum import PartSum
from referee_py.execute import Run
from trainer_node.workers.micro_batches import marks_of


class Pairs:
    """A builder whose sums are pairs."""

    def op(self, name: str, left: Any, right: Any) -> Any:
        assert name == "add"
        return left, right


def split(parts: list[int]) -> Any:
    """Return the sum of parts, split at the largest power of two below their number."""
    if len(parts) == 1:
        return parts[0]
    half = 1 << (len(parts) - 1).bit_length() - 1
    return split(parts[:half]), split(parts[half:])


def total(count: int, balanced: bool) -> Any:
    added = PartSum(Pairs(), balanced)  # type: ignore[arg-type]
    for part in range(count):
        added.add(part)  # type: ignore[arg-type]
    return added.total()


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 8, 11, 16, 100])
def test_the_tree_is_split_at_the_largest_power_of_two(count: int) -> None:
    assert total(count, balanced=True) == split(list(range(count)))


def test_the_chain_adds_one_after_the_other() -> None:
    assert total(5, balanced=False) == ((((0, 1), 2), 3), 4)


def recipe(**fields: Any) -> Recipe:
    made = load_recipe("digits-mlp", steps=3, batch_size=12)
    assert isinstance(made, Recipe)
    return replace(made, **fields)


def test_up_to_three_parts_tree_and_chain_are_one_program() -> None:
    for count in (2, 3):
        tree, chain = (
            build(recipe(**{name: count}), check=False) for name in ("micro_batches", "accumulate")
        )
        assert tree.program.file_hash() == chain.program.file_hash()
    tree, chain = (build(recipe(**{name: 4}), check=False) for name in ("micro_batches", "accumulate"))
    assert tree.program.file_hash() != chain.program.file_hash()


def test_parts_train_as_the_whole_batch_does() -> None:
    losses = []
    for count in (1, 4, 6):
        bundle = build(recipe(micro_batches=count))
        run = Run.of(bundle, repops.backend("cpu"), metrics=bundle.metrics)
        run.advance(run.initial(), 3)
        losses.append(float(run.latest["loss"]))
    np.testing.assert_allclose(losses, losses[0], rtol=1e-5)


def test_both_kinds_of_parts_are_refused() -> None:
    with pytest.raises(CaptureError, match="micro_batches is 2 and accumulate 3"):
        build(recipe(micro_batches=2, accumulate=3))


def test_parts_are_found_in_the_data_flow() -> None:
    for count in (1, 3, 4):
        marks = marks_of(build(recipe(micro_batches=count), check=False).program)
        assert marks.count == count
        alone = [sum(mask == 1 << part for mask in marks.masks) for part in range(count)]
        assert len(set(alone)) == 1
        assert (alone[0] > 20) == (count > 1)
