"""Matches of a claim and its refutation: who is right about the interval wins, in every interval and for every lie."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from referee_py.program.terms import leaf_count
from referee_py.walk.reason import Reason

from .play import Contestant, Table
from .synthetic import LIES, Graph, random_graph
from .synthetic_run import Graft, Lie, Run, random_lie

IN_A_STEP = [kind for kind in LIES if kind not in ("run padding", "bogus refine")]


def graph_of(rng: Random, *, rounded: bool) -> Graph:
    """Return a random program with a run of several intervals."""
    while True:
        graph = random_graph(rng, rounded=rounded)
        if leaf_count(0, graph.steps, graph.strides[0]) > 1:
            return graph


def steps_of(graph: Graph, interval: int) -> range:
    start = interval * graph.strides[0]
    return range(start + 1, min(start + graph.strides[0], graph.steps) + 1)


def loser(rng: Random, graph: Graph, honest: Run, liar: Run, *, claims: bool, **options: bool) -> set[int]:
    """Play a match in which the claimant is side 0. Return 0 if the honest side lost, 1 if the liar did, or both."""
    players = (Contestant(honest, serves=rng.random() < 0.5), Contestant(liar, **options))
    end = Table(graph, players if claims else players[::-1], rng).play()
    assert end.reason is not Reason.NONE
    return {side if claims else 1 - side for side in (0, 1) if end.losers >> side & 1}


@pytest.mark.parametrize("rounded", [False, True], ids=["repops-f32", "rounded-f64"])
def test_an_honest_claim_wins_against_every_refutation(rounded: bool) -> None:
    rng, played = Random(f"wrong{rounded}"), 0
    while played < 300:
        graph = graph_of(rng, rounded=rounded)
        honest = Run(graph)
        for interval in range(leaf_count(0, graph.steps, graph.strides[0])):
            for kind in IN_A_STEP:
                for step in steps_of(graph, interval):
                    lie = Lie(
                        kind,
                        step,
                        rng.randrange(len(graph.structures)),
                        rng.randrange(256),
                        rng.randrange(99),
                    )
                    wrong = Graft(graph, (lie,), victim=honest, interval=interval)
                    if wrong.root == honest.root:
                        continue  # the lie does not reach the checkpoint
                    served, silent = rng.random() < 0.5, rng.random() < 0.2
                    assert loser(rng, graph, honest, wrong, claims=True, serves=served, silent=silent) == {1}
                    played += 1
    assert played > 300


@pytest.mark.parametrize("rounded", [False, True], ids=["repops-f32", "rounded-f64"])
def test_a_right_refutation_wins_whatever_else_the_claim_has_wrong(rounded: bool) -> None:
    rng, played = Random(f"right{rounded}"), 0
    while played < 150:
        graph = graph_of(rng, rounded=rounded)
        lies = tuple(
            replace(random_lie(rng, graph), kind=rng.choice(IN_A_STEP)) for _ in range(rng.randint(1, 4))
        )
        claim = Run(graph, lies)
        for interval in range(leaf_count(0, graph.steps, graph.strides[0])):
            start = steps_of(graph, interval)[0] - 1
            if start and claim.step_tree(start) is None:
                continue  # nobody has the data before it: nothing to replay
            right = Graft(graph, (), victim=claim, interval=interval)
            if right.root == claim.root:
                continue
            options = {"serves": rng.random() < 0.5, "silent": rng.random() < 0.2}
            assert loser(rng, graph, right, claim, claims=False, **options) == {1}, (interval, lies)
            played += 1
