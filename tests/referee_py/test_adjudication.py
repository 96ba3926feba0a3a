"""The verdict on one operator: right for right inputs, and no verdict at all for anything else."""

from __future__ import annotations

import numpy as np
import pytest
import repops
from repops.opset import Dtype

from referee_py.adjudication import adjudicate
from referee_py.commit import Record, tensor_hash
from referee_py.errors import HashMismatch, InvalidInput
from referee_py.program import Kind, Operand, Structure, TensorType

REFERENCE = repops.backend("reference")
A = np.array([[1.5, -0.0], [np.inf, 3e-45]], np.float32)
B = np.array([[2.0], [-7.25]], np.float32)
MM = Structure.make("mm", [Operand(Kind.SLOT, 0), Operand(Kind.SLOT, 1)], [TensorType(Dtype.F32, (2, 1))])
CLAIM = Record(MM.hash(), (tensor_hash(A), tensor_hash(B)), (bytes(32),))


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_the_right_record_has_the_outputs_of_the_operator(backend: str) -> None:
    (right,) = REFERENCE.execute("mm", [A, B], {})
    verdict = adjudicate(MM, CLAIM, [A, B], repops.backend(backend))
    assert verdict == Record(CLAIM.structure, CLAIM.inputs, (tensor_hash(right),))


def test_inputs_from_a_party_are_checked_before_anything_runs() -> None:
    with pytest.raises(HashMismatch, match="input 1"):
        adjudicate(MM, CLAIM, [A, B + 1], REFERENCE)
    with pytest.raises(InvalidInput, match="1 tensors for a node of 2"):
        adjudicate(MM, CLAIM, [A], REFERENCE)


def test_a_record_of_another_structure_is_refused() -> None:
    other = Record(bytes(32), CLAIM.inputs, CLAIM.outputs)
    with pytest.raises(InvalidInput, match="is not one of mm"):
        adjudicate(MM, other, [A, B], REFERENCE)


def test_an_unsound_program_gets_no_verdict() -> None:
    wrong_type = Structure(MM.op, MM.inputs, (TensorType(Dtype.F32, (1, 2)),))
    record = Record(wrong_type.hash(), CLAIM.inputs, CLAIM.outputs)
    with pytest.raises(InvalidInput, match="not sound"):
        adjudicate(wrong_type, record, [A, B], REFERENCE)
    mismatched = Record(MM.hash(), (CLAIM.inputs[1], CLAIM.inputs[1]), CLAIM.outputs)
    with pytest.raises(InvalidInput, match="cannot be executed"):
        adjudicate(MM, mismatched, [B, B], REFERENCE)
