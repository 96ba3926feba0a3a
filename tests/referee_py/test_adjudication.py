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
from referee_py.program.modes import EXACT, REPOPS_F32, Form, Rounding
from referee_py.rounding.step_log import NodeLog
from tests.referee_py.rounding.logs import node_log

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


ROUNDED = Rounding(32)
C = np.array([[1, 2.0**-24, 2.0**-60]], np.float32)
"""1 + 2^-24 lies on a midpoint of binary32; 2^-60 is below what an order of additions may lose."""
D = np.ones((3, 1), np.float32)
SUM = Structure.make("mm", [Operand(Kind.SLOT, 0), Operand(Kind.SLOT, 1)], [TensorType(Dtype.F32, (1, 1))])
NEAR = Record(SUM.hash(), (tensor_hash(C), tensor_hash(D)), (bytes(32),))


def test_in_exact_the_sum_is_rounded_once_and_nothing_is_logged() -> None:
    """In the order of repops-f32 the tie goes to 1 before the crumb is added."""
    for mode, right in ((REPOPS_F32.byte, 1.0), (EXACT.byte, 1 + 2.0**-23)):
        verdict = adjudicate(SUM, NEAR, [C, D], REFERENCE, mode)
        assert (verdict.outputs[0], verdict.log) == (tensor_hash(np.array([[right]], np.float32)), bytes(32))


def narrow(up: bool, form: Form = Form.SPARSE) -> NodeLog:
    return node_log(1, {0: up}, form=form)


def value(log: NodeLog | None, rounding: Rounding = ROUNDED) -> tuple[bytes, bytes]:
    """Return the output and the log of the verdict."""
    verdict = adjudicate(SUM, NEAR, [C, D], REFERENCE, rounding.mode, log)
    return verdict.outputs[0], verdict.log


def test_an_admissible_entry_decides_the_rounding_whichever_way_it_went() -> None:
    down, up = (tensor_hash(np.array([[v]], np.float32)) for v in (1.0, 1 + 2.0**-23))
    for form in Form:
        for goes_up in (False, True):
            log = narrow(goes_up, form)
            assert value(log, Rounding(32, form=form)) == (up if goes_up else down, log.digest)
    assert value(None) == (up, bytes(32))


def test_what_is_no_log_of_the_node_is_ignored_and_still_named() -> None:
    honest = value(None)[0]
    others = [
        NodeLog(Form.SPARSE, 2, narrow(True).canonical),
        NodeLog(Form.SPARSE, 1 << 39, narrow(True).canonical),
        node_log(0),
        node_log(1),
    ]
    for log in others:
        assert value(log) == (honest, log.digest)


def test_an_entry_that_no_rounding_of_the_exact_result_gives_is_ignored() -> None:
    forged = node_log(1, {}, {0: 1 + 2.0**-22})
    assert value(forged) == (value(None)[0], forged.digest)


def test_an_unsound_program_gets_no_verdict_in_rounded_modes_either() -> None:
    mismatched = Record(SUM.hash(), (NEAR.inputs[1], NEAR.inputs[1]), NEAR.outputs)
    with pytest.raises(InvalidInput, match="cannot be executed"):
        adjudicate(SUM, mismatched, [D, D], REFERENCE, ROUNDED.mode)
