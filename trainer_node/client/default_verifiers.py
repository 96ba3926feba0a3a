"""The verifiers of a job whose client names none: registered ones that the contract takes.

SAFETY: anybody can register for a bond that comes back. So more than a job may have, or one whose bond is too small for
the price of gas, must not keep clients from posting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from referee_py.jobs import fee_at

from ..chain.fees import in_ether

MOST = 32
"""Verifiers that a job may have (`MAX_VERIFIERS` in contracts/Notary.sol)."""


class Chosen(NamedTuple):
    """Addresses, and why others that are registered are not among them; empty if all are."""

    addresses: list[str]
    left_out: str


def chosen(
    registered: Sequence[tuple[str, int, str]], stake_gas: int, base_fee: int, low_fee: int, high_fee: int
) -> Chosen:
    """Choose those with the largest bonds among the ``registered`` (address, bond in wei, URI), in their order. A bond
    is worth ``stake_gas`` units of gas at the job's price. NOTE: none is asked for in reserve, or one large bond would
    put out all others."""
    need = stake_gas * fee_at(base_fee, low_fee, high_fee)
    able = [one for one in registered if one[1] >= need]
    largest = sorted(able, key=lambda one: -one[1])[:MOST]
    addresses = [one[0] for one in able if one in largest]
    reasons = []
    if small := len(registered) - len(able):
        reasons.append(f"{small} with bonds below {in_ether(need)}")
    if many := len(able) - len(addresses):
        reasons.append(f"{many} beyond the {MOST} with the largest bonds, which a job may have at most")
    return Chosen(addresses, ", and ".join(reasons))
