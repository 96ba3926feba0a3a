"""Works of posted jobs and of claims in them: looks, measuring, checks, memory, disk and network."""

from __future__ import annotations

from .work import Work

OF_JOBS = (
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
        "the files of each job that is over are looked at once, and swept outside the loop, every 5 s at most and only "
        "where that is enough; results stay",
        "the gas of posting",
        "N/storage/test_considered.py::test_a_job_that_never_fits_costs_no_file_and_no_look_at_the_store",
    ),
    Work(
        "states of finished runs that give way on our disk",
        "posted jobs that could be staked on, with right claims",
        "only where the job fits then, and nothing from which a claim differs; their files are looked at every two "
        "minutes at most where they are not enough; computed again before a stake, among other runs",
        "the gas of posting, and a stake that comes back",
        "N/storage/test_resting_states.py::test_nothing_goes_unless_the_job_fits_then_and_no_file_is_looked_at_again_for_it",
    ),
    Work(
        "replaying and checking jobs in which nobody stakes",
        "posted jobs with terms that forbid a stake",
        "none, except by a node that only watches: its memory and disk give way to any other job",
        "the gas of posting",
        "N/roles/test_possible_stakes.py::test_no_run_is_begun_in_a_job_in_which_no_stake_is_possible_and_its_reason_is_said_once",
    ),
    Work(
        "lies that are found and not staked on",
        "claims in posted jobs",
        "idle in memory, and gone for whoever needs the room; found again from the disk before a refutation, once at a "
        "time; for one that is due, room for ten minutes; its statement is in the database until its job is over",
        "a stake that others may take",
        "N/roles/sampling/test_found_lies.py::test_what_is_found_and_not_staked_on_gives_way_and_its_statement_stays",
    ),
    Work(
        "looking at jobs",
        "anybody who posts them",
        "some of others' in each round, those with a stake of ours in every one; first those in which something has "
        "happened (one request), and 8 of those in which nothing can change",
        "the gas of posting",
        "N/daemon/test_job_queue.py::test_ten_thousand_jobs_of_strangers_do_not_slow_a_round",
    ),
    Work(
        "looks at jobs in which a lie was found and is not staked on",
        "claims in posted jobs, where ether, time or places are short",
        "16 in each round, those that can be staked on now and then those that end first; all in the turns of others' "
        "jobs",
        "the gas of posting, and a stake that others may take",
        "N/roles/test_strangers_turns.py::"
        "test_lies_that_cannot_be_paid_for_make_no_round_longer_and_one_that_can_be_is_refuted",
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
        "N/compute/test_long_operators.py::test_a_job_is_measured_beside_operators_that_go_on_for_days",
    ),
    Work(
        "jobs that name a program which we have run",
        "anybody who posts them",
        "turns and budgets as for any program; two threads for runs of theirs that come back from the disk; what we "
        "have staked on has threads of its own",
        "the gas of posting",
        "N/compute/test_own_jobs.py::test_runs_of_strangers_that_come_back_from_the_disk_are_not_before_ours",
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
        "N/compute/test_memory_of_a_node.py::test_jobs_that_were_measured_hold_no_memory",
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
        "N/compute/test_processors.py::test_a_step_looks_once_at_each_that_waits_and_wakes_the_one_that_is_due",
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
        "N/compute/test_runs.py::test_a_strangers_run_of_days_keeps_no_other_job_waiting",
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
        "N/compute/test_lanes.py::test_nobody_waits_behind_a_turn_that_is_longer_than_his_own",
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
        "N/compute/test_lanes.py::test_looks_do_not_grow_with_the_works_that_ask",
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
