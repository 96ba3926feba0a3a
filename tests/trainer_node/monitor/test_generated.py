"""The monitor over generated jobs: what it raises is what is so, in every phase that the jobs reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from web3 import Web3

from referee_py.game.state import Phase
from referee_py.panel.state import HearingPhase
from tests.conftest import undone
from tests.model.jobs import Job
from tests.referee_py.game.actions import address
from tests.referee_py.game.chain import ANVIL_OPTIONS
from tests.referee_py.game.random_game import Game
from trainer_node.chain import ChainClient, connect
from trainer_node.errors import RpcUnavailable
from trainer_node.monitor.alerts import Kind, Rules
from trainer_node.monitor.rounds import Board, Monitor
from trainer_node.monitor.trusted import Trusted

from .generated import NEAR, World, comes_out_wrong, end_of, honest_root, owed, truth

ALWAYS = 1e9
"""A share of a period with which every instant is near."""
JUDGED = {Kind.DOUBTFUL_CLAIM, Kind.WRONG_CLAIM}


class Watch:
    """A monitor with trusted roots beside a world, and what was compared so far."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tally: Counter[str] = Counter()
        self.right = {game.job_id: honest_root(game) for game in world.cohort.games}
        self.monitor = Monitor(world.client, Rules(NEAR, 0), per_round=1_000)

    def compare(self) -> None:
        """Compare all alerts and forecasts at this moment with the truth."""
        world, board, ends = self.world, self.monitor.round(), self.world.ends()
        assert 0 not in board.unchecked, board.unchecked
        lines = {line.job: line for line in board.lines}
        wrong = self.wrong()
        for game in world.cohort.games:
            number, found = game.job_id, alerts(board, game.job_id)
            for match in game.matches:
                self.tally[f"in {match.state.phase.name}"] += match.state.phase is not Phase.DONE
            for hearing in game.hearings:
                self.tally[f"in hearing {hearing.state.phase.name}"] += 1
            if number in board.unchecked:
                assert not game.sane, board.unchecked[number]
                self.tally["unchecked"] += 1
                continue
            assert {key for key, kind in found.items() if kind not in JUDGED} == truth(world, game), game.job
            line = lines.get(number)
            if game.sane:
                assert all(end.ended for end in ends[number])
            if game.sane and line is not None and line.outcome is not None:
                told = line.outcome
                root = told["root"] and bytes.fromhex(told["root"])
                assert (told["phase"], root) in map(end_of, ends[number]), (told, game.job)
                self.tally[f"forecast {told['phase']}"] += 1
            self._judge(game, ends[number], number in wrong)
            self.tally.update(kind.value for kind in found.values())
            self.tally["compared"] += 1
        ids = {standing.alert.id for standing in board.alerts}
        said = {tuple(key.split(":")[2:]) for key in ids if key.startswith(f"0:{Kind.UNCLAIMED}:")}
        assert said == owed(world)
        assert not any(key.startswith(f"0:{Kind.INSOLVENT}") for key in ids)
        paused = world.cohort.clocks.paused(world.chain.now)
        assert (f"0:{Kind.PAUSED}" in ids) == paused
        self.tally["paused"] += paused

    def wrong(self, near: float = ALWAYS) -> set[int]:
        """Return the jobs about which a monitor with the honest roots raises that the wrong root will win."""
        trusted = Trusted({number: {root} for number, root in self.right.items()})
        board = Monitor(self.world.client, Rules(near, 0), trusted, per_round=1_000).round()
        return {standing.alert.job for standing in board.alerts if standing.alert.kind is Kind.WRONG_CLAIM}

    def _judge(self, game: Game, ends: list[Any], said: bool) -> None:
        job = game.job
        other_logs = game.terms.program.arithmetic.follows_logs and job.logs != game.graph.logs
        if job.finder is not None or not job.claims or other_logs or not game.sane:
            return
        truths = {comes_out_wrong(job, end, self.right[game.job_id]) for end in ends}
        requests = self.world.cohort.model.data_availability.requests
        asked = [
            (s.root.hex()[:6], r.life, r.until, r.state.name)
            for (s, _), r in requests.items()
            if s.job_id == game.job_id
        ]
        right = self.right[game.job_id].hex()[:6]
        told = [self.world.now, right, job.logs.hex()[:6], asked, *map(summary, (job, *ends))]
        assert said in truths, "\n".join(map(str, told))
        self.tally[f"wrong root wins: {said}"] += 1


