"""Disputes about elements for which a rounding log has an entry, or could have one.

what      the log's entry                 the liar's element
up        it was rounded up               the neighbour below, which is admissible too
down      it was rounded down             the neighbour above
written   the further neighbour           the nearest value, as if there were no entry
silent    none                            the further neighbour, which an entry could give
forged    a direction outside the band    the next value in that direction
off       a value outside the band        that value
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from repops.opset import Dtype

from referee_py.commit.tensor import Array, dtype_of
from referee_py.program.modes import BF16_BITS
from referee_py.rounding import Log, Rounding
from referee_py.rounding.primitives import quantum
from tests.referee_py.rounding.logs import log_of
from tests.referee_py.rounding.operators import Case, ambiguous, elementary, narrow, of_terms

from .parties import Setting, outputs_of, structure_of

WHAT = ("up", "down", "written", "silent", "forged", "off")


class Choices(NamedTuple):
    """Values of all elements, flat: without a log, all rounded up, all rounded down."""

    plain: Array
    up: Array
    down: Array

    @classmethod
    def of(cls, case: Case, rounding: Rounding) -> Choices:
        (plain,) = outputs_of(case.name, case.inputs, case.attrs, rounding.mode)
        everywhere, none = np.arange(plain.size), np.zeros(0, np.int64)
        turned = (
            Log(plain.size, everywhere, np.full(plain.size, up), none, np.zeros(0)) for up in (True, False)
        )
        up, down = (outputs_of(case.name, case.inputs, case.attrs, rounding.mode, log)[0] for log in turned)
        return cls(plain.reshape(-1), up.reshape(-1), down.reshape(-1))


def cases(rng: np.random.Generator, rounding: Rounding, elements: int) -> Iterator[Case]:
    """Yield cases of every operator that has a log. Sums have ``elements`` elements near midpoints; those of products
    also as bf16."""
    yield from of_terms(ambiguous(rng, elements, 6, rounding.bits))
    yield from narrow(of_terms(ambiguous(rng, elements, 6, BF16_BITS)))
    if rounding.bits < 32:
        yield from (case for case in elementary(rng, 40) if np.isfinite(case.inputs[0]).all())


def tie(elements: int) -> Case:
    """Return sums on a midpoint. Their terms are too far apart to decide the direction, so both are admissible."""
    terms = np.tile(np.array([1, 2.0**-24, 2.0**-60, -(2.0**-60)], np.float32), (elements, 1))
    return Case("sum", [terms], {"dims": (1,), "keepdim": 0})


def disputes(
    case: Case, rounding: Rounding, rng: np.random.Generator, honest: int, more: int = 40
) -> Iterator[tuple[str, int, Setting]]:
    """Yield a dispute of each kind for which the case has an element: kind, element and setting.

    The log has up to `more` other entries, admissible or not.
    """
    choices = Choices.of(case, rounding)
    either = np.flatnonzero(choices.up != choices.down)
    finite = np.isfinite(choices.plain) & (choices.plain != 0)
    neither = np.flatnonzero((choices.up == choices.down) & finite)
    for number, what in enumerate(WHAT):
        chosen = neither if what in ("forged", "off") else either
        if not chosen.size:
            continue
        element = int(rng.choice(chosen))
        up, down, plain = (float(c[element]) for c in (choices.up, choices.down, choices.plain))
        further = up if plain == down else down
        bits = BF16_BITS if dtype_of(choices.plain) is Dtype.BF16 else rounding.bits
        beyond = plain + float(quantum(np.array([plain], dtype=np.float64), bits)[0])
        entry: bool | float | None = {"up": True, "down": False, "written": further}.get(what)
        entry = {"forged": True, "off": beyond}.get(what, entry)
        false = {"up": down, "down": up, "written": plain, "silent": further}.get(what, beyond)
        log = _log(rng, choices.plain.size, element, entry, more)
        yield what, element, told(case, rounding, log, element, false, (number + honest) % 2, number)


def told(
    case: Case,
    rounding: Rounding,
    log: Log,
    element: int,
    false: float,
    honest: int,
    turn: int = 0,
) -> Setting:
    """Return a setting in which a liar gives an element the value `false`. The agreed log may have another size."""
    inputs = [np.asarray(array, order="C") for array in case.inputs]
    count = structure_of(case.name, inputs, case.attrs).outputs[0].count
    entries = log if log.elements == count else None
    (truth,) = outputs_of(case.name, inputs, case.attrs, rounding.mode, entries)
    lie = truth.copy()
    lie.reshape(-1)[element] = false
    assert lie.tobytes() != truth.tobytes(), "a lie"
    outputs = [truth], [lie]
    return Setting.lied(case.name, inputs, case.attrs, outputs, honest, turn, rounding.mode, log)


def _log(rng: np.random.Generator, elements: int, element: int, entry: bool | float | None, more: int) -> Log:
    others = np.setdiff1d(rng.integers(0, elements, more), [element]).tolist()
    said: dict[int, bool | float] = {
        k: bool(rng.integers(2)) if rng.random() < 0.6 else float(np.float32(rng.standard_normal()))
        for k in others
    }
    if entry is not None:
        said[element] = entry
    narrow = {k: v for k, v in said.items() if isinstance(v, bool)}
    return log_of(elements, narrow, {k: v for k, v in said.items() if not isinstance(v, bool)})
