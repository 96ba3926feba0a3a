"""An answer does not depend on its neighbours, on its turn, nor on who goes away; what waits and runs is bounded."""

from __future__ import annotations

import random
import threading
from collections import defaultdict

import numpy as np
import pytest

from assay_serve.answer import Answer, End, Parameters, Piece
from assay_serve.engine import SHORT, Capacity, Engine, Full
from assay_serve.model import Model

from . import tiny

Asked = tuple[tuple[int, ...], Parameters, int]


def asked(rng: random.Random) -> Asked:
    prompt = tuple(rng.randrange(5, 261) for _ in range(rng.choice([1, 2, rng.randrange(3, 70)])))
    temperature = float(np.float32(rng.choice([0, 0.3, 1, 2])))
    parameters = Parameters(
        temperature, rng.choice([0, 0, 3]), float(np.float32(rng.choice([1, 0.8]))), rng.getrandbits(64)
    )
    return prompt, parameters, rng.randrange(1, min(24, tiny.PLACES - len(prompt)) + 1)


class Made:
    """An answer with what it was told."""

    def __init__(self, model: Model, given: Asked) -> None:
        self.pieces: list[Piece] = []
        prompt, parameters, most = given
        self.answer = Answer(model, prompt, parameters, most, (), model.ends, self.pieces.append)

    @property
    def over(self) -> bool:
        return bool(self.pieces) and (self.pieces[-1].end is not None or bool(self.pieces[-1].failure))

    @property
    def bits(self) -> list[tuple[int, float, bytes]]:
        return [(one.token, one.logprob, one.step) for one in self.answer.written]


def finish(engine: Engine, answers: list[Made]) -> None:
    for _ in range(100_000):
        if all(made.over or made.answer.cancelled for made in answers):
            return
        engine.turn()
    raise AssertionError("the engine does not finish")


@pytest.fixture(scope="module")
def alone(model: Model) -> tuple[list[Asked], list[list[tuple[int, float, bytes]]]]:
    """200 requests, and the answer that each gets from an engine of one row that reads a place in a turn."""
    rng = random.Random(49)
    given = [asked(rng) for _ in range(200)]
    engine = Engine(model, Capacity(rows=1, chunk=1, waiting=1))
    found = []
    for one in given:
        made = Made(model, one)
        engine.submit([made.answer])
        finish(engine, [made])
        found.append(made.bits)
    return given, found


@pytest.mark.parametrize(("rows", "chunk", "seed"), [(2, 7, 1), (5, 32, 2)])
def test_200_answers_in_random_batches_are_those_alone(
    model: Model,
    alone: tuple[list[Asked], list[list[tuple[int, float, bytes]]]],
    rows: int,
    chunk: int,
    seed: int,
) -> None:
    given, wanted = alone
    rng = random.Random(seed)
    engine = Engine(model, Capacity(rows=rows, chunk=chunk, waiting=300))
    made = [Made(model, one) for one in given]
    order = rng.sample(range(len(given)), len(given))
    gone = set(rng.sample(order, 30))
    while order or engine.waiting or engine.running:
        for _ in range(min(len(order), rng.choice([0, 0, 1, 4, 9]))):
            engine.submit([made[order.pop()].answer])
        if rng.random() < 0.2 and gone:
            made[gone.pop()].answer.cancelled = True
        engine.turn()
    ended = 0
    for one, bits in zip(made, wanted, strict=True):
        assert one.bits == bits[: len(one.bits)], "what was written before a client went away is right, too"
        if not one.answer.cancelled:
            assert one.bits == bits
            ended += 1
    assert ended >= 170
    assert engine.counts.failures == 0
    assert engine.running == engine.waiting == 0


def test_short_prompts_are_read_side_by_side_and_short_rows_have_fewer_places(model: Model) -> None:
    """Which machine reads and writes which prompt, and that the bits are those of each prompt alone."""
    engine = Engine(model, Capacity(rows=4, chunk=8, several=4, waiting=9))
    lengths = (9, 12, tiny.PLACES // SHORT, 7)
    given = [(tuple(range(5, 5 + n)), Parameters(1.0, 0, 1.0, n), 15) for n in lengths]
    made = [Made(model, one) for one in given]
    engine.submit([one.answer for one in made])
    read, written = defaultdict[object, set[int]](set), defaultdict[object, set[int]](set)
    while engine.waiting or engine.running:
        engine.turn()
        for found, rows in ((read, engine._reading), (written, engine._rows)):
            for row in rows:
                found[row.machine].add(len(row.answer.prompt))
    assert read == {engine._readers: {9, 12}, engine._reader: {tiny.PLACES // SHORT}}
    assert written[engine._short] == {9, 12}
    assert written[engine._many] == set(lengths)
    alone = Engine(model, Capacity(rows=1, chunk=1, waiting=1))
    for one, wanted in zip(made, given, strict=True):
        single = Made(model, wanted)
        alone.submit([single.answer])
        finish(alone, [single])
        assert one.bits == single.bits


def test_the_queue_takes_all_choices_of_a_request_or_none(model: Model) -> None:
    engine = Engine(model, Capacity(rows=1, chunk=8, waiting=3))
    made = [Made(model, ((5, 6), Parameters(0.0, 0, 1.0, 0), 3)) for _ in range(6)]
    engine.submit([one.answer for one in made[:2]])
    with pytest.raises(Full):
        engine.submit([one.answer for one in made[2:4]])
    assert engine.waiting == 2
    engine.submit([made[4].answer])
    finish(engine, [made[0], made[1], made[4]])


def test_an_answer_ends_where_it_is_when_its_time_is_over(model: Model) -> None:
    now = 0.0
    engine = Engine(model, Capacity(rows=1, chunk=8, waiting=8, seconds=10), clock=lambda: now)
    first, late = (Made(model, ((5, 6), Parameters(1.0, 0, 1.0, 3), 100)) for _ in range(2))
    engine.submit([first.answer, late.answer])
    for _ in range(4):
        engine.turn()
    now = 11.0
    finish(engine, [first, late])
    assert first.answer.end is End.LENGTH
    assert 0 < len(first.bits) < 100
    assert late.pieces[-1].failure
    assert not late.bits


def test_scores_that_are_no_numbers_end_the_answer_with_an_error(model: Model) -> None:
    engine = Engine(model, Capacity(rows=1, chunk=8))
    made = Made(model, ((5, 6), Parameters(1.0, 0, 1.0, 3), 100))
    made.answer.take(9, np.full(261, np.nan, np.float32))
    assert made.over
    assert made.pieces[-1].failure
    assert not engine.running


def test_a_turn_that_fails_tells_those_whose_answers_are_lost(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Piece] = []
    heard = threading.Event()

    def tell(piece: Piece) -> None:
        told.append(piece)
        heard.set()

    def asked_of(engine: Engine, most: int) -> None:
        heard.clear()
        made = Made(model, ((5, 6), Parameters(1.0, 0, 1.0, 3), most))
        made.answer.tell = tell
        engine.submit([made.answer])
        assert heard.wait(600)

    with Engine(model, Capacity(rows=2, chunk=8)) as engine:
        monkeypatch.setattr(engine, "_write", lambda: 1 / 0)
        asked_of(engine, 5)
        monkeypatch.undo()
        asked_of(engine, 1)
        assert engine.alive
    assert "failed" in told[0].failure
    assert told[-1].end is End.LENGTH