def summary(job: Job) -> dict[str, object]:
    """Return what decides how a job ends, for the message of a failure."""
    groups = [
        (g.root.hex()[:6], len(g.members), g.spokesman, g.match_id != 0, g.until, g.refutes)
        for g in job.groups
    ]
    instants = job.commit_end, job.reveal_end, job.challenge_end, job.reclaim_end
    return {
        "ended": job.ended.name,
        "waiting": job.waiting,
        "groups": groups,
        "instants": instants,
        "finder": job.finder,
    }


def alerts(board: Board, job: int) -> dict[str, Kind]:
    return {s.alert.id: s.alert.kind for s in board.alerts if s.alert.job == job}


def test_generated_jobs_expect_alerts_and_forecasts_that_are_true(start_anvil: Callable[..., Any]) -> None:
    watch = Watch(World.on(start_anvil(*ANVIL_OPTIONS), "quick", 8))
    for _ in range(3):
        watch.world.play(10)
        watch.compare()
    print(dict(watch.tally))
    assert watch.tally["compared"] >= 15


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_120_generated_jobs_expect_alerts_and_forecasts_that_are_true(
    start_anvil: Callable[..., Any],
) -> None:
    total: Counter[str] = Counter()
    for seed in range(3):
        watch = Watch(World.on(start_anvil(*ANVIL_OPTIONS), ("long", seed), 40))
        for _ in range(14):
            watch.world.play(6)
            watch.compare()
        total += watch.tally
    print(dict(total))
    assert total["compared"] >= 1_000
    wanted = set(Kind) - {Kind.WRONG_CLAIM, Kind.POOR, Kind.UNANSWERED, Kind.INSOLVENT}
    assert {kind.value for kind in wanted} | {"paused"} <= set(total) | {"doubtful_claim"}
    assert {f"in {phase.name}" for phase in (Phase.WALK, Phase.REFINE, Phase.OPEN, Phase.HEARING)} <= set(
        total
    )
    hearings = set(HearingPhase) - {HearingPhase.NONE, HearingPhase.DONE}
    assert {f"in hearing {phase.name}" for phase in hearings} <= set(total)
    assert {"forecast accepted", "forecast unclaimed", "forecast void"} <= set(total)
    assert {"wrong root wins: True", "wrong root wins: False"} <= set(total)


# ---------------------------------------------------------------------- endpoints that fail, and chains that change


def answering(web3: Web3, request: Callable[..., Any]) -> None:
    """Let this function answer all requests of a connection from now on."""
    web3.provider.make_request = request  # type: ignore[method-assign]
    vars(web3.provider)["_request_func_cache"] = (
        None,
        None,
    )  # web3 keeps the function that it has called before


class Poor:
    """Makes a client's endpoint fail with a request out of `one_in`, or lack logs."""

    def __init__(self, url: str, rng: Random, one_in: int, *, lacks_logs: bool) -> None:
        self.web3 = connect(url, 31337)
        inner = self.web3.provider.make_request

        def request(method: Any, params: Any) -> Any:
            bad = rng.randrange(one_in) == 0
            if bad and not lacks_logs:
                raise RpcUnavailable("no answer")
            answer = inner(method, params)
            if bad and method == "eth_getLogs" and answer.get("result"):
                kept = [log for log in answer["result"] if rng.random() < 0.5]
                return {**answer, "result": kept}
            return answer

        answering(self.web3, request)


