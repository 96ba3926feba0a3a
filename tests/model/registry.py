"""Bonds of verifiers: the contract `VerifierRegistry` in Python, without endpoints and lists."""

from __future__ import annotations

from dataclasses import dataclass

from referee_py.panel import refusals
from referee_py.panel.state import NO_ADDRESS
from referee_py.walk.refusals import require


@dataclass(slots=True)
class Verifier:
    """A registered verifier. ``bond`` is in wei; the bond can be withdrawn from ``leaves_at`` on, zero while active."""

    bond: int
    panel: str
    """Address of the panel to which the bond answers."""
    leaves_at: int = 0


class Registry:
    """INVARIANT: ether in = bonds + ether paid to verifiers + ether taken by panels."""

    def __init__(self, min_bond: int = 1, leave_delay: int = 1) -> None:
        self.min_bond, self.leave_delay = min_bond, leave_delay
        self.verifiers: dict[str, Verifier] = {}
        self.held: dict[tuple[str, str], int] = {}
        """Number of hearings that hold a bond, by verifier and panel."""

    def register(self, panel: str, sender: str, value: int) -> None:
        require(value >= self.min_bond, refusals.BondTooSmall, value, self.min_bond)
        require(sender not in self.verifiers, refusals.AlreadyRegistered, sender)
        self.verifiers[sender] = Verifier(value, panel)

    def unregister(self, sender: str, now: int) -> None:
        verifier = self._registered(sender)
        require(not verifier.leaves_at, refusals.AlreadyLeaving, sender, verifier.leaves_at)
        verifier.leaves_at = now + self.leave_delay

    def withdraw_bond(self, sender: str, now: int) -> int:
        """Remove the sender and return its bond, in wei. Raises NotRegistered, StillLocked or StillHeld."""
        verifier = self._registered(sender)
        unlocked = verifier.leaves_at and now >= verifier.leaves_at
        require(bool(unlocked), refusals.StillLocked, sender, verifier.leaves_at)
        held = self.held.get((sender, verifier.panel), 0)
        require(not held, refusals.StillHeld, sender, held)
        del self.verifiers[sender]
        return verifier.bond

    def answers(self, verifier: str, panel: str) -> bool:
        """Return whether the verifier has a bond that answers to the panel."""
        found = self.verifiers.get(verifier)
        return found is not None and found.panel == panel

    def hold(self, verifier: str, panel: str) -> None:
        found = self.verifiers.get(verifier)
        answers = found.panel if found else NO_ADDRESS
        require(answers == panel, refusals.NotPanel, panel, answers)
        self.held[verifier, panel] = self.held.get((verifier, panel), 0) + 1

    def release(self, verifier: str, panel: str) -> None:
        self.held[verifier, panel] -= 1
        assert self.held[verifier, panel] >= 0  # INVARIANT: a panel releases each hold once.

    def take(self, verifier: str, panel: str) -> tuple[int, bool]:
        """Take a bond. Return it, in wei, and whether no second hearing holds it.

        NOTE: another hearing may have taken the bond before. Then this returns zero, and refuses nothing.
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
