"""The operator's choice of jobs, and the limits that the settings put on one: reasons to leave a job to others."""

from __future__ import annotations

from ..chain import JobView
from ..reason import Reason
from ..settings.sections import Policy


class Unwanted(Reason):
    text = "its {what} is {value}; policy.{setting} allows {allowed}"
    what: str
    value: str
    setting: str
    allowed: str


def unwanted(job: JobView, policy: Policy) -> Unwanted | None:
    """Return why the operator wants nothing to do with a job, or None: its client or program is not on a list."""
    clients = {address.lower() for address in policy.clients}
    if clients and job.client.lower() not in clients:
        return Unwanted("client", job.client, "clients", ", ".join(policy.clients))
    program = job.program.hash().hex()
    if policy.programs and program not in policy.programs:
        return Unwanted("program hash", program, "programs", ", ".join(policy.programs))
    return None


class Underpaid(Reason):
    text = (
        "a slot's share of its reward is {share} wei ({reward} wei for {slots} slots); "
        "policy.min_reward_eth asks for {least}"
    )
    share: int
    reward: int
    slots: int
    least: int


def underpaid(job: JobView, policy: Policy) -> Underpaid | None:
    """Return why a trainer should not take a slot, or None: the slot's share of the reward is too small."""
    share, least = job.reward // job.slots, policy.min_reward
    return Underpaid(share, job.reward, job.slots, least) if share < least else None


class Crowded(Reason):
    text = "{others} jobs hold stakes or reserves of ours; policy.max_open_jobs allows {most}"
    others: int
    most: int


def crowded(job: JobView, at_stake: set[int], policy: Policy) -> Crowded | None:
    """Return why not to stake on one more job, or None. ``at_stake``: jobs that may still take ether from us."""
    others, most = len(at_stake - {job.id}), policy.max_open_jobs
    return Crowded(others, most) if most and others >= most else None


class TooDear(Reason):
    text = "its stake is {stake} wei, {setting} allows {most}"
    stake: int
    most: int
    setting: str


def too_dear(stake: int, most: int, setting: str = "max_stake_eth") -> TooDear | None:
    """Return why not to stake on a job, or None: its stake exceeds the limit, if there is one. In wei."""
    return TooDear(stake, most, setting) if most and stake > most else None


class TooLong(Reason):
    text = "its {name} has {seconds} s, limits.max_period_s allows {most}; raise the limit to take the job anyway"
    name: str
    seconds: int
    most: int


def too_long(job: JobView, max_period_s: int) -> TooLong | None:
    """Return why not to stake on a job or sign in it, or None: its periods may hold the stake or bond for too long."""
    periods = {
        "training period": job.train_period,
        "watch period": job.watch_period,
        "reveal period": job.reveal_period,
        "challenge period": job.challenge_period,
        "verdict period": job.rules.verdict_period,
        "appeal period": job.rules.appeal_period,
        "clock": job.rules.clock,
    }
    name = max(periods, key=lambda name: periods[name])
    return TooLong(name, periods[name], max_period_s) if periods[name] > max_period_s else None


class TooUncertain(Reason):
    text = (
        "it has probable bounds: a party that chooses the data can make an honest result wrong; "
        "set allow_probable_bounds to take the job anyway"
    )


def too_uncertain(job: JobView, allowed: bool) -> TooUncertain | None:
    """Return why to leave a job to others, or None: with probable bounds, every honest result may be wrong."""
    return None if allowed or not job.program.arithmetic.honest_may_lose else TooUncertain()


class TooMuch(Reason):
    text = (
        "what a part needs is not served, or takes more than its budget, and the whole of it takes {hours:.3g} hours "
        "of processors; max_check_cpu_h allows {most:g}"
    )
    hours: float
    most: float


def too_much(hours: float, most: float) -> TooMuch | None:
    """Return why a sampler does not compute the whole run of a job that is withheld, or None: it takes more hours of
    processors than the limit, if there is one."""
    return TooMuch(hours, most) if most and hours > most else None