@pytest.mark.parametrize("lacks_logs", [False, True])
def test_incomplete_data_expect_unchecked_and_no_alarm_that_is_not_so(
    start_anvil: Callable[..., Any], lacks_logs: bool
) -> None:
    anvil = start_anvil(*ANVIL_OPTIONS)
    world = World.on(anvil, "poor", 8)
    rng, tally = Random(5), Counter[str]()
    for _ in range(3):
        world.play(12)
        for one_in in (2, 6) if lacks_logs else (6, 60):
            poor = Poor(anvil.url, rng, one_in, lacks_logs=lacks_logs)
            client = ChainClient(poor.web3, world.client.deployment)
            board = Monitor(client, Rules(NEAR, 0), per_round=1_000).round()
            for game in world.cohort.games:
                found = {key for key, kind in alerts(board, game.job_id).items() if kind not in JUDGED}
                assert found <= truth(world, game), game.job
                blind = any(reason.startswith("chain:") for reason in board.unchecked.get(0, ()))
                if blind or game.job_id in board.unchecked:
                    tally["unchecked"] += 1
                elif not lacks_logs:
                    assert found == truth(world, game)
                    tally["whole"] += 1
            told = {s.alert.id for s in board.alerts if s.alert.id.startswith(f"0:{Kind.UNCLAIMED}:")}
            assert {tuple(key.split(":")[2:]) for key in told} <= owed(world)
    print(dict(tally))
    assert tally["unchecked"] >= 5


def test_an_endpoint_that_goes_away_expect_that_no_alert_comes_or_goes(
    start_anvil: Callable[..., Any],
) -> None:
    world = World.on(start_anvil(*ANVIL_OPTIONS), "gone", 6)
    world.play(20)
    monitor = Monitor(world.client, Rules(ALWAYS, 0), per_round=1_000)
    before = monitor.round()
    assert before.alerts
    works = world.client.web3.provider.make_request

    def nothing(*_: Any) -> Any:
        raise RpcUnavailable("no answer")

    answering(world.client.web3, nothing)
    blind = monitor.round()
    assert [standing.alert for standing in blind.alerts] == [standing.alert for standing in before.alerts]
    assert all(standing.unchecked for standing in blind.alerts)
    assert "no answer" in blind.unchecked[0][0]
    answering(world.client.web3, works)
    world.pass_time(1)
    again = monitor.round()
    assert not any(standing.unchecked for standing in again.alerts)
    since = {standing.alert.id: standing.since for standing in before.alerts}
    for standing in again.alerts:
        assert since.get(standing.alert.id, standing.since) == standing.since


def test_a_reorganisation_expect_that_alerts_of_the_lost_branch_clear(
    start_anvil: Callable[..., Any],
) -> None:
    world = World.on(start_anvil(*[o for o in ANVIL_OPTIONS if o != "--prune-history"]), "reorg", 8)
    world.play(8)
    rules = Rules(NEAR, 0)
    monitor = Monitor(world.client, rules, per_round=1_000)
    first = {standing.alert.id for standing in monitor.round().alerts}
    with undone(world.client.web3):
        world.pass_time(10_000)
        late = {standing.alert.id for standing in monitor.round().alerts}
        assert late - first
    assert {standing.alert.id for standing in monitor.round().alerts} == first


@pytest.mark.slow
def test_thousands_of_jobs_expect_bounded_memory_and_the_urgent_ones_in_every_round(
    start_anvil: Callable[..., Any],
) -> None:
    world = World.on(start_anvil(*ANVIL_OPTIONS), "many", 4)
    world.play(12)
    posts = [replace(world.cohort.games[0].post(), sender=address("many", k), value=0) for k in range(500)]
    world.chain.fund([post.sender for post in posts])
    for _ in range(4):
        assert all(world.chain.mine(posts, world.chain.now + 1))
    monitor = Monitor(world.client, Rules(NEAR, 0), per_round=64)
    urgent = {g.job_id for g in world.cohort.games if any(m.state.phase is not Phase.DONE for m in g.matches)}
    monitor.round()
    world.pass_time(1)
    assert urgent <= set(monitor._due(2_004))
    for _ in range(6):
        world.pass_time(1)
        board = monitor.round()
        assert len(board.lines) <= 4
    assert board.jobs == 2_004
    assert len(monitor._standing) < 100, "jobs that hold nobody's money raise nothing"
