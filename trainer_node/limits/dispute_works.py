"""Works of disputes: answers to requests, moves of matches, trials, judgements, and the logs that they are about."""

from __future__ import annotations

from .work import Work

OF_DISPUTES = (
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
        "offering an operator's tensors on a full disk",
        "a match that ends in a hearing",
        "computed once; the last four wait in memory for room",
        "a stake",
        "N/compute/test_lacking_states.py::test_each_round_of_a_hearing_on_a_full_disk_computes_nothing",
    ),
    Work(
        "states in memory where the disk has none",
        "matches and requests on a full disk",
        "two for disputes, one for answers; each part of a dispute continues from there",
        "a stake; the deposits",
        "N/compute/test_lacking_states.py::test_what_is_requested_does_not_take_the_place_of_what_a_dispute_has_reached",
    ),
    Work(
        "computing the moves of a match",
        "a claim or a refutation against our root",
        "an interval for each stride and the disputed step, one match of a root at a time, outside the loop and before "
        "all runs; twice that fits the clock",
        "a stake; the next against the same root costs more",
        "N/run/test_cost_estimate.py::test_a_job_whose_clock_is_shorter_than_our_dispute_is_left_to_others",
    ),
    Work(
        "matches about a right root, one after the other",
        "wrong claims and refutations",
        "the square of the logarithm of what their authors stake, at most ([economics.md](economics.md), section 3)",
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
        "N/compute/test_lanes.py::test_what_computes_keeps_no_lane_after_its_turn_and_there_is_an_end_to_it",
    ),
    Work(
        "inputs of judgements in memory",
        "a hearing while our disk is full",
        "`limits.memory_bytes` for all jobs together; what does not fit is not signed",
        "the stakes of a match",
        "N/storage/test_refused_by_disk.py::test_the_limit_is_for_all_jobs_together_and_what_is_let_go_makes_room",
    ),
)
