"""The part of the chain that counts, by the settings, and a look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .block import Block

Finality = Literal["confirmations", "safe", "finalized"]
FINALITY_S = {"confirmations": 0, "safe": 768, "finalized": 1152}
"""Age, in seconds, at which a block of Ethereum has this tag at the latest: 64 and 96 slots. Rollups follow it."""


@dataclass(frozen=True, slots=True)
class Look:
    """A look at the chain. ``head``: its newest block; ``doubt``: why nothing may be staked on it, if so."""

    block: Block
    head: Block
    doubt: str | None


@dataclass(frozen=True, slots=True)
class ChainRule:
    """Expectations of a chain, when it is checked. ``local``: a development chain, whose time may have been put
    forward; ``block_s``: seconds from block to block; ``finality``: the tag that a block must have before it counts."""

    local: bool = False
    block_s: float = 12.0
    finality: Finality = "confirmations"


@dataclass(frozen=True, slots=True)
class ViewRule:
    """``depth``: blocks on top of one that counts; ``finality``: or the tag that it must have; ``agree``: number of
    endpoints; ``max_head_age_s``: zero does not look at the age."""

    depth: int = 0
    finality: Finality = "confirmations"
    agree: int = 1
    max_head_age_s: float = 0.0
