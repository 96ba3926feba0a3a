"""Strategies of liars to delay the end of a job: every known attack, random ones, and all of a small game."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from referee_py.jobs import JobPhase
from tests.model.jobs import Match

from .siege import LONGEST, TRUTH, Ending, Siege, Strategy, run

LIE = 100
"""The first root that belongs to the liars."""


class AtOnce(Strategy):
    """All claim in the last second of the challenge phase."""

    def claims(self, siege: Siege) -> list[int]:
        return list(range(LIE, LIE + self.liars)) if siege.now == siege.job.challenge_end - 1 else []


class OneByOne(Strategy):
    """Each claims a new root when the root before has lost; later, when no new root is admitted, the root that lost."""

    def __init__(self, liars: int) -> None:
        super().__init__(liars)
        self._made = 0

    def claims(self, siege: Siege) -> list[int]:
        if self._made == self.liars or any(
            not g.dead and g.root != run(TRUTH).root for g in siege.job.groups
        ):
            return []
        number = LIE + self._made if siege.job.phase(siege.now) is JobPhase.CHALLENGE else self._dead(siege)
        self._made += 1
        return [number]

    def _dead(self, siege: Siege) -> int:
        group = max((g for g in siege.job.groups if g.root != run(TRUTH).root), key=lambda g: g.until)
        return siege.roots[group.root]

    def wait(self, siege: Siege) -> int | None:
        before = siege.job.challenge_end - 1, siege.job.reclaim_end - 1
        return min((instant for instant in before if instant > siege.now), default=None)


class GiveAway(Strategy):
    """Trainers have the right root, lose it to their own lie, and claim it again in the same second, `again` times.
    Two claims always live for it, so that no honest challenger claims it beside them."""

    def __init__(self, again: int, trainers: int = 1) -> None:
        super().__init__(1, (TRUTH,) * trainers)
        self._again = again

    def claims(self, siege: Siege) -> list[int]:
        found = super().claims(siege)
        group = siege.job.group_of(run(TRUTH).root)
        living = 2 if group is None else len(group.members) - group.spokesman
        wanted = min(self._again, 2 - living) if group is not None and group.spokesman else 0
        self._again -= wanted
        return found + [TRUTH] * wanted

    def ending(self, siege: Siege, match: Match) -> Ending:
        roots = [siege.roots[root] for root in match.terms.roots]
        return Ending(LONGEST, 1 << roots.index(TRUTH) if TRUTH in roots else 1)


class GiveAwayForALie(Strategy):
    """The one trainer has the right root. In the last second of the challenge phase a lie comes, with so many claims
    behind it; then the right root is given away to it, before anybody else has claimed it."""

    def __init__(self, behind: int) -> None:
        super().__init__(1 + behind, (TRUTH,))

    def claims(self, siege: Siege) -> list[int]:
        return [LIE] * self.liars if siege.now == siege.job.challenge_end - 1 else []

    def ending(self, siege: Siege, match: Match) -> Ending:
        roots = [siege.roots[root] for root in match.terms.roots]
        return Ending(losers=1 << roots.index(TRUTH) if TRUTH in roots else 1)


class InHalves(Strategy):
    """Each of the liars' roots has `lives` claims. Half of the roots lose all of theirs to the other half, which keeps
    its own for later; then a half of those, and so on."""

    def __init__(self, liars: int, lives: int) -> None:
        super().__init__(liars, (LIE,))
        self._lives = lives

    def claims(self, siege: Siege) -> list[int]:
        if siege.now != siege.job.challenge_end - 1:
            return []
        roots = range(LIE, LIE + self.liars)
        return [*roots[1:], *[root for _ in range(1, self._lives) for root in roots]]

    def ending(self, siege: Siege, match: Match) -> Ending:
        roots = [siege.roots[root] for root in match.terms.roots]
        return Ending(losers=1 << roots.index(max(roots)))


class Behind(Strategy):
    """`liars` claim one lie, and speak for it one after the other."""

    def claims(self, siege: Siege) -> list[int]:
        if siege.job.founded or siege.job.phase(siege.now) is not JobPhase.CHALLENGE:
            return []
        return [LIE] * self.liars


class Refuting(Strategy):
    """The right root is refuted `times` times, each time in the last second in which that is possible; with ``at_once``
    all in the challenge phase."""

    def __init__(self, times: int, *, at_once: bool = False) -> None:
        super().__init__(0, (TRUTH,))
        self._left, self._at_once = times, at_once

    def claims(self, _: Siege) -> list[int]:
        return []

    def refutes(self, siege: Siege) -> list[int]:
        group, job = siege.job.group_of(run(TRUTH).root), siege.job
        assert group is not None
        last = job.challenge_end - 1 if group.refutable_until == 0 else group.refutable_until - 1
        count = self._left if self._at_once else min(1, self._left)
        if siege.now != last or group.match_id:
            return []
        self._left -= count
        return [TRUTH] * count

    def ending(self, _: Siege, __: Match) -> Ending:
        return Ending(LONGEST, 2)

    def wait(self, siege: Siege) -> int | None:
        return _last_seconds(siege)


def _last_seconds(siege: Siege) -> int | None:
    """Return the next instant that is the last one for something."""
    ends = siege.job.challenge_end, siege.job.reclaim_end, *(g.refutable_until for g in siege.job.groups)
    return min((end - 1 for end in ends if end - 1 > siege.now), default=None)


class AtRandom(Strategy):
    """Any claim at any time. ``liars``: number of claims of new roots."""

    def __init__(self, liars: int, seed: object) -> None:
        self._random = Random(repr(seed))
        slots = self._random.choice([0, 1, 1, 2, 4, 16])
        super().__init__(
            liars, tuple(self._random.choice([TRUTH, LIE, LIE + 1]) for _ in range(slots)) or (TRUTH,)
        )
        self._left = liars
        self._again = self._random.randint(0, 12)
        self._refutations = self._random.choice([0, 0, 2, 8])
        self._eager = self._random.random()

    def claims(self, siege: Siege) -> list[int]:
        rng, found = self._random, []
        last = siege.now == siege.job.challenge_end - 1
        while (
            self._left and siege.job.phase(siege.now) is JobPhase.CHALLENGE and (last or rng.random() < 0.5)
        ):
            found.append(LIE + self._left)
            self._left -= 1
        known = [siege.roots[group.root] for group in siege.job.groups if group.refutes is None]
        while self._again and known and rng.random() < self._eager:
            found.append(rng.choice(known))
            self._again -= 1
        return found

    def refutes(self, siege: Siege) -> list[int]:
        known = [siege.roots[group.root] for group in siege.job.groups if group.refutes is None]
        found = []
        while self._refutations and known and self._random.random() < self._eager:
            found.append(self._random.choice(known))
            self._refutations -= 1
        return found

    def ending(self, _: Siege, __: Match) -> Ending:
        return Ending(self._random.choice([1, LONGEST, LONGEST]), self._random.choice([1, 2, 3]))

    def wait(self, siege: Siege) -> int | None:
        return _last_seconds(siege)


class Choices:
    """Every sequence of choices, one play after the other: the next changes the last choice that can be changed."""

    def __init__(self) -> None:
        self._path: list[tuple[int, int]] = []
        self._at = 0

    def pick(self, options: Sequence[object]) -> int:
        if self._at == len(self._path):
            self._path.append((0, len(options)))
        self._at += 1
        return self._path[self._at - 1][0]

    def plays(self) -> Iterator[Choices]:
        while True:
            self._at = 0
            yield self
            while self._path and self._path[-1][0] + 1 == self._path[-1][1]:
                self._path.pop()
            if not self._path:
                return
            taken, of = self._path[-1]
            self._path[-1] = (taken + 1, of)


class Every(Strategy):
    """Follows the choices: at each event a claim or none and a refutation or none, for each match its seconds and its
    losers."""

    def __init__(
        self, choices: Choices, trainers: tuple[int, ...], claims: int, refutations: int = 0
    ) -> None:
        super().__init__(claims, trainers)
        self._choices = choices
        self._left, self._refutations = claims, refutations

    def claims(self, siege: Siege) -> list[int]:
        if not self._left:
            return []
        menu: list[int | None] = [
            None,
            *(number for number in (TRUTH, LIE, LIE + 1) if siege.claimable(number)),
        ]
        chosen = menu[self._choices.pick(menu)]
        if chosen is None:
            return []
        self._left -= 1
        return [chosen]

    def refutes(self, siege: Siege) -> list[int]:
        if not self._refutations:
            return []
        menu = [None, *(number for number in (TRUTH, LIE, LIE + 1) if siege.refutable(number))]
        chosen = menu[self._choices.pick(menu)]
        if chosen is None:
            return []
        self._refutations -= 1
        return [chosen]

    def ending(self, siege: Siege, match: Match) -> Ending:
        losers = (1, 2, 3) if siege.honest.isdisjoint(match.terms.players) else (0,)
        seconds = (1, LONGEST)
        return Ending(seconds[self._choices.pick(seconds)], losers[self._choices.pick(losers)])

    def wait(self, siege: Siege) -> int | None:
        return _last_seconds(siege)
