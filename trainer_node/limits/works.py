"""The works that strangers can cause a node, each bounded by what its author pays and by our clock.

The table is shown in docs/security.md. A work that has no row here is one whose bound nobody has thought about.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """``bound``: the most that it takes of us, and what keeps it there; ``paid_by``: what it costs its author.
    ``test`` drives it to that bound, and is named as in docs/security.md."""

    name: str
    caused_by: str
    bound: str
    paid_by: str
    test: str


WORKS = (
    Work(
        "computing answers under a checkpoint",
        "a request of records or leaves of our root",
        "one interval and its last step, however many of the 512 pieces are of it; outside the loop; estimated with a "
        "match at once, twice, before a stake, and with those of all other jobs with a stake of ours",
        "a deposit that doubles with each other open checkpoint; half of what is above the first is burned",
        "e2e/test_floods.py::test_64_leaves_of_a_checkpoint_take_its_interval_once",
    ),
    Work(
        "computing answers in many jobs at once",
        "one request in each, of whoever has posted them; and a new one after each answer",
        "a round has one checkpoint of each job; twice that, with a match of each, fits the shortest verdict period of "
        "all, or the next job is left to others",
        "the gas of a request and of a posting; a deposit, which comes back",
        "N/stake/test_admission.py::test_whatever_is_admitted_is_answered_in_time_whoever_asks_when",
    ),
    Work(
        "computing answers about a step's logs",
        "a request of digests or blocks",
        "the step's logs are read and hashed once, and each node's log once for all of its pages",
        "a deposit for each page, of which the answer is paid",
        "N/play/test_answers.py::test_a_steps_logs_are_read_once_and_each_nodes_log_is_hashed_once",
    ),
    Work(
        "memory for answers",
        "requests",
        "the answers to what is open (512 pieces under a root, 512 of logs) and the state before one step",
        "the deposits",
        "N/play/test_answers.py::test_with_nothing_open_nothing_is_kept",
    ),
    Work(
        "moves that wait for an answer's step",
        "requests during a match",
        "one step for each time that a match computes; estimated in the clock before a stake",
        "the deposits",
        "e2e/test_floods.py::test_no_move_is_later_under_a_flood_than_without_by_more_than_a_block",
    ),
    Work(
        "sending answers",
        "requests",
        "one transaction of a job at a time, 100,000 bytes and 12 million gas; nothing waits for it; each piece once",
        "the fee of each answer is more than its gas",
        "N/play/test_data_responses.py::test_one_transaction_at_a_time_is_on_its_way",
    ),
    Work(
        "sending all pieces of a flood in time",
        "512 requests at once",
        "10 s for each record or leaf, 60 s for a page of logs, twice as much as we need, or the job is left to others",
        "32 times the deposits of 512 first requests; half of what is above them is burned",
        "N/stake/test_flood.py::test_the_pieces_of_a_flood_must_be_sent_in_the_seconds_that_the_protocol_gives",
    ),
    Work(
        "reading requests of a root that we would close",
        "requests of another's root",
        "once when one may be late, and once a verdict period",
        "the deposits",
        "N/play/test_late_requests.py::test_the_ledger_is_read_again_when_something_may_be_late",
    ),
    Work(
        "listing withheld logs",
        "a trainer in rounded-f64, with as many steps and operators as it likes",
        "what is answered, and 576 pieces in a round; nothing is requested where the digests alone cost more than "
        "the limit",
        "a stake",
        "N/play/test_data_requests.py::test_a_round_lists_no_more_pieces_than_can_be_requested",
    ),
    Work(
        "putting together logs that were shown",
        "a trainer in rounded-f64 that serves nothing and answers requests",
        "each step once, by whoever computes it and never in the loop; two hashes for each digest shown",
        "a stake; whoever requests pays for each page",
        "N/run/test_shown_logs.py::test_they_are_handed_over_once_and_each_step_is_put_together_by_its_run",
    ),
    Work(
        "reading long events",
        "answers, moves and requests of strangers",
        "`limits.rpc_bytes` for one reading; ranges are halved down to a block",
        "the gas of the events",
        "N/chain/test_events.py::test_a_range_of_more_bytes_than_we_take_is_read_in_halves",
    ),
    Work(
        "replaying a run on our disk",
        "a claim in a posted job",
        "begun only where it fits alongside what is kept for our stakes; keeps its roots alone where that room is gone",
        "a stake, or a slot of its own job",
        "N/storage/test_kept_room.py::test_a_run_that_goes_on_when_we_stake_on_another_keeps_its_roots_alone",
    ),
    Work(
        "making room on our disk for a job that is considered",
        "a posted job that does not fit",
        "the files of each job that is over are looked at once, and swept beside the loop, every 5 s at most and only "
        "where that is enough; results stay",
        "the gas of posting",
        "N/storage/test_considered.py::test_a_job_that_never_fits_costs_no_file_and_no_look_at_the_store",
    ),
    Work(
        "states of finished runs that give way on our disk",
        "posted jobs that could be staked on, with right claims",
        "only where the job fits then, and nothing from which a claim differs; their files are looked at every two "
        "minutes at most where that is in vain; computed again before a stake, among other runs",
        "the gas of posting, and a stake that comes back",
        "N/storage/test_resting_states.py::test_nothing_goes_unless_the_job_fits_then_and_no_file_is_looked_at_again_for_it",
    ),
    Work(
        "replaying and checking jobs in which nobody stakes",
        "posted jobs with terms that forbid a stake",
        "none, but for who just watches: its memory and disk give way to any other job",
        "the gas of posting",
        "N/roles/test_possible_stakes.py::test_no_run_is_begun_in_a_job_in_which_no_stake_is_possible_and_its_reason_is_said_once",
    ),
    Work(
        "lies that are found and not staked on",
        "claims in posted jobs",
        "idle in memory, and gone for whoever needs the room; found again from the disk before a refutation, once at a "
        "time; for one that is due, room for ten minutes",
        "a stake that others may take",
        "N/roles/sampling/test_found_lies.py::test_what_is_found_and_not_staked_on_gives_way_and_its_statement_stays",
    ),
    Work(
        "offering an operator's tensors on a full disk",
        "a match that ends in a hearing",
        "computed once; the last four wait in memory for room",
        "a stake",
        "N/work/test_lacking_states.py::test_each_round_of_a_hearing_on_a_full_disk_computes_nothing",
    ),
    Work(
        "states in memory where the disk has none",
        "matches and requests on a full disk",
        "two for disputes, one for answers; each part of a dispute continues from there",
        "a stake; the deposits",
        "N/work/test_lacking_states.py::test_what_is_requested_does_not_take_the_place_of_what_a_dispute_has_reached",
    ),
    Work(
        "computing the moves of a match",
        "a claim or a refutation against our root",
        "an interval for each stride and the disputed step, one match of a root at a time; twice that fits the clock",
        "a stake; the next against the same root costs more",
        "N/run/test_cost_estimate.py::test_a_job_whose_clock_is_shorter_than_our_dispute_is_left_to_others",
    ),
    Work(
        "matches about a right root, one after the other",
        "wrong claims and refutations",
        "logarithmic in what their authors stake",
        "a stake each, doubled with every refutation of a root",
        "R/game/test_refuted_matches.py::test_an_honest_claim_wins_against_every_refutation",
    ),
    Work(
        "computing the moves of a trial",
        "an appeal, or silent verifiers",
        "the longest chain of the job's operators, measured before a stake; threads outside the loop",
        "the bond of an appeal, or a stake",
        "N/run/test_cost_estimate.py::test_a_trial_that_is_longer_than_the_clock_is_not_staked_on_and_the_reason_says_where",
    ),
    Work(
        "trials of many verdicts at once",
        "who is client, spokesmen and appellant in many hearings",
        "twice all that we have signed fits the shortest clock on the processors that there are, and its gas the "
        "account, or the next is not signed",
        "a stake and the bond of an appeal for each",
        "N/play/test_verdicts.py::test_verdicts_that_cannot_be_tried_at_once_are_not_all_signed_for",
    ),
    Work(
        "tensors of trials at the same time",
        "several hearings",
        "the tensors of four operators",
        "a stake or a bond for each",
        "N/play/test_hearings_beside.py::test_more_trials_than_tensors_are_kept_expect_every_one_to_go_on",
    ),
    Work(
        "judging an operator",
        "a match that ends in a hearing",
        "limits on memory and on the trial; a judgement that takes long holds up nobody",
        "a stake",
        "N/roles/test_verifier.py::test_a_judgement_that_takes_long_holds_up_nobody",
    ),
    Work(
        "what a judged operator takes once its verdict is signed",
        "an appeal, and a side that gives its trial away",
        "reading what was kept: outputs with inputs, executed once; twice that, with the moves, fits the appeal "
        "period and with the trial the clock, or the vote is refused",
        "the bond of an appeal, or half a stake",
        "N/roles/test_verifier_under_siege.py::test_an_operator_that_takes_longer_than_the_clock_is_executed_once",
    ),
    Work(
        "executing an operator on the processor before an appeal",
        "a verdict that calls our record wrong",
        "the slowest operator, measured on a part of it before a stake where runs compute elsewhere; outside the loop, "
        "and after half of the appeal period the run's device decides alone",
        "the bonds of the verdict's signers",
        "N/roles/test_appeals.py::test_a_job_whose_appeal_period_is_too_short_for_the_processor_is_left_to_others",
    ),
    Work(
        "looking at jobs",
        "anybody who posts them",
        "some of others' in each round, ours in every one: those with a stake of ours, or a lie that we may refute; "
        "first those in which something has happened (one request), and 8 of those in which nothing can change",
        "the gas of posting",
        "N/daemon/test_job_queue.py::test_ten_thousand_jobs_of_strangers_do_not_slow_a_round",
    ),
    Work(
        "looks at jobs that nobody claims in or finalizes",
        "anybody who posts them",
        "a claimed job waits for none of them; of 16 places for what we work on, those whose period ends first",
        "the gas of posting",
        "N/daemon/test_job_queue.py::test_a_claimed_job_is_looked_at_in_time_whatever_nobody_finalizes",
    ),
    Work(
        "measuring a job",
        "a posted job",
        "a first step of 60 s, ended between two operators; one at a time",
        "the gas of posting",
        "N/run/test_cost_estimate.py::test_a_step_that_takes_too_long_is_left_in_the_middle",
    ),
    Work(
        "one operator of a first step",
        "a posted job",
        "not begun where it takes longer than its turn at a rate that this machine stays below; one that is over its "
        "time all the same is passed by the next, 2 of them at once, and by all whose operators are sure to be short",
        "the gas of posting",
        "N/work/test_long_operators.py::test_a_job_is_measured_beside_operators_that_go_on_for_days",
    ),
    Work(
        "jobs that name a program which we have run",
        "anybody who posts them",
        "turns and budgets as for any program; two threads for runs of theirs that come back from the disk; what we "
        "have staked on has threads of its own",
        "the gas of posting",
        "N/work/test_own_jobs.py::test_runs_of_strangers_that_come_back_from_the_disk_are_not_before_ours",
    ),
    Work(
        "reading a program file",
        "a posted job",
        "its bytes and nodes are limited; what is unsound is refused before any tensor is fetched",
        "the gas of posting",
        "N/run/test_package.py::test_an_unsound_program_file_is_refused_and_no_tensor_is_fetched",
    ),
    Work(
        "memory for a job",
        "a posted job",
        "`limits.memory_bytes`, estimated from the program before any tensor is fetched",
        "the gas of posting",
        "N/run/test_package.py::test_more_memory_than_allowed_is_refused_before_any_tensor_is_fetched",
    ),
    Work(
        "memory for all jobs",
        "many posted jobs, claims",
        "`limits.memory_bytes` for what is measured, computed or kept of all jobs, each tensor once; others wait, or "
        "are left before a stake; what is not staked on gives way",
        "the gas of posting; for what is kept, a stake of ours and one of its author",
        "N/run/test_tensors.py::test_jobs_that_were_measured_hold_no_memory",
    ),
    Work(
        "fetching from a server that delivers nothing",
        "who names it",
        "`limits.peer_bytes` and `limits.peer_s` a day, for one job and one host",
        "the gas of posting or a stake",
        "N/network/test_peer_costs.py::test_a_flood_costs_its_budget_and_no_more",
    ),
    Work(
        "logs on our disk and in our memory",
        "a trainer in rounded-f64",
        "`limits.log_bytes` for a run; a step's logs get what memory is left",
        "a stake",
        "N/run/test_log_sources.py::test_logs_that_take_too_much_disk_end_the_run",
    ),
    Work(
        "logging of forged entries",
        "a trainer in rounded-f64",
        "100 lines",
        "a stake",
        "N/run/test_rounded.py::test_a_flood_of_forged_entries_is_told_of_in_few_words",
    ),
    Work(
        "a judgement",
        "a hearing of a stranger",
        "8 lanes, in turns; 8 more that can only compute, and 4 lanes of their own for hearings that hold our bond",
        "the stakes of a match",
        "N/work/test_lanes.py::test_what_computes_keeps_no_lane_after_its_turn_and_there_is_an_end_to_it",
    ),
    Work(
        "inputs of judgements in memory",
        "a hearing while our disk is full",
        "`limits.memory_bytes` for all jobs together; what does not fit is not signed",
        "the stakes of a match",
        "N/storage/test_refused_by_disk.py::test_the_limit_is_for_all_jobs_together_and_what_is_let_go_makes_room",
    ),
    Work(
        "looking for an interval that malformed states prove wrong",
        "a claimant",
        "log2 of the intervals, and one more, states; then one interval; within `max_check_cpu_h` and "
        "`max_check_bytes`",
        "its stake",
        "N/roles/sampling/test_runner.py::test_the_search_for_what_is_provable_looks_at_few_states",
    ),
    Work(
        "replaying drawn intervals",
        "a claim in a posted job",
        "one step at a time, of the root that has had least time for what is staked, in all of its intervals; so a job "
        "takes from another what that other takes itself, times the stakes of its claims by those of the other, "
        "however it is cut or divided; in parallel with a whole run, of which all together take half",
        "the gas of posting, and a stake that comes back where the claim is right",
        "N/roles/sampling/test_shares.py::"
        "test_a_job_takes_from_another_what_it_has_at_stake_beside_it_however_short_its_intervals",
    ),
    Work(
        "waiting threads of computations",
        "claims in posted jobs, a thread for each root",
        "a step goes once through those that wait, and wakes the one that is due",
        "the gas of posting, and a stake that comes back where the claim is right",
        "N/work/test_processors.py::test_a_step_looks_once_at_each_that_waits_and_wakes_the_one_that_is_due",
    ),
    Work(
        "roots whose data have come, in threads and in memory",
        "claims in posted jobs, of as many checkpoints as they like",
        "8 places for replays in turns of each length, each with one thread and what is lent to it; one that waits "
        "holds numbers, and one in a place or a lane 128 KiB of its tree",
        "the gas of posting, and a stake that comes back where the claim is right",
        "N/roles/sampling/test_many_roots.py::test_roots_that_wait_for_the_processors_hold_neither_trees_nor_threads",
    ),
    Work(
        "trees of runs in memory",
        "a posted job of as many checkpoints as a run may have",
        "256 bytes for each leaf, once for each stride, within `limits.memory_bytes` for each run or interval that is "
        "computed or kept; built for what is played, and not for what is compared",
        "the gas of posting; for what is kept, a stake of its author or of ours",
        "N/run/test_package.py::test_the_trees_of_a_run_are_reckoned_before_any_tensor_is_fetched",
    ),
    Work(
        "replaying whole runs",
        "a posted job with a claim that is withheld, or checked as a whole",
        "one step at a time, of the run that has had least time for what is staked in its job, those with our stake "
        "first; 4 of strangers are in progress, and each takes from another what that other takes itself, times the "
        "stakes as above, and 120 s for its place",
        "the gas of posting, and a stake that comes back where the claim is right",
        "N/work/test_runs.py::test_a_strangers_run_of_days_keeps_no_other_job_waiting",
    ),
    Work(
        "waiting for memory",
        "a posted job that takes all that is allowed, behind another",
        "passed by what fits alongside it, and by what takes no longer than what it waits for has taken; a stranger's "
        "run gives its memory back after 30 s and continues later",
        "the gas of posting",
        "N/roles/sampling/test_line_for_memory.py::test_a_small_interval_is_checked_while_a_large_one_waits",
    ),
    Work(
        "drawing intervals of claimed roots",
        "claims in a posted job, of as many steps as it likes",
        "outside the loop, and one interval at a time, when it must be checked, in a time that does not depend on "
        "their number; of a root 16 are held whose data have not come",
        "the gas of posting, and a stake that comes back where the claim is right",
        "N/roles/sampling/test_draw.py::test_what_an_interval_takes_does_not_grow_with_the_run",
    ),
    Work(
        "looking at claimed roots",
        "claims in a posted job",
        "32 roots of a job in a round, each as quickly as any other",
        "the gas of posting, and a stake that comes back where the claim is right",
        "N/roles/sampling/test_rounds.py::test_a_round_looks_at_some_roots_and_at_all_in_some_rounds",
    ),
    Work(
        "waiting for what is checked",
        "claimants who serve slowly",
        "8 lanes for turns of each length, one work for each root",
        "the gas of posting, and a stake",
        "N/work/test_lanes.py::test_nobody_waits_behind_a_turn_that_is_longer_than_his_own",
    ),
    Work(
        "data that wait for the replay of their intervals",
        "claimants who serve more quickly than we compute",
        "1,024 intervals of a root, and 1 GiB fetched for them and one more; the rest is asked for once they are "
        "replayed",
        "the gas of posting, and a stake that comes back where the claim is right",
        "N/roles/sampling/test_beside.py::test_where_much_waits_for_its_replay_the_rest_is_asked_for_later",
    ),
    Work(
        "looking whose turn in a lane is over",
        "strangers' works, as many as wait",
        "five looks per second, however many works ask, and one for each that comes or ends; each covers all that "
        "wait once, and once more for each turn that ends",
        "the gas of posting",
        "N/work/test_lanes.py::test_looks_do_not_grow_with_the_works_that_ask",
    ),
    Work(
        "serving artifacts",
        "anybody",
        "256 connections, with 10 s for a request and for 48 KiB of an answer; a new one takes the place of one that "
        "waits, or of the address that has most",
        "nothing",
        "N/network/test_bounded_http.py::test_whoever_has_waited_longest_makes_room",
    ),
    Work(
        "series of metrics",
        "hosts, jobs and matches without number",
        "a fixed number; the oldest give way",
        "nothing",
        "N/observe/test_metrics.py::test_the_series_of_hostile_peers_are_bounded_and_the_oldest_give_way",
    ),
)


def table() -> list[str]:
    """Return the lines of the table in docs/security.md."""
    lines = ["| work | caused by | bound | its author pays | test |", "|---|---|---|---|---|"]
    return lines + [f"| {w.name} | {w.caused_by} | {w.bound} | {w.paid_by} | {w.test} |" for w in WORKS]
