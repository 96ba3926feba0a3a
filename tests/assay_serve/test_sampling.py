"""A token is drawn as docs/opset.md says: the executors give what a plain reference gives, for special values, too."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import repops
from repops import reference

from assay_capture.capture.builder import Builder
from assay_serve.sampling import Draw, sampled
from referee_py.commit import canonical
from referee_py.compiled import Compiled
from referee_py.execute import Interpreter, State
from referee_py.program import Program, validate

Row = tuple[list[float], int, int, float, int, float]
"""Scores, seed, place, temperature, top_k, top_p."""
INF, NAN = math.inf, math.nan
F = np.float32


def one(name: str, *inputs: Any, **attrs: Any) -> Any:
    return reference.execute(name, [np.asarray(v) for v in inputs], attrs)[0]


def expected(row: Row) -> tuple[int, np.ndarray]:
    """Draw as the document says, token by token, with a sorted set in place of a search for the last level."""
    scores, seed, place, temperature, top_k, top_p = row
    x, t, p = np.array(scores, F), F(temperature), F(top_p)
    below = one("sub", x, one("amax", x, dims=(0,), keepdim=0))
    e = one("exp", below)
    logprobs = one("sub", below, one("log", one("sum", e, dims=(0,), keepdim=0)))
    if not t > 0:
        return int(one("argmax", below, dim=0, keepdim=0)), logprobs
    z = one("div", below, t)
    level = one("cast", one("minimum", one("mul", one("neg", z), F(2**17)), F(2**24 - 1)), dtype=2)
    weight = one("exp", z)
    total = one("sum", weight, dims=(0,), keepdim=0)
    kept = np.zeros(len(x), bool)
    for at in sorted(set(level.tolist())):
        more = level < at
        mass = one("sum", np.where(more, weight, F(0)), dims=(0,), keepdim=0)
        if (top_k > 0 and not more.sum() < top_k) or (p < 1 and not mass < one("mul", p, total)):
            break
        kept |= level == at
    # NOTE: where not even the likeliest level fulfils the conditions, it stays alone.
    kept |= level == 0
    word = one("philox", np.int64(seed), np.int64(place), shape=(len(x),), dtype=2, site=0)
    v = np.minimum((word.astype(F) + F(0.5)) * F(2.0**-32), F(1 - 2.0**-24))
    gumbel = one("neg", one("log", one("neg", one("log1p", one("neg", v)))))
    with np.errstate(invalid="ignore"):
        noisy = np.where(kept, z + gumbel, F(-INF))
    return int(one("argmax", noisy, dim=0, keepdim=0)), logprobs


def built(rows: list[Row]) -> tuple[Program, list[np.ndarray]]:
    """Return the program of a draw of each row, and its slots."""
    scores, *columns = zip(*rows, strict=True)
    types = (np.int64, np.int64, F, np.int64, F)
    given = [np.array(scores, F), *(np.array(c, t) for c, t in zip(columns, types, strict=True))]
    b = Builder()
    x, seed, place, temperature, top_k, top_p = (b.slot(str(k), array) for k, array in enumerate(given))
    token = b.slot("token", np.zeros(len(rows), np.int64))
    logprobs = b.slot("logprobs", np.zeros(given[0].shape, F))
    found = sampled(b, x, Draw(seed, place, temperature, top_k, top_p))
    b.update(token, found[0])
    b.update(logprobs, found[1])
    made = b.finish().build()
    validate(made.program.skeleton)
    return made.program, made.initial


def drawn(rows: list[Row]) -> tuple[np.ndarray, np.ndarray]:
    """Draw by the interpreter and by a compiled step, which agree."""
    program, initial = built(rows)
    state, _ = Interpreter(program, [], repops.backend("cpu")).step(State.of(0, initial), commit=False)
    compiled = Compiled(program, [])
    compiled.load(initial)
    compiled.run(1)
    for one_by_one, fused in zip(state.arrays, compiled.slots, strict=True):
        assert canonical(one_by_one).tobytes() == canonical(fused).tobytes()
    return state.arrays[-2], canonical(state.arrays[-1])


def check(rows: list[Row]) -> list[int]:
    tokens, logprobs = drawn(rows)
    for k, row in enumerate(rows):
        token, wanted = expected(row)
        assert tokens[k] == token, row
        assert logprobs[k].tobytes() == canonical(wanted).tobytes(), row
    return [int(token) for token in tokens]


def test_random_draws_are_those_of_the_reference() -> None:
    rng = np.random.default_rng(7)
    rows: list[Row] = []
    for _ in range(60):
        scores = (rng.standard_normal(37) * rng.choice([0.1, 3, 60])).astype(F)
        ties = rng.random(37) < 0.3
        scores[ties] = np.round(scores[ties])
        temperature = float(F(rng.choice([0, 1e-30, 0.01, 0.7, 1, 2])))
        top_k, top_p = int(rng.choice([0, 1, 2, 5, 37, 99])), float(F(rng.choice([0, 0.1, 0.5, 0.95, 1])))
        seed = int(rng.integers(-(1 << 63), (1 << 63) - 1))
        rows.append((scores.tolist(), seed, int(rng.integers(1, 4000)), temperature, top_k, top_p))
    check(rows)


ROW: list[float] = [1, 3, 3, 2, -5]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("scores", "token"),
    [
        ([1, NAN, INF, 2, 3], 0),
        ([1, INF, 2, INF, 3], 1),
        ([-INF] * 5, 0),
        ([NAN] * 5, 0),
        ([-INF, -INF, 7, -INF, -INF], 2),
        ([3e38, -3e38, 3e38, 0, 0], None),
        ([0.0, -0.0, 0.0, -0.0, 0.0], None),
        ([1e-45, 2e-45, 0, 0, 0], None),
    ],
)
def test_special_scores_have_a_defined_token(
    scores: list[float], token: int | None, temperature: float
) -> None:
    found = check([(scores, 11, place, temperature, 0, p) for place in (1, 2, 3) for p in (1.0, 0.5)])
    if token is not None:
        assert set(found) == {token}


def test_greedy_takes_the_lowest_of_equal_scores_whatever_else_is_said() -> None:
    assert set(check([(ROW, seed, 4, 0.0, 0, 1.0) for seed in range(5)])) == {1}
    assert set(check([(ROW, 3, 4, 0.0, k, p) for k in (0, 1, 4) for p in (0.0, 0.3, 1.0)])) == {1}


def test_tokens_as_likely_as_the_last_that_stays_stay_too() -> None:
    rows: list[Row] = [(ROW, seed, 1, 1.0, 1, 1.0) for seed in range(40)]
    assert set(check(rows)) == {1, 2}
    rows = [(ROW, seed, 1, 1.0, 0, 0.01) for seed in range(40)]
    assert set(check(rows)) == {1, 2}
    # Levels are 2^-17 wide: what is nearer than that to the likeliest counts as equal to it.
    rows = [([0, -(2.0**-18), -1, -1, -1], seed, 1, 1.0, 1, 1.0) for seed in range(40)]
    assert set(check(rows)) == {0, 1}
    rows = [([0, -(2.0**-16), -1, -1, -1], seed, 1, 1.0, 1, 1.0) for seed in range(40)]
    assert set(check(rows)) == {0}


def test_both_conditions_hold_together() -> None:
    scores = [math.log(p) for p in (0.4, 0.3, 0.2, 0.06, 0.04)]
    for top_k, top_p, kept in ((0, 0.65, 2), (0, 0.75, 3), (2, 0.95, 2), (4, 0.5, 2), (0, 1.0, 5)):
        rows: list[Row] = [(scores, seed, 9, 1.0, top_k, top_p) for seed in range(60)]
        assert set(check(rows)) == set(range(kept)), (top_k, top_p)


def test_a_row_is_drawn_alike_beside_any_others() -> None:
    rows: list[Row] = [(ROW, seed, 3, 1.0, 0, 1.0) for seed in range(6)]
    assert [drawn([row])[0][0] for row in rows] == drawn(rows)[0].tolist()


def test_seed_and_place_each_change_the_draw() -> None:
    flat = [0.0] * 512
    assert len(set(check([(flat, seed, 3, 1.0, 0, 1.0) for seed in range(20)]))) > 15
    assert len(set(check([(flat, 3, place, 1.0, 0, 1.0) for place in range(20)]))) > 15
    assert len(set(check([(flat, s, 3, 1.0, 0, 1.0) for s in (5, 5 + (1 << 32), -5)]))) == 3


def test_tokens_come_with_their_probabilities() -> None:
    """Promise: the share of each token is its probability, up to what chance allows."""
    shares = (0.5, 0.25, 0.15, 0.09, 0.01)
    count = 4000
    program, initial = built([([math.log(p) for p in shares], 1, 0, 1.0, 0, 1.0)])
    compiled, found = Compiled(program, []), Counter[int]()
    compiled.load(initial)
    for place in range(count):
        compiled.slots[2][0] = place
        compiled.run(1)
        found[int(compiled.slots[-2][0])] += 1
    # Five standard deviations; seed and places are fixed, so the counts are always the same.
    for token, share in enumerate(shares):
        assert abs(found[token] - count * share) < 5 * math.sqrt(count * share * (1 - share))


def test_the_noise_is_finite_for_every_word() -> None:
    """SAFETY: infinite noise would choose a token whatever its score, or never."""
    words = np.array([0, 1, (1 << 32) - 1, (1 << 32) - 129, 1 << 31], np.int64)
    v = np.minimum((words.astype(F) + F(0.5)) * F(2.0**-32), F(1 - 2.0**-24))
    gumbel = one("neg", one("log", one("neg", one("log1p", one("neg", v)))))
    assert np.isfinite(gumbel).all()
    assert -2.9 < gumbel.min() < gumbel.max() < 22.9
