"""Every wait on a stranger has an end in protocol time: the table of waits, and the seconds that follow for a job.

A wait serves a period or a clock of the job, and its end is a share of that, so that enough is left for what happens
then. SAFETY: slow and right is the same as withheld once the time is over; a bound per request bounds nothing,
because a work makes as many requests as its data have parts.

    INVARIANT: the shares of one period that may come one after the other leave half of it (`tests/trainer_node/
    test_waits.py`): a package and then the logs of its run take at most PACKAGE + LOGS of the challenge period.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from referee_py.jobs import JobPhase

if TYPE_CHECKING:
    from ..chain import JobView

PACKAGE = Fraction(1, 4)
"""Of the period before whose end the result is due: the seconds in which a job's package has to come."""
LOGS = Fraction(1, 4)
"""Of the challenge period: the seconds that a run waits for the rounding logs of another party, over all its steps.
What is left is enough to request them on the chain, which gives a period of its own for each answer."""
RETRY = Fraction(1, 32)
"""Of the same periods: the longest delay until what was not served is asked for again."""
AGAIN = Fraction(1, 8)
"""Of the same periods: the delay until a job that seems too slow for this machine is measured again; then doubled."""
INTERVAL = Fraction(1, 4)
"""Of the time that can be spared (`sampling.budget.data_s`): the seconds in which the data of an interval have to come;
the next one gets its share of the rest."""
LANE = Fraction(1, 8)
"""Of its own period: the seconds after which a work that waits for strangers has a lane for a first turn (`lanes`)."""
STAKED = Fraction(1, 4)
"""Of the clock: the seconds, in one attempt, in which the data of an interval have to come that our stake rests on."""
TREES = Fraction(1, 8)
"""Of any stretch of time: the seconds that we wait for what the servers of opponents have, in all matches together, so
that many matches take no more of a clock than one."""
ALL_AGREE, NONE_CONTRADICTS = Fraction(1, 2), Fraction(3, 8)
"""Of a clock: while more is left, a move that no hash binds waits until enough endpoints confirm the look; then, until
none contradicts it (`play.unbound_moves`)."""
TURN_S = 30.0
"""Seconds of the first turn of a stranger's work in a lane, at most (`lanes`); each later turn is twice as long as the
one before it. As long may a run wait for logs while another run waits for the processors."""
LANES = 8
"""Strangers' packages, windows of logs, checks, judgements that wait for data at the same time in first turns; and as
many in turns of each later length."""
MINED_S = 60.0
"""Seconds that a round of the node's loop waits for a transaction to be mined."""
JUDGED_S = 5.0
"""Seconds that one round of the node's loop waits for new judgements, all together."""
OPPONENT_S = 5.0
"""Seconds that one round of the node's loop waits for the servers of one opponent."""


def serves(job: JobView) -> tuple[str, int]:
    """Return the period before whose end we need a job's package, in words, and its seconds."""
    if job.phase is JobPhase.TRAINING:
        return "training period", job.train_period
    return "challenge period", job.challenge_period


def package_s(job: JobView) -> float:
    """Return the seconds in which a job's package has to come."""
    return float(PACKAGE * serves(job)[1])


def logs_s(job: JobView) -> float:
    """Return the seconds that the whole run of a job waits for the logs that it follows."""
    return float(LOGS * job.challenge_period)


def retry_s(job: JobView) -> float:
    """Return the longest delay, in seconds, until what a job needs is asked for again."""
    return float(RETRY * serves(job)[1])


def again_s(job: JobView, times: int) -> float:
    """Return the seconds until a job is measured again that has been measured again so many times."""
    return float(AGAIN * serves(job)[1] * 2**times)


def staked_s(job: JobView) -> float:
    """Return the seconds in which the data of an interval have to come that a stake of ours rests on."""
    return float(STAKED * job.rules.clock)


def later_turn_s(number: int) -> float:
    """Return the seconds of a later turn in a lane; the first turn has the number 0."""
    return TURN_S * 2.0**number


def behind_s(decoys: int, takes_s: float = TURN_S) -> float:
    """Return how long a work that takes ``takes_s`` in one piece waits behind so many that stall in all their turns.

    Each turn comes after the same turns of the others, and after those that hold the lanes of this length.
    """
    seconds, number = 0.0, 0
    while True:
        seconds += (decoys / LANES + 1) * later_turn_s(number)
        if later_turn_s(number) >= takes_s:
            return seconds
        number += 1


