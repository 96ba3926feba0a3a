"""Reports every event of the job, its matches, hearings and trials, in order and in words, while it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from referee_py.game.state import Phase
from referee_py.program.terms import Terms
from referee_py.walk.sides import sides
from trainer_node.chain import ChainClient
from trainer_node.chain.events import Event
from trainer_node.cli.common import moment
from trainer_node.client.dispute_words import Words, told
from trainer_node.client.parties import Parties
from trainer_node.ids import short

from .roles import Role

Say = Callable[[str], None]
Explain = Callable[[int, int], str]
"""Describes the disputed operator of a step: `explain(step, node)`."""
_UNTOLD = ("NodesRevealed", "NodesDescended", "LeafShown", "StatesPosted", "Stood")
"""Events of small steps, which are left out."""


class Narrator:
    """Reports the new events on each call. ``names`` maps addresses to the names of roles.

    A party is called as on the explorer's pages, by its part in the job, and what the demonstration knows of it besides
    stands in parentheses: trainer 2 (liar).
    """

    def __init__(
        self,
        client: ChainClient,
        job_id: int,
        names: Mapping[str, str],
        say: Say,
        explain: Explain,
    ) -> None:
        self._client = client
        self._job_id = job_id
        self._names = {address.lower(): name for address, name in names.items()}
        self._say = say
        self._explain = explain
        self._told: set[tuple[int, int]] = set()
        self._refuters: dict[int, str] = {}
        """Names of refuters by their group."""
        self._players: dict[int, list[str]] = {}
        """Names of the players by match or trial."""
        self._parties: Parties | None = None
        self._where: dict[int, tuple[int, int]] = {}
        """Level and last step of the tree being walked, by match."""

    def tell(self) -> None:
        """Report what has happened since the last call."""
        snapshot = self._client.snapshot()
        job = snapshot.job(self._job_id)
        self._parties = Parties(job)
        for group in job.groups:
            if group.refutes is not None:
                self._refuters.setdefault(group.index, "")
        events = [(event, self._of_job) for event in snapshot.job_events(job.id)]
        for match_id in snapshot.matches_of(job.id):
            found = told(snapshot, match_id, snapshot.hearing(job, match_id))
            events += [(one.event, partial(self._of_dispute, job.program)) for one in found]
        for event, told_of in sorted(events, key=lambda told: (told[0].block, told[0].index)):
            place = (event.block, event.index)
            if place not in self._told:
                self._told.add(place)
                for line in told_of(event):
                    self._say(line)

    # ------------------------------------------------------------------ words

    def _of_job(self, event: Event) -> Iterator[str]:
        args = event.args
        match event.name:
            case "Joined":
                yield f"{self._name(args['trainer'])} takes a slot and stakes for it"
            case "Resigned":
                yield f"{self._name(args['trainer'])} gives its slot back, for a 32nd of its stake"
            case "Committed":
                yield f"{self._name(args['trainer'])} has trained and commits to its result, sealed"
            case "Claimed" if args["group"] in self._refuters:
                self._refuters[args["group"]] = self._name(args["owner"])
            case "Claimed":
                yield f"{self._name(args['owner'])} claims run root {short(args['root'])}"
            case "Refuted":
                who = self._refuters[args["group"]]
                yield f"[yellow]{who} refutes interval {args['interval'] + 1}[/yellow]: its steps lead elsewhere"
            case "Accepted":
                yield f"[green]accepted: run root {short(args['root'])}[/green]"
            case "Unclaimed" | "Voided":
                yield "[red]the job has ended without a result[/red]"

    def _of_dispute(self, terms: Terms, event: Event) -> Iterator[str]:
        args = event.args
        match event.name:
            case "Opened" | "Tried":
                trial = event.name == "Tried"
                players = list(args["players"] if trial else args["matchTerms"].players)
                self._players[args["trialId" if trial else "matchId"]] = players
                first, second = map(self._name, players)
                what = (
                    "  [yellow]a trial[/yellow] of the operator:"
                    if trial
                    else "[yellow]two claims differ:[/yellow]"
                )
                yield f"{what} {first} against {second}"
            case "Entered":
                level, end = args["level"], args["end"]
                self._where[args["matchId"]] = (level, end)
                if args["phase"] == Phase.WALK and level == len(terms.strides):
                    yield f"  [cyan]step {end}[/cyan] is the first step that differs; down into its operators"
                elif args["phase"] != Phase.OPEN:
                    yield f"  [cyan]{self._words(terms, args).of(event)}[/cyan]"
            case "Descended":
                level, end = self._where[args["matchId"]]
                if args["height"] == 0 and level == len(terms.strides):
                    yield f"  [cyan]operator {args['index']}[/cyan] of step {end} is the first that differs"
                    yield f"    {self._explain(end, args['index'])}"
            case "Decided":
                yield f"[yellow]{self._words(terms, args).of(event)}[/yellow]"
                losers = " and ".join(self._name(self._sides(args)[side]) for side in sides(args["losers"]))
                yield f"[red]{losers or 'nobody'} loses[/red]"
            case name if name not in _UNTOLD:
                if line := self._words(terms, args).of(event):
                    yield f"{'    ' if 'trialId' in args else '  '}{line}"

    def _words(self, terms: Terms, args: Mapping[str, Any]) -> Words:
        return Words(terms, moment, lambda side: self._name(self._sides(args)[side]), self._name)

    def _name(self, address: str) -> str:
        role = self._names.get(address.lower(), address)
        part = self._parties.part(address) if self._parties is not None else None
        if part is None:
            return f"[bold]{role}[/bold]"
        return f"[bold]{part}[/bold]" + (
            "" if role in (address, part, part.rpartition(" ")[0]) else f" ({role})"
        )

    def _sides(self, args: Mapping[str, Any]) -> list[str]:
        return self._players[args["trialId"] if "trialId" in args else args["matchId"]]


def samples(part: Role, events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what a challenger has checked, from its log, if it checks a part."""
    checked = {e["interval"]: e for e in events if e.get("event") in ("sample.match", "sample.differs")}
    if not checked:
        return
    of = next(iter(checked.values()))["of"]
    wrong = [k for k, event in checked.items() if event["event"] == "sample.differs"]
    drawn = ", ".join(map(str, sorted(checked)))
    told = f"interval {wrong[0]} is wrong" if wrong else "all match"
    yield f"{part.name} has checked {len(checked)} of {of} intervals ({drawn}): {told}"


def unfinished(events: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a sampler, by its log, has not checked all that it drew, though all that it has checked match."""
    planned = next((e["checked"] for e in events if e.get("event") == "sample.plan"), None)
    told = [e for e in events if e.get("event") in ("sample.match", "sample.differs")]
    wrong = any(e["event"] == "sample.differs" for e in told)
    return not wrong and (planned is None or len({e["interval"] for e in told}) < planned)
