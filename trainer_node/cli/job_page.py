"""A job as `assay job show` prints it: its terms, its judges, its bounty, and where each match stands; or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ids import short, side_of, whole
from .arithmetic import mode_words
from .common import moment, show_ether, show_rows

if TYPE_CHECKING:
    from ..chain import HearingInfo, JobView, MatchInfo, Snapshot
    from ..chain.codec.watch import PoolInfo


def print_terms(job: JobView, pool: PoolInfo, behind: int) -> None:
    """Print the terms of a job and its periods. ``behind``: seconds of the contracts' clocks behind the chain."""
    rows: dict[str, object] = {
        "phase": job.phase.name.lower(),
        "client": job.client,
        "reward": f"{show_ether(job.reward)} for {job.slots} slots",
        "stake": f"{show_ether(job.stake_now)} now, {show_ether(job.stake)} at least; gas counts for "
        f"{job.low_fee / 10**9:g} to {job.high_fee / 10**9:g} gwei",
        "program": f"{job.program.hash().hex()} ({job.program.node_count} nodes, {job.program.steps} steps)",
        "arithmetic": mode_words(job.program.mode),
        "program file": job.program_file.hex(),
        "artifacts at": job.uri,
        "bounty": _bounty(pool),
        "training until": f"{moment(job.commit_end)}, and {job.watch_period} s after the last commitment",
        "reveal until": moment(job.reveal_end),
        "challenge until": moment(job.challenge_end),
        "reclaims": moment(job.reclaim_end) if job.reclaim_end else "no root has lost all its claims",
        "match": f"{job.rules.clock} s a side",
        "operators": _judges(job),
        "trainers": ", ".join(short(t.owner) for t in job.trainers) or "none yet",
    }
    if behind:
        rows["instants"] = (
            f"on the clocks of the contracts, {behind} s behind the chain; see `assay clocks show`"
        )
    if job.program.arithmetic.follows_logs:
        rows["rounding logs"] = job.logs.hex() if any(job.logs) else "not revealed yet"
    show_rows(f"job {job.id}", rows)


def job_row(job: JobView) -> dict[str, Any]:
    """Return what a list shows of a job, for scripts: wei, and seconds on the contracts' clocks."""
    return {
        "job": job.id,
        "phase": job.phase.name.lower(),
        "client": job.client,
        "reward": job.reward,
        "stake": job.stake_now,
        "steps": job.program.steps,
        "program": job.program.hash().hex(),
        "claims": len(job.claims),
        "roots": len(job.groups),
        "open_matches": job.open_matches,
        "accepted_root": job.accepted_root.hex() if any(job.accepted_root) else None,
    }


def whole_row(snapshot: Snapshot, job: JobView) -> dict[str, Any]:
    """Return a job with its claims and matches, for scripts. Raises RpcUnavailable and RpcCorrupt."""
    pool = snapshot.pool(job)
    claims = [
        {
            "owner": claim.owner,
            "root": job.groups[claim.group].root.hex(),
            "refutes": job.groups[claim.group].refutes is not None,
            "lost": claim.lost,
            "collected": claim.collected,
            "stake": claim.stake,
            "uri": claim.uri,
        }
        for claim in job.claims
    ]
    matches = []
    for number in snapshot.matches_of(job.id):
        match, hearing = snapshot.match(job, number), snapshot.hearing(job, number)
        matches.append({"match": whole(number), "state": standing(match, hearing)})
    return {
        **job_row(job),
        "mode": mode_words(job.program.mode),
        "least_stake": job.stake,
        "low_fee": job.low_fee,
        "high_fee": job.high_fee,
        "slots": job.slots,
        "uri": job.uri,
        "program_file": job.program_file.hex(),
        "bounty": pool.amount,
        "commit_end": job.commit_end,
        "reveal_end": job.reveal_end,
        "challenge_end": job.challenge_end,
        "clock_s": job.rules.clock,
        "now": snapshot.now,
        "verifiers": list(job.verifiers),
        "threshold": job.rules.threshold,
        "trainers": [trainer.owner for trainer in job.trainers],
        "claimed": claims,
        "matches": matches,
    }


_WALK = {
    "NONE": "there is no such match",
    "WALK": "both sides search for the first difference in a tree",
    "REFINE": "both sides commit to the disputed steps more finely",
    "OPEN": "both sides open their records of the disputed operator",
    "HEARING": "the panel judges the disputed operator",
}
_HEARING = {
    "VOTING": "verifiers judge its operator",
    "RULED": "a verdict about its operator stands, unless somebody appeals",
    "TRIAL": "the court judges its operator",
    "DEFENCE": "the verdict about its operator is overruled, and its signers may stand by it",
    "STAND": "a signer stands by the verdict before the court",
}


def standing(match: MatchInfo, hearing: HearingInfo | None) -> str:
    """Say where a match stands: what it waits for, or who lost, and why; and whether its hearing continues."""
    from referee_py.game.state import Phase
    from referee_py.walk.sides import sides

    from ..client.dispute_words import CASES

    phase = match.state.phase
    heard = _HEARING.get(hearing.state.phase.name) if hearing is not None else None
    if phase is not Phase.DONE:
        return heard or _WALK[phase.name]
    case, what = CASES[match.state.reason]
    losers = " and ".join(map(side_of, sides(match.state.losers))) or "nobody"
    words = f"decided, {case}: {losers} lost, since {what}"
    return words if heard is None else f"{words}; its hearing continues: {heard}"


def _judges(job: JobView) -> str:
    """Describe who judges the operator that a match comes down to."""
    rules = job.rules
    if not rules.has_verifiers:
        return "the court judges them"
    verifiers = f"{rules.threshold} of {len(job.verifiers)}: {', '.join(map(short, job.verifiers))}"
    return (
        f"verifiers judge them in {rules.verdict_period} s, {verifiers}; "
        f"the court on appeal within {rules.appeal_period} s, and without a verdict"
    )


def _bounty(pool: PoolInfo) -> str:
    """Describe the bounty for watchers."""
    if not pool.amount:
        return "none"
    text = f"{show_ether(pool.amount)} for {pool.shares} watchers, {pool.watchers} have committed"
    return f"{text}; {show_ether(pool.share)} each" if pool.ended else text
