"""Costs of a data request (docs/protocol.md, section 8)."""

from __future__ import annotations

from ..params import ANSWER_GAS, BLOCKS_RESPONSE_BYTES, BYTE_GAS, PRICE_UNIT, RESPONSE_BYTES, STEP
from .state import Piece


def rank_of(opened: int, others: int) -> int:
    """Return the number of doublings of a deposit, for ``opened`` pieces and ``others`` other checkpoints open."""
    return others + opened // STEP


def request_price(fee: int) -> int:
    """Return a request's price of a unit of gas, in wei: the job's gas price ``fee``, rounded up to `PRICE_UNIT`."""
    return -(-fee // PRICE_UNIT) * PRICE_UNIT


def deposit_of(piece: Piece, price: int) -> int:
    """Return the deposit of a first request of this piece, in wei; ``price`` is in wei for a unit of gas."""
    return price * (
        ANSWER_GAS + BYTE_GAS * (BLOCKS_RESPONSE_BYTES if piece is Piece.BLOCKS else RESPONSE_BYTES)
    )
