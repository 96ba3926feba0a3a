"""Gas of a transaction under more than one schedule, from counts of what it leaves behind.

A deployment states the schedule that its prices count by: the least stake (`trainer_node/stake/min_stake.py`), and with
it bonds and reserves. The limits of a move hold under all of them (`program/playable.py`).

The tools that measure gas know the schedule of Osaka. Under another one the same transaction costs what was measured,
and for each thing that it leaves in the state, each byte and the transaction itself the difference of the two prices:

    gas under S = the larger of
        gas under Osaka + sum over the counts (count x (price under S - price under Osaka))
        the base of a transaction + bytes of calldata x floor

Computation costs the same under both (EIP-7904 is a study, not a change). NOTE: a cold account costs 400 more under
Amsterdam, a few of them in each transaction; they are not counted. A refund is taken in full.

Sources (ethereum/EIPs as of 2026-08-22): Osaka by EIP-2929, EIP-3529, EIP-3860 and EIP-7623. Amsterdam by EIP-8037
(new state: 1,530 a byte; a word counts for 64 bytes, an account for 120), EIP-8038 (writes), EIP-7976 (floor of
calldata) and EIP-2780 (base of a transaction). All four are scheduled for inclusion (EIP-7773) and in review, so none
is frozen; EIP-8037 says that values are not final.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from .errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of what a transaction leaves behind. ``new``, ``overwritten``, ``cleared``: words of storage that were
    zero and are not, that differ, that were not zero and are. ``accounts``, ``code``: contracts and bytes of code
    that it creates.
    ``calldata``: bytes. ``value``: 1 if it carries ether."""

    new: int = 0
    overwritten: int = 0
    cleared: int = 0
    accounts: int = 0
    code: int = 0
    calldata: int = 0
    value: int = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def most(self, other: Self) -> Self:
        """Return the larger of each count."""
        return type(self)(
            **{f.name: max(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        )

    @classmethod
    def of(cls, counted: Mapping[str, int]) -> Self:
        """Return the counts of a mapping with these names."""
        return cls(**{f.name: counted[f.name] for f in fields(cls)})


@dataclass(frozen=True, slots=True)
class Schedule:
    """Units of gas for each thing that is counted. A cleared word has its refund taken off. ``calldata_floor``: for
    each byte of a transaction that does little else."""

    name: str
    new: int
    overwritten: int
    cleared: int
    account: int
    code: int
    base: int
    base_with_value: int
    calldata_floor: int

    def of_counts(self, counts: Counts) -> int:
        """Return the gas of what is counted, with the base of one transaction, without its computation and calldata."""
        return (
            counts.new * self.new
            + counts.overwritten * self.overwritten
            + counts.cleared * self.cleared
            + counts.accounts * self.account
            + counts.code * self.code
            + self.base_of(counts)
        )

    def base_of(self, counts: Counts) -> int:
        """Return the gas of the transaction itself."""
        return self.base_with_value if counts.value else self.base

    def gas(self, measured: int, counts: Counts) -> int:
        """Return the gas of a transaction that was ``measured`` under Osaka."""
        moved = measured + self.of_counts(counts) - OSAKA.of_counts(counts)
        return max(moved, self.base_of(counts) + counts.calldata * self.calldata_floor)


OSAKA = Schedule(
    name="osaka",
    new=22_100,
    overwritten=5_000,
    cleared=5_000 - 4_800,
    account=32_000,
    code=200,
    base=21_000,
    base_with_value=21_000,
    # NOTE: a part of what was measured.
    calldata_floor=0,
)
AMSTERDAM = Schedule(
    name="amsterdam",
    new=110_020,
    overwritten=12_100,
    cleared=12_100 - 11_616,
    account=183_600 + 12_000,
    code=1_530,
    base=15_000,
    base_with_value=21_000,
    calldata_floor=64,
)
SCHEDULES = (OSAKA, AMSTERDAM)
LIKE = 1.2
"""Factor within which a measured price of a new word is that of a schedule. NOTE: an endpoint's estimates may be some
percent too high; the schedules differ by a factor of five."""


def schedule_named(name: str) -> Schedule:
    """Return a schedule by its name. Raises InvalidInput with the names that there are."""
    for schedule in SCHEDULES:
        if schedule.name == name:
            return schedule
    raise InvalidInput(f"there is no gas schedule {name!r}; there are {', '.join(s.name for s in SCHEDULES)}")


def schedule_like(new: float) -> Schedule | None:
    """Return the schedule under which a new word of storage costs about this much gas; None if there is none."""
    return next((one for one in SCHEDULES if one.new / LIKE <= new <= one.new * LIKE), None)


def dearest(measured: int, counts: Counts) -> int:
    """Return the most gas, under any schedule, of a transaction that was ``measured`` under Osaka."""
    return max(schedule.gas(measured, counts) for schedule in SCHEDULES)
