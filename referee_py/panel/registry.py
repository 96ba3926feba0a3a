"""Bonds of verifiers: the contract `VerifierRegistry` in Python, without endpoints and lists."""

from __future__ import annotations

from dataclasses import dataclass

from . import refusals
from .refusals import require
from .state import NO_ADDRESS


@dataclass(slots=True)
class Verifier:
    """A registered verifier. ``leaves_at`` is zero while it is active."""

    bond: int
    panel: str
    """The contract that the bond answers to."""
    leaves_at: int = 0


class Registry:
    """INVARIANT: ether in = bonds + ether paid to verifiers + ether taken by panels."""

    def __init__(self, min_bond: int = 1, leave_delay: int = 1) -> None:
        self.min_bond, self.leave_delay = min_bond, leave_delay
        self.verifiers: dict[str, Verifier] = {}
        self.held: dict[tuple[str, str], int] = {}
        """By verifier and panel: the hearings that hold the bond."""

    def register(self, panel: str, sender: str, value: int) -> None:
        require(value >= self.min_bond, refusals.BondTooSmall, value, self.min_bond)
        require(sender not in self.verifiers, refusals.AlreadyRegistered, sender)
        self.verifiers[sender] = Verifier(value, panel)

    def unregister(self, sender: str, now: int) -> None:
        verifier = self._registered(sender)
        require(not verifier.leaves_at, refusals.AlreadyLeaving, sender, verifier.leaves_at)
        verifier.leaves_at = now + self.leave_delay

    def withdraw_bond(self, sender: str, now: int) -> int:
        """The amount that is sent."""
        verifier = self._registered(sender)
        unlocked = verifier.leaves_at and now >= verifier.leaves_at
        require(bool(unlocked), refusals.StillLocked, sender, verifier.leaves_at)
        held = self.held.get((sender, verifier.panel), 0)
        require(not held, refusals.StillHeld, sender, held)
        del self.verifiers[sender]
        return verifier.bond

    def answers(self, verifier: str, panel: str) -> bool:
        """Whether there is a bond that answers to the panel."""
        found = self.verifiers.get(verifier)
        return found is not None and found.panel == panel

    def hold(self, verifier: str, panel: str) -> None:
        found = self.verifiers.get(verifier)
        answers = found.panel if found else NO_ADDRESS
        require(answers == panel, refusals.NotPanel, panel, answers)
        self.held[verifier, panel] = self.held.get((verifier, panel), 0) + 1

    def release(self, verifier: str, panel: str) -> None:
        self.held[verifier, panel] -= 1
        assert self.held[verifier, panel] >= 0  # INVARIANT: a panel lets go of what it holds, once.

    def take(self, verifier: str, panel: str) -> tuple[int, bool]:
        """The bond, and whether no second hearing holds it.

        NOTE: another hearing may have been first; then there is nothing left, and nothing to refuse.
        """
        found = self.verifiers.get(verifier)
        if found is None or found.panel != panel:
            return 0, True
        del self.verifiers[verifier]
        return found.bond, self.held.get((verifier, panel), 0) <= 1

    def _registered(self, sender: str) -> Verifier:
        verifier = self.verifiers.get(sender)
        if verifier is None:
            raise refusals.NotRegistered(f"{sender} has no bond")
        return verifier
