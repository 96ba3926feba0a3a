"""The number in which two records differ: for every operator, what follows from the inputs is the honest side's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from repops.opset import OPS
from repops.random_calls import random_call

from assay_explorer.element import Question, shown
from referee_py.program import Structure, TensorType
from referee_py.program.modes import EXACT, REPOPS_F32
from tests.referee_py.trial.parties import Setting
from trainer_node.network.fetcher import Fetcher
from trainer_node.network.sources import Served
from trainer_node.storage.store import Store


@pytest.mark.parametrize("mode", [REPOPS_F32.byte, EXACT.byte], ids=["repops-f32", "exact"])
def test_a_lie_in_any_operator_is_shown(tmp_path: Path, mode: int) -> None:
    """Chains of one step too, which no native chain computes."""
    rng, lengths = np.random.default_rng(3), []
    for number, name in enumerate(op.name for op in OPS):
        drawn = (random_call(name, f"shown/{k}", "usual" if k < 20 else "tiny") for k in range(40))
        settings = (
            Setting.of(name, *call, rng.random(), number % 2, int(rng.integers(0, 60)), mode)
            for call in drawn
        )
        setting = next(found for found in settings if found is not None)
        store = Store(tmp_path / name, sync=False)
        for side in setting.sides:
            for array in (*side.inputs, *side.outputs):
                store.put_tensor(array)
        structure = Structure.decode(setting.dispute.structure)
        types = tuple(TensorType.of(array) for array in setting.sides[0].inputs)
        one = shown(
            Question(structure, setting.dispute.records, mode, types),
            Served(Fetcher(store, attempts=1), []),
            1 << 28,
        )
        lengths.append(one.length)
        assert one.right is not None, name
        assert one.right.bits == one.values[setting.honest].bits, name
        assert one.right.bits != one.values[1 - setting.honest].bits, name
        assert one.differing == 1
        assert [step.number for step in one.steps][-1:] == ([one.length] if one.length else []), name
    assert 1 in lengths
    assert max(lengths) > 1
