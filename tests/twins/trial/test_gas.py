"""The gas of whole trials, of which docs/adjudication.md, section 5, has a table. `pytest -s` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from repops.opset import Attrs

from referee_py.commit.tensor import Array
from referee_py.element import evaluate, rule_of
from referee_py.element.native import native_chain
from referee_py.program.modes import EXACT, REPOPS_F32, TC16
from referee_py.rounding import Log, Rounding
from tests.referee_py.element.operands import cases_of, reader
from tests.referee_py.rounding.logs import log_of
from tests.referee_py.trial.parties import Setting, one_ulp

from .stand import Played, Stand

ROUNDED = Rounding(32).mode
MODES = {"repops-f32": REPOPS_F32.byte, "exact": EXACT.byte, "tc16": TC16.byte, "rounded-f64": ROUNDED}
SUM: Attrs = {"dims": (0,), "keepdim": 0}
ROWS = {
    **{
        f"mm of 65,536 products, {mode}": ("mm", ((4, 65_536), (65_536, 8)), MODES[mode], 0) for mode in MODES
    },
    **{f"mm of 4,096 products, {mode}": ("mm", ((64, 4096), (4096, 256)), MODES[mode], 0) for mode in MODES},
    "mm of 4,096 products, 5 entries": ("mm", ((64, 4096), (4096, 256)), ROUNDED, 5),
    "mm of 4,096 products, 512 entries": ("mm", ((64, 4096), (4096, 256)), ROUNDED, 512),
    "sum of 1,500,000, repops-f32": ("sum", ((1_500_000,),), REPOPS_F32.byte, 0),
    "sum of 1,500,000, exact": ("sum", ((1_500_000,),), EXACT.byte, 0),
    "add, 512 x 2,048": ("add", ((512, 2048), (512, 2048)), REPOPS_F32.byte, 0),
    "exp, 64 x 64": ("exp", ((64, 64),), REPOPS_F32.byte, 0),
}
MAX_GAS = {
    "mm of 4,096 products, exact": 1_000_000,
    "mm of 4,096 products, tc16": 650_000,
    "mm of 65,536 products, tc16": 950_000,
}
"""Most gas of all transactions of a trial whose outputs are served."""
MAX_JUDGE_GAS = 350_000


def dispute(name: str, shapes: Sequence[tuple[int, ...]], mode: int, entries: int) -> Setting:
    """Return a dispute about the middle element, whose chain goes wrong in the middle. The block of the log that has
    the element has that many entries, for other elements."""
    rng = np.random.default_rng(entries)
    dtype = ml_dtypes.bfloat16 if mode == TC16.byte else np.float32
    inputs: list[Array] = [rng.standard_normal(shape).astype(np.float32).astype(dtype) for shape in shapes]
    attrs = SUM if name == "sum" else {}
    (case,) = (replace(case, mode=mode) for case in cases_of(name, inputs, attrs, (0.5,)))
    rule, size = rule_of(case), case.outputs[0].count
    steps = rule.length(case)
    if steps > 1:
        bits = rule.finish(case, native_chain(case, inputs).advance(rule.begin(case), 0, steps))
    else:
        bits = evaluate(case, reader(inputs))
    # NOTE: nobody looks at the other elements, which both sides state alike.
    made: Array = np.zeros(case.shape, dtype)
    made.reshape(-1).view(f"u{made.itemsize}")[case.element] = bits
    log: Log | None = None
    if entries:
        log = log_of(size, dict.fromkeys(range(case.element + 1, case.element + 1 + entries), True), {})
    outputs = [made], [one_ulp(made, case.element)]
    return Setting.lied(name, inputs, attrs, outputs, honest=0, turn=steps // 2, mode=mode, log=log)


def judge_of(played: Played) -> int:
    return max(gas for names, gas in zip(played.names, played.gas, strict=True) if "judge" in names)


@pytest.mark.parametrize("what", ROWS)
def test_a_whole_trial(what: str, stand: Stand) -> None:
    setting = dispute(*ROWS[what])
    served, shown = (stand.play(setting, served=served) for served in (True, False))
    judge = judge_of(served)
    costs = " | ".join(f"{len(played.gas)}, {sum(played.gas):,}" for played in (served, shown))
    print(f"\n| {what} | {costs} | {judge:,} |")
    assert (served.losers, shown.losers) == (2, 2)
    assert sum(served.gas) <= MAX_GAS.get(what, 1_500_000)
    assert judge <= MAX_JUDGE_GAS or len(served.gas) == 1
