"""Names in events of jobs: hashes, ids of matches, accounts, transactions. The index keeps them for the search.

SAFETY: only of events that cost their author a stake, a reward or a bond. So nobody buries others' events under his own
for gas alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainer_node.chain.events import Event

WORDS = {
    "Posted": "the job is posted",
    "Joined": "takes a slot",
    "Claimed": "claims a root",
    "Refuted": "a root is refuted",
    "LogsRevealed": "rounding logs are revealed",
    "Paired": "a dispute begins",
    "Resolved": "a dispute is decided",
    "Accepted": "a root is accepted",
    "Attested": "signs a record",
    "Slashed": "loses a bond",
}
"""Events that are looked through, in words. INVARIANT: each is of Jobs or of the Panel, and of no other contract."""
_ACCOUNT = re.compile("0x[0-9a-fA-F]{40}")


def words_in(event: Event) -> set[str]:
    """Return what an event names, as hexadecimal digits: 64 of a hash, 40 of an account."""
    found = {value.hex() for value in _leaves(event.args) if isinstance(value, bytes) and len(value) == 32}
    if "matchId" in event.args:
        found.add(f"{int(event.args['matchId']):064x}")
    return found | accounts_in(event) | {event.tx_hash.hex()}


def accounts_in(event: Event) -> set[str]:
    """Return the accounts that an event names, as 40 hexadecimal digits each. SAFETY: its author writes
    the ``uri``, which may look like somebody's account."""
    args = {name: value for name, value in event.args.items() if name != "uri"}
    texts = (value for value in _leaves(args) if isinstance(value, str))
    return {text[2:].lower() for text in texts if _ACCOUNT.fullmatch(text)}


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value
