"""A pledge as commands show it, and what it lacks for a receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer_node.cli.common import moment, show_ether, show_rows

if TYPE_CHECKING:
    from .pledges import Conditions, Pledge, Pledges
    from .receipt import Signed


LEAST_S = 3600
"""Seconds that must be left for a challenge where nobody has found the receipt wrong yet: an answer is computed again
before that, and a commitment gets old."""


def lacks(
    pledges: Pledges,
    signed: Signed,
    conditions: Conditions,
    kept: Pledge,
    now: int,
    least: int,
    takes_s: int | None = None,
) -> list[str]:
    """Return why a receipt could not be challenged, and be paid for. ``least``: wei that must be pledged and free;
    ``takes_s``: seconds until a challenge can be there that is made now; without it the receipt must be open to
    challenges until its last second, `LEAST_S` from now at least. What its job may lack: `pledge_job`."""
    assert signed.backed is not None
    backed, found = signed.backed, []
    if conditions.signer != signed.receipt.server:
        found.append(
            f"the pledge is behind the receipts of {conditions.signer}, this is {signed.receipt.server}'s"
        )
    if backed.until < now:
        found.append(f"it could be challenged until {moment(backed.until)}")
    elif backed.until < now + (LEAST_S if takes_s is None else takes_s):
        found.append(f"it can be challenged until {moment(backed.until)}, which may be too soon")
    elif takes_s is not None and 0 < kept.leaves_at < now + takes_s:
        found.append(f"the pledge leaves at {moment(kept.leaves_at)}, which may be too soon")
    elif takes_s is None and (backed.until >= now + conditions.notice or 0 < kept.leaves_at <= backed.until):
        found.append("the pledge may leave before the receipt's last second")
    if pledges.is_wrong(backed.digest):
        found.append("it was shown wrong already, and is paid for once")
    if 2 * conditions.charge > conditions.forfeit:
        found.append("a challenge costs more than it brings")
    if kept.left(conditions) < least:
        free = f"{show_ether(kept.left(conditions))} are free, less than {show_ether(least)}"
        found.append(f"{free}, beside {kept.opened - kept.decided} open challenges; --least takes less")
    if (why := pledges.refuses(conditions)) is not None:
        found.append(f"no challenge could post its job: {why}")
    return found


def show_pledge(conditions: Conditions, kept: Pledge) -> None:
    """Print a pledge and its conditions."""
    rules = conditions.rules
    show_rows(
        "pledge",
        {
            "signer": conditions.signer,
            "pledged": show_ether(kept.amount),
            "free": show_ether(kept.left(conditions)),
            "forfeit": show_ether(conditions.forfeit),
            "charge": show_ether(conditions.charge),
            "notice": f"{conditions.notice} s"
            + (f", leaves {moment(kept.leaves_at)}" if kept.leaves_at else ""),
            "challenges": f"{kept.opened}, {kept.opened - kept.decided} open",
            "job": f"stake {show_ether(conditions.stake)}",
            "periods": f"train {conditions.train_period}, reveal {conditions.reveal_period}, "
            f"challenge {conditions.challenge_period}, clock {rules.clock}, verdict {rules.verdict_period}, "
            f"appeal {rules.appeal_period} s",
        },
    )
