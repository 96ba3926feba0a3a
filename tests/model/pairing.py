"""Claims form groups by root; groups play matches until one is left: `contracts/jobs/Pairing.sol` in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from referee_py.game import rules
from referee_py.game.state import MatchTerms
from referee_py.params import BURNED, PRIZE_DIVISOR, VERDICT_DIVISOR
from referee_py.walk.sides import sides

from .jobs import TRAINERS_GROUP, Claim, Group, Job, Match, StakedClaim
from .market import Market


class Pairing(Market):
    """Groups, their matches, and the stakes that matches decide."""

    def __init__(self, stake_gas: int) -> None:
        super().__init__(stake_gas)
        self.matches: dict[int, Match] = {}

    # --- groups ---------------------------------------------------------------------------------------------------

    def _claim(self, job_id: int, claim: Claim, sender: str, stake: int, *, slot: bool, now: int) -> None:
        """Add a claim as the last member of its root's group, or found the group. A group that had no living member
        enters."""
        job = self.jobs[job_id]
        group = job.group_of(claim.root)
        if group is None:
            group = Group(claim.root, claim.last)
            job.groups.append(group)
        number = job.groups.index(group)
        dead = group.dead
        group.members.append(len(job.claims))
        job.claims.append(StakedClaim(sender, stake, number, slot))
        if dead:
            # SAFETY: data can be requested even of a root that is claimed in the last second.
            if (not slot or len(group.members) > 1) and job.finder is None:
                self._delay(job, group, now)
            self._enter(job_id, number, now)

    def _enter(self, job_id: int, number: int, now: int) -> None:
        """Pair a group with its first refutation; without one, with the group that waits; without that one, it waits.
        No effect if logs are withheld."""
        job = self.jobs[job_id]
        group = job.groups[number]
        if job.finder is not None:
            return
        if group.next < len(group.queue):
            group.next += 1
            self._pair(job_id, (number, group.queue[group.next - 1]), now)
            return
        if job.waiting is None:
            job.waiting = number
            return
        other, job.waiting = job.waiting, None
        self._pair(job_id, (other, number), now)

    def _pair(self, job_id: int, pair: tuple[int, int], now: int) -> None:
        """Open a match between two groups."""
        job = self.jobs[job_id]
        job.open_matches += 1
        match_id = len(self.matches) + 1
        terms = MatchTerms(
            program=job.terms.program,
            clock=job.terms.rules.clock,
            players=(job.spokesman(pair[0]).owner, job.spokesman(pair[1]).owner),
            match_id=match_id,
            logs=job.logs,
            roots=(job.groups[pair[0]].root, job.groups[pair[1]].root),
            number=match_id,
        )
        self.matches[match_id] = Match(job_id, terms, rules.opened(terms, now), pair)
        for number in pair:
            job.groups[number].match_id = match_id

    def rename(self, old: int, new: int, number: int) -> None:
        """Give a match the id and the number that a chain gave it, before its hearing, whose id follows from them."""
        match = self.matches.pop(old)
        match.terms = replace(match.terms, match_id=new, number=number)
        self.matches[new] = match
        for number in match.groups:
            self.jobs[match.job_id].groups[number].match_id = new

    def _resolve(self, match: Match, deciders: Sequence[str], now: int) -> None:
        job = self.jobs[match.job_id]
        job.open_matches -= 1
        for number in match.groups:
            job.groups[number].match_id = 0
        self._distribute(job, match, deciders)
        if job.groups[match.groups[1]].refutes is not None:
            self._end_refutation(match.job_id, *match.groups, now)
            return
        for number in match.groups:
            self.reenter(match.job_id, number, now)

    def _end_refutation(self, job_id: int, refuted: int, refutation: int, now: int) -> None:
        """Let a refutation that has won play the group's next spokesman. One that has lost has proved nothing, so the
        root can be refuted for a challenge period. Where no group is left, there is a new challenge period, once: all
        claims may have been wrong, and the refuter need not know a right one."""
        job, group = self.jobs[job_id], self.jobs[job_id].groups[refuted]
        if not job.groups[refutation].dead:
            group.next -= 1
        elif job.finder is None:
            group.refutable_until = self._wait(job, now)
        self.reenter(job_id, refuted, now)
        end = now + job.terms.challenge_period
        none_left = job.waiting is None and not job.open_matches and job.finder is None
        if none_left and not job.reopened and end > job.challenge_end:
            job.reopened = job.challenge_end = end

    def reenter(self, job_id: int, number: int, now: int) -> None:
        """Let a living group enter again, or begin the reclaim period of a dead one. Neither if logs are withheld."""
        job = self.jobs[job_id]
        group = job.groups[number]
        if job.finder is not None:
            if number == TRAINERS_GROUP:
                self.condemn(job)
            return
        if not group.dead:
            self._enter(job_id, number, now)
            return
        # SAFETY: a bad spokesman can give a right root away, so anybody may claim the root again.
        self._delay(job, group, now)

    def _delay(self, job: Job, group: Group, now: int) -> None:
        """Begin a challenge period in which a lost root can be claimed again, or data of a new one requested."""
        group.until = self._wait(job, now)

    def _wait(self, job: Job, now: int) -> int:
        """Let the job last for a challenge period more at least, and return the end of that."""
        job.reclaim_end = now + job.terms.challenge_period
        return job.reclaim_end

    # --- money ----------------------------------------------------------------------------------------------------

    def _distribute(self, job: Job, match: Match, deciders: Sequence[str]) -> None:
        """Distribute the losers' stakes: half to a winner, out of which the deciding verifiers get a tenth.
        Without a winner they get a tenth of both. The rest is burned.

        SAFETY: the tenth comes out of the half. So losing to oneself costs half a stake, even with one's own verifiers.
        """
        losers = sides(match.state.losers)
        pot = sum(job.lose(match.groups[side]) for side in losers)
        shares = 0
        if deciders:
            share_down = pot // VERDICT_DIVISOR // len(deciders)
            for verifier in deciders:
                self.credit(verifier, share_down)
            shares = share_down * len(deciders)
        if len(losers) == 1:
            half = pot // PRIZE_DIVISOR
            self.credit(job.spokesman(match.groups[1 - losers[0]]).owner, half - shares)
            self.credit(BURNED, pot - half)
        else:
            self.credit(BURNED, pot - shares)

    def reward(self, finder: str, pot: int) -> None:
        """Distribute stakes lost without a match, in wei: half to the finder, the rest is burned."""
        prize = pot // PRIZE_DIVISOR
        self.credit(finder, prize)
        self.credit(BURNED, pot - prize)

    def condemn(self, job: Job) -> None:
        """Take the claim of a trainer that has withheld its logs, unless it is lost already."""
        if job.finder is not None and job.groups[TRAINERS_GROUP].spokesman == 0:
            self.reward(job.finder, job.lose(TRAINERS_GROUP))
