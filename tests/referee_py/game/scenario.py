"""A job as a scenario, played move by move by the rules in Python."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from referee_py.commit import Tag, Tree
from referee_py.game.state import Phase
from referee_py.jobs import Rules, commitment
from referee_py.program.modes import REPOPS_F32
from referee_py.program.terms import Terms
from referee_py.walk.reason import Reason
from tests.model.chain_model import ChainModel
from tests.model.jobs import Claim, JobTerms

NO_ROOTS = bytes(32), bytes(32), bytes(32), bytes(32)

JOBS, REFEREE, CLIENT, PANEL = ("0x" + digit * 40 for digit in "1234")
RULES = Rules(1, 20, 30, 10)
STAKE, REWARD = 1000, 301


def who(number: int) -> str:
    return "0x" + number.to_bytes(20, "big").hex()


def run_tree(name: str) -> Tree:
    """Return the tree of a run: four checkpoints that follow from ``name``."""
    return Tree(Tag.RUN_TREE, [ord(name).to_bytes(32, "big")] * 4)


def claim(name: str) -> Claim:
    """Return the claim of a run, and the proof of its last checkpoint."""
    tree = run_tree(name)
    return Claim(tree.root, tree.leaves[3], tuple(tree.path(3)))


@dataclass
class Scenario:
    """A job from its post on. Tests set ``now``."""

    slots: int = 2
    now: int = 1000
    mode: int = REPOPS_F32.byte
    logs: bytes = bytes(32)
    model: ChainModel = field(default_factory=lambda: ChainModel(31337, JOBS, REFEREE, PANEL))
    staked: int = 0
    """Sum of the stakes that challengers have sent, in wei."""

    def __post_init__(self) -> None:
        program = Terms(1, self.mode, 8, 0, 0, 4, *NO_ROOTS, (1,))
        self.terms = JobTerms(program, self.slots, STAKE, 100, 50, 90, RULES, (who(99),))
        self.id = self.model.post(self.terms, CLIENT, REWARD, self.now)
        self.job = self.model.jobs[self.id]

    def trained(self, *names: str) -> Scenario:
        """Let trainers 1, 2, ... join, commit to those runs and reveal them."""
        salt = bytes(32)
        for k, _ in enumerate(names, 1):
            self.model.join(self.id, who(k), STAKE, self.now)
        for k, name in enumerate(names, 1):
            shown = claim(name)
            hashed = commitment(31337, JOBS, self.id, who(k), shown.root, shown.last, self.logs, salt)
            self.model.commit(self.id, hashed, who(k), self.now)
        for k, name in enumerate(names, 1):
            self.model.reveal(self.id, claim(name), self.logs, salt, who(k), 0, self.now)
        return self

    def meaning(self, number: int, shown: Claim) -> Scenario:
        """Commit to a challenge with that claim, and let a second pass."""
        where = (31337, JOBS, self.id, who(number))
        hashed = commitment(*where, shown.root, shown.last, bytes(32), bytes(32))
        self.model.commit_challenge(self.id, hashed, self.now)
        self.now += 1
        return self

    def challenged(self, number: int, name: str, value: int | None = None) -> Scenario:
        """Challenge with that run, at its price unless another value is given."""
        shown = claim(name)
        self.meaning(number, shown)
        value = self.model.price_of(self.id, shown.root) if value is None else value
        self.model.challenge(self.id, shown, bytes(32), who(number), value, self.now)
        self.staked += value
        return self

    def ended(
        self, match: int, losers: int, reason: Reason = Reason.STRUCTURE, deciders: tuple[str, ...] = ()
    ) -> Scenario:
        """End the match with these losers, without any moves."""
        ending = self.model.matches[match]
        ending.state = replace(ending.state, phase=Phase.DONE, losers=losers, reason=reason)
        self.model._resolve(ending, deciders, self.now)
        return self

    def finalized(self) -> Scenario:
        """Finalize the job at the first possible instant, and collect every claim."""
        self.now = max(self.now, self.job.challenge_end, self.job.reclaim_end)
        self.model.finalize(self.id, self.now)
        for number, one in enumerate(self.job.claims):
            if not one.lost:
                self.model.collect(self.id, number)
        return self

    def credits(self, *accounts: str) -> list[int]:
        return [self.model.credits.get(account, 0) for account in accounts]

    def conserved(self, ether_in: int) -> bool:
        return sum(self.model.credits.values()) + self.model.at_risk() + self.model.withdrawn == ether_in
