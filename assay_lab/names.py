"""Choices that the commands offer by name: faults, scenarios, and the folder of a demonstration's network."""

from __future__ import annotations

from enum import StrEnum

NETWORK = "network"
"""Folder of the chain's and the parties' files, below the demonstration's."""


class Fault(StrEnum):
    """Wrong that a party does."""

    NONE = "none"
    POISON_DATA = "poison-data"
    SKIP_STEPS = "skip-steps"
    WRONG_OP_OUTPUT = "wrong-op-output"
    WRONG_STRUCTURE = "wrong-structure"
    WRONG_INPUT = "wrong-input"
    STALE_WEIGHTS = "stale-weights"
    WITHHOLD = "withhold"
    FORGED_LOG = "forged-log"
    WRONG_LOG = "wrong-log"


class LocalChain(StrEnum):
    """The chain of a demonstration, on this machine."""

    ANVIL = "anvil"
    """Foundry's node, with the opcodes of Osaka."""
    PRAGUE = "anvil-prague"
    """The same as it was before Osaka, with the portable build of the contracts."""
    HARDHAT = "hardhat"
    """Hardhat's node, with the opcodes of Osaka; `make hardhat` installs it."""


class Scenario(StrEnum):
    """The constellation of parties."""

    TRAINERS = "trainers"
    """An honest and a lying trainer; a challenger who watches over both."""
    LONE_LIAR = "lone-liar"
    """A lying trainer alone, and a challenger."""
    CHALLENGER = "challenger"
    """An honest trainer, and a challenger that disputes the right result."""
    TWO_LIARS = "two-liars"
    """Two trainers that lie differently, and an honest one."""
    CROWD = "crowd"
    """An honest trainer, and seven that lie at once, each in another step; a challenger that watches."""
    SAMPLING = "sampling"
    """A lying trainer alone, and three challengers that each check a part of its run, drawn in secret."""
    LYING_VERIFIERS = "lying-verifiers"
    """An honest and a lying trainer; all verifiers sign the liar's record."""
    LYING_APPEAL = "lying-appeal"
    """An honest and a lying trainer; the liar appeals from the verdict against it."""
