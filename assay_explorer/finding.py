"""Jobs by what their events name: a root, another hash, an account, a transaction, a match.

digits ── Index.naming ──> the newest `MOST` events that name something with them ──> jobs
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainer_node.chain.events import Event

from .chain import Look
from .named import WORDS, accounts_in

MOST = 2000
LEAST_DIGITS = 8
"""Digits of a hash that are looked for at least: as many as pages show of one."""
ENDED = {"accepted": ("Accepted",), "no-result": ("Unclaimed", "Voided")}
SHOW = ("all", "open", "disputed", *ENDED)
"""Filters on the list of jobs."""
_ASKED = re.compile(rf"(?:0x)?([0-9a-f]{{{LEAST_DIGITS},64}})…?")


@dataclass(frozen=True)
class Hit:
    """An event of a job that names what was asked for. ``match``: the id of its match, if it is about one."""

    job: int
    event: Event
    match: int | None

    @property
    def words(self) -> str:
        return WORDS[self.event.name]


def digits_of(text: str) -> str | None:
    """Return the hexadecimal digits that are asked for, in full or as pages shorten them; None for anything else."""
    found = _ASKED.fullmatch(text.strip().lower())
    return found[1] if found else None


def hits(look: Look, digits: str) -> list[Hit]:
    """Return the events that name something that begins with these digits, the newest first. Raises RpcUnavailable."""
    found = look.index.naming(look.client, digits, look.block.number, MOST)
    jobs: dict[int, tuple[int, int] | None] = {}
    told = []
    for event in found:
        place = _job_of(look, event, jobs)
        if place is not None:
            told.append(Hit(place[0], event, place[1]))
    return told


def jobs_of(look: Look, address: str) -> list[int]:
    """Return the jobs in which an account has a part, the newest first."""
    digits = address.lower().removeprefix("0x")
    found = (hit.job for hit in hits(look, digits) if digits in accounts_in(hit.event))
    return sorted(set(found), reverse=True)


def filtered(look: Look, show: str) -> list[int]:
    """Return the jobs of a filter, the newest first. Raises KeyError for one that is not in `SHOW`."""
    every = range(look.snapshot.job_count(), 0, -1)
    if show == "all":
        return list(every)
    names = {**ENDED, "disputed": ("Paired",), "open": tuple(name for end in ENDED.values() for name in end)}
    having = look.index.jobs_with(look.client, names[show], look.block.number)
    return [number for number in every if (number in having) != (show == "open")]


def _job_of(
    look: Look, event: Event, known: dict[int, tuple[int, int] | None]
) -> tuple[int, int | None] | None:
    """Return the job of an event, and its match; None for an event about jobs of another contract."""
    if "jobId" in event.args:
        return int(event.args["jobId"]), event.args.get("matchId")
    hearing = int(event.args["hearingId"])
    if hearing not in known:
        ours = str(look.client.contracts.jobs.address).lower()
        submitted = [one for one in look.snapshot.hearing_events(hearing) if one.name == "Submitted"]
        about = [one.args["submission"] for one in submitted]
        places = [(int(one.jobId), int(one.matchId)) for one in about if str(one.jobs).lower() == ours]
        known[hearing] = places[0] if places else None
    return known[hearing]
