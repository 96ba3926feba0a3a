"""The accounts of a job and what they are in it, so that pages and commands call them by one name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..chain import JobView
from ..ids import short


@dataclass(frozen=True)
class JobAccount:
    """An account of a job. ``name`` is given by its part in the job: client, trainer 1, challenger 1, verifier 1."""

    address: str
    name: str
    part: str


class Parties:
    """All accounts of a job, in the order of their parts."""

    def __init__(self, job: JobView) -> None:
        found: dict[str, JobAccount] = {}

        def add(address: str, part: str, number: int | None) -> None:
            name = part if number is None else f"{part} {number}"
            found.setdefault(address.lower(), JobAccount(address, name, part))

        add(job.client, "client", None)
        for number, trainer in enumerate(job.trainers, 1):
            add(trainer.owner, "trainer", number)
        others = [claim.owner for claim in job.claims if not claim.slot]
        for number, owner in enumerate(dict.fromkeys(others), 1):
            add(owner, "challenger", number)
        for number, verifier in enumerate(job.verifiers, 1):
            add(verifier, "verifier", number)
        self._found = found

    def __iter__(self) -> Iterator[JobAccount]:
        return iter(self._found.values())

    def part(self, address: str) -> str | None:
        """Return an account's name by its part in the job; None if it has no part."""
        party = self._found.get(address.lower())
        return party.name if party is not None else None

    def name(self, address: str) -> str:
        """Return an account's name in the job; the beginning of its address if it has no part."""
        return self.part(address) or short(address)