@dataclass(frozen=True, slots=True)
class Wait:
    """A row of the table: at most ``share`` of ``of_period``, then ``then``; ``test`` drives it to its limit.

    ``share``: a fraction of a period, or a number of seconds. Tests are named as in docs/security.md.
    """

    name: str
    of_whom: str
    share: Fraction | float
    of_period: str
    then: str
    test: str

    @property
    def at_most(self) -> str:
        if isinstance(self.share, float):
            return f"{self.share:g} s {self.of_period}".strip()
        if self.share.denominator == 1:
            return f"{self.share} × {self.of_period}" if self.share > 1 else self.of_period
        return f"{self.share} of {self.of_period}"


WAITS = (
    # ---------------------------------------------------------------- before a stake
    Wait(
        "a job's package, for a trainer or a watcher",
        "client",
        PACKAGE,
        "the training period, counted while it is fetched",
        "declined before staking; the client's servers are blamed for the seconds",
        "N/compute/test_decoys.py::test_a_package_that_comes_right_and_too_slowly_is_left_before_a_stake",
    ),
    Wait(
        "a job's package, for a challenger",
        "client",
        PACKAGE,
        "the challenge period, counted while it is fetched",
        "declined before staking",
        "N/compute/test_decoys.py::test_a_challenger_has_a_share_of_the_challenge_period",
    ),
    Wait(
        "a lane for a stranger's package",
        "other strangers whose packages come slowly",
        LANE,
        f"the period that it serves, and {TURN_S:g} s for each {LANES} of them; each later turn is twice as long, and "
        "has lanes of its own",
        "the lane goes to the next; what has come stays on disk",
        "N/compute/test_decoys.py::test_decoys_that_stall_hold_a_lane_for_one_turn",
    ),
    # ---------------------------------------------------------------- a followed run
    Wait(
        "the rounding logs of a run, over all its steps",
        "trainer and later claimants",
        LOGS,
        "the challenge period, counted while the run waits for one",
        "requested on the chain, though each answer came right",
        "N/run/test_slow_logs.py::test_logs_that_come_right_and_slowly_are_requested_on_the_chain",
    ),
    Wait(
        "the processors, for a run behind one that waits for logs",
        "another job's trainer",
        TURN_S,
        "for each run before it",
        "that run ends for now; the time that it has waited counts as had",
        "N/run/test_slow_logs.py::test_a_run_that_waits_for_logs_lets_others_go_first",
    ),
    Wait(
        "the next attempt at what was not served",
        "client, trainer, claimants",
        RETRY,
        "the period that it serves, and 600 s",
        "asked again, after the first delay if something has come since",
        "N/run/test_slow_logs.py::test_the_delay_of_a_run_that_gets_on_does_not_grow",
    ),
    Wait(
        "a rounding log that no server has",
        "the trainer, and who else has it",
        RETRY,
        "the challenge period, of which it takes part in what the run waits for all logs",
        "requested on the chain; at once after two attempts where a move of ours needs it",
        "N/run/test_logs_after_an_outage.py::test_what_is_absent_for_longer_is_withheld",
    ),
    Wait(
        "a request for data on the chain",
        "claimants",
        Fraction(1),
        "the verdict period, longer behind others (protocol.md, section 8)",
        "closed: its claim or the job's acceptance is lost",
        "e2e/test_data_requests.py::test_a_node_closes_what_a_liar_does_not_show",
    ),
    Wait(
        "the data of an interval that is checked",
        "claimants",
        INTERVAL,
        "what is left of the challenge period when a whole replay, its commitment and its transactions have their time",
        "withheld: the whole run is replayed where that fits and is allowed, the rest of the draw where it does not",
        "e2e/test_sampled_data.py::test_right_and_slow_is_withheld_before_the_challenges_end",
    ),
    Wait(
        "a lane for a claimed root that is checked",
        "other claimants who serve right and slowly",
        LANE,
        "what is left of the time in which the root can be refuted, once for what may be brought before its "
        "replay; a lane as for packages",
        "the lane goes to the next; what has come stays on disk, and nothing counts as withheld by that",
        "N/roles/sampling/test_beside.py::test_a_root_waits_for_a_lane_once_whatever_is_drawn_of_it",
    ),
    Wait(
        "a place for the replays of a claimed root",
        "other claimants whose intervals last",
        LANE,
        "what is left of the time in which the root can be refuted; turns as in lanes",
        "the place goes to the next; what was computed of an interval is lost, and its next turn is twice as long",
        "N/roles/sampling/test_many_roots.py::test_each_root_has_its_turn_and_none_is_lost",
    ),
    Wait(
        "the data of an interval that our stake rests on, after a restart",
        "claimants, where our disk has lost them",
        STAKED,
        "the clock, for an attempt; in a thread of its own",
        "withheld: the whole run is replayed where that fits and is allowed; asked for again",
        "N/roles/sampling/test_siege.py::test_what_is_staked_on_has_an_end_and_is_asked_for_again",
    ),
    # ---------------------------------------------------------------- disputes
    Wait(
        "a lane for a vote",
        "other hearings whose inputs come slowly",
        LANE,
        "the verdict period of the one that waits",
        "the slow one gives up its lane; what has come stays on disk",
        "N/compute/test_lanes.py::test_who_waits_has_a_lane_after_a_share_of_its_own_period",
    ),
    Wait(
        "a lane for a defence of our bond",
        "other hearings that hold our bond",
        LANE,
        "the appeal period or the clock, whichever is shorter",
        "the same; votes have other lanes",
        "N/roles/test_verifier_under_siege.py::test_a_defence_never_waits_behind_strangers_votes",
    ),
    Wait(
        "new judgements in a round",
        "strangers' hearings",
        JUDGED_S,
        "in all",
        "the round continues; a later one finds them",
        "N/roles/test_verifier_under_siege.py::test_many_judgements_that_last_do_not_make_a_round_long",
    ),
    Wait(
        "an opponent's trees and records in one round of a match, its outputs in one of a trial",
        "the other side's servers",
        OPPONENT_S,
        "",
        "the move that the chain alone needs; whoever has wasted the time is banned, longer each time",
        "N/network/test_opponents.py::test_64_stalling_servers_cost_one_patience_and_then_nothing",
    ),
    Wait(
        "opponents' trees, records and outputs, in all matches and trials together",
        "the other sides' servers",
        TREES,
        "any clock",
        "played with what the chain shows: the other side has to reveal",
        "N/network/test_opponents.py::test_right_answers_that_come_slowly_take_a_share_of_the_clock_however_many_matches",
    ),
    Wait(
        "an opponent's move in a match or a trial",
        "the other side",
        Fraction(1),
        "its clock",
        "timeout: it has lost",
        "N/play/test_matches.py::test_the_opponent_withholds_expect_my_half_and_then_silence",
    ),
    Wait(
        "a verdict, an appeal, somebody to stand by a verdict",
        "verifiers, spokesmen",
        Fraction(1),
        "the verdict or appeal period",
        "the hearing continues without: to the court, or with the next signer",
        "C/panel/Appeals.t.sol::test_withoutAVerdictTheOperatorIsTried",
    ),
    # ---------------------------------------------------------------- the chain's endpoints
    Wait(
        "an answer about the chain",
        "an RPC endpoint",
        Fraction(2),
        "limits.rpc_timeout_s",
        "another endpoint is asked",
        "N/chain/test_endpoints.py::test_a_header_that_drips_is_given_up",
    ),
    Wait(
        "a majority that shows one view of the chain, however quick one alone is",
        "RPC endpoints",
        Fraction(2),
        "limits.rpc_timeout_s, for the newest block and again for the one that counts",
        "who has failed in full is silent: for as long as it stays so it has 3 s, in one look a minute",
        "N/chain/test_quick_fork.py::test_a_dead_endpoint_slows_one_look_a_minute_at_most",
    ),
    Wait(
        "others to confirm a look, for a move that no hash binds",
        "RPC endpoints",
        1 - NONE_CONTRADICTS,
        "our clock, what it has run before included; after half of it, only those that contradict",
        "the move is sent",
        "N/play/test_unbound_moves.py::test_it_waits_while_enough_of_the_clock_is_left",
    ),
    Wait(
        "all transactions of a round to be mined, together",
        "makers of blocks",
        MINED_S,
        "",
        "the next round begins; they are sent again with higher fees",
        "N/daemon/test_service.py::test_a_transaction_that_is_never_mined_does_not_keep_a_daemon_from_its_rounds",
    ),
)
"""All waits on strangers. Data that only people look at (reports of progress, audits of published runs) are not here:
nothing is staked on them, and each request has its own end (`watched_job`, `fetcher`)."""


def table(waits: tuple[Wait, ...] = WAITS) -> Iterator[str]:
    """Yield the table's lines for docs/security.md."""
    yield "| what is waited for | of whom | at most | then | test |"
    yield "|---|---|---|---|---|"
    for wait in waits:
        yield f"| {wait.name} | {wait.of_whom} | {wait.at_most} | {wait.then} | {wait.test} |"
