"""Choice of the block that has the tag of the settings (`finality`), by what several endpoints show.

    decided    the median of what is shown, if `agree` endpoints and most of them are near it: so it stands between two
               that right endpoints show. Who is far from it decides nothing
    torn       else, if some are far from it: nobody can tell which is right, and each one's own counts while it serves

SAFETY: an endpoint alone could say that the newest block is final, and take back the protection from reorganisations;
or that a very old one is, so that clocks are missed or nothing is ever staked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .block import Block
from .counted_blocks import FINALITY_S, ViewRule
from .endpoint import Endpoint
from .majority import low

NEAR_BLOCKS, NEAR_S = 3, 10
"""Heads of endpoints that see the same chain are at most this far apart: so many blocks or so many seconds."""
EPOCH_BLOCKS, EPOCH_S = 32, 384
"""Blocks get their tags by epochs, and some endpoints a moment later: their tags are so much further apart."""
STALLED = 2
"""The chain is called stalled if a tag's block is so many times as old as it should be."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """``own``: the block that each endpoint shows; ``number``: that of the block that counts, None if the chain does
    not finalize, so that confirmations do; ``doubt``: why nothing may be staked on it; ``odd``: who decides nothing,
    and why; ``torn``: if nobody can tell which block it is, the number that counts while an endpoint serves."""

    own: Mapping[Endpoint, Block]
    number: int | None
    doubt: str | None = None
    odd: Mapping[Endpoint, str] = field(default_factory=dict)
    torn: Mapping[Endpoint, int | None] = field(default_factory=dict)

    def number_of(self, lead: Endpoint) -> int | None:
        """Return the number of the block that counts while this endpoint serves; None if confirmations do."""
        return self.torn.get(lead, self.number)


def tagged(policy: ViewRule, own: Mapping[Endpoint, Block], heads: Mapping[Endpoint, Block]) -> Tagged:
    """Return what counts of what endpoints show with the tag of the settings, at least one. ``heads``: the newest
    blocks, of those that show no tag, too."""
    name, number = policy.finality, low(block.number for block in own.values())
    middle = next(block for block in own.values() if block.number == number)
    far = {endpoint: block for endpoint, block in own.items() if not near_tags(middle, block)}
    same = len(own) - len(far)
    ages = {endpoint: heads[endpoint].timestamp - block.timestamp for endpoint, block in own.items()}
    old = [endpoint for endpoint, age in ages.items() if age > STALLED * FINALITY_S[name]]
    if 2 * len(old) > len(own):
        told = f"the last {name} block, {number}, is {low(ages.values())} s older than the newest"
        return Tagged(own, None, told)
    if same >= policy.agree and same > len(far):
        odd = {
            e: f"its last {name} block is {block.number}, the others' {number}" for e, block in far.items()
        }
        odd |= dict.fromkeys(heads.keys() - own.keys(), f"it shows no {name} block")
        return Tagged(own, number, None, odd)
    if not far:
        told = f"{same} of {len(heads)} endpoints show the last {name} block; agree = {policy.agree}"
        return Tagged(own, number, told)
    shown = ", ".join(f"{block.number} by {endpoint.name}" for endpoint, block in own.items())
    turns = {endpoint: None if endpoint in old else block.number for endpoint, block in own.items()}
    return Tagged(own, number, f"endpoints disagree about the last {name} block: {shown}", torn=turns)


def near(head: Block, other: Block) -> bool:
    """Return whether two newest blocks may belong to endpoints that see the same chain."""
    return abs(other.number - head.number) <= NEAR_BLOCKS or abs(other.timestamp - head.timestamp) <= NEAR_S


def near_tags(tagged: Block, other: Block) -> bool:
    """Return whether two blocks with the same tag may belong to endpoints that see the same chain."""
    blocks, seconds = abs(other.number - tagged.number), abs(other.timestamp - tagged.timestamp)
    return blocks <= NEAR_BLOCKS + EPOCH_BLOCKS or seconds <= NEAR_S + EPOCH_S
