"""What happens, told as it happens: every event of the job and its matches, in order, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from referee_py.game.state import Phase, Reason, sides

from ..chain import ChainClient
from ..chain.events import Event
from .cast import CASES

Say = Callable[[str], None]
Explain = Callable[[int, int], str]
"""Describes the disputed operator of a step: `explain(step, node)`."""


class Story:
    """Tells what is new whenever it is asked to. ``names`` maps addresses to names."""

    def __init__(
        self,
        client: ChainClient,
        job_id: int,
        names: Mapping[str, str],
        say: Say,
        explain: Explain,
        strides: tuple[int, ...],
    ) -> None:
        self._client = client
        self._job_id = job_id
        self._names = {address.lower(): name for address, name in names.items()}
        self._say = say
        self._explain = explain
        self._strides = strides
        self._told: set[tuple[int, int]] = set()
        self._players: dict[int, list[str]] = {}
        self._where: dict[int, tuple[int, int, int]] = {}
        """By match: level, start and end of the tree that is walked."""

    def tell(self) -> None:
        """Say what has happened since the last time."""
        snapshot = self._client.snapshot()
        events = snapshot.job_events(self._job_id)
        for match_id in snapshot.matches_of(self._job_id):
            events += snapshot.events(match_id)
        for event in sorted(events, key=lambda event: (event.block, event.index)):
            place = (event.block, event.index)
            if place not in self._told:
                self._told.add(place)
                for line in self._lines(event):
                    self._say(line)

    # ------------------------------------------------------------------ words

    def _name(self, address: str) -> str:
        return f"[bold]{self._names.get(address.lower(), address)}[/bold]"

    def _lines(self, event: Event) -> Iterator[str]:
        tell = _JOB.get(event.name) or _MATCH.get(event.name)
        if tell is not None:
            yield from tell(self, event.args)

    def _joined(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"{self._name(args['trainer'])} takes a slot and stakes for it"

    def _committed(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"{self._name(args['trainer'])} has trained and commits to its result, sealed"

    def _claimed(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"{self._name(args['owner'])} claims run root {args['root'].hex()[:16]}…"

    def _opened(self, args: Mapping[str, Any]) -> Iterator[str]:
        self._players[args["matchId"]] = list(args["players"])
        first, second = (self._name(player) for player in args["players"])
        yield f"[yellow]two claims differ:[/yellow] {first} against {second}"

    def _entered(self, args: Mapping[str, Any]) -> Iterator[str]:
        level, start, end = args["level"], args["start"], args["end"]
        self._where[args["matchId"]] = (level, start, end)
        if args["phase"] == Phase.REFINE:
            yield f"  [cyan]steps {start + 1} to {end}[/cyan]: here they part; both commit to them more finely"
        elif level < len(self._strides):
            yield f"  [cyan]steps {start + 1} to {end}[/cyan], one checkpoint every {self._strides[level]}"
        elif args["phase"] == Phase.WALK:
            yield f"  [cyan]step {end}[/cyan] is the first step that differs; down into its operators"

    def _revealed(self, args: Mapping[str, Any]) -> Iterator[str]:
        who = self._name(self._players[args["matchId"]][args["side"]])
        yield f"  {who} reveals {len(args['children'])} nodes of its tree"

    def _refined(self, args: Mapping[str, Any]) -> Iterator[str]:
        who = self._name(self._players[args["matchId"]][args["side"]])
        yield f"  {who} commits to every {_steps(self._strides[args['level']])}: {args['root'].hex()[:16]}…"

    def _descended(self, args: Mapping[str, Any]) -> Iterator[str]:
        level, _, end = self._where[args["matchId"]]
        if args["height"] == 0 and level == len(self._strides):
            yield f"  [cyan]operator {args['index']}[/cyan] of step {end} is the first that differs"
            yield f"    {self._explain(end, args['index'])}"

    def _record(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"  {self._name(self._players[args['matchId']][args['side']])} opens its record of it"

    def _called(self, _: Mapping[str, Any]) -> Iterator[str]:
        yield "  same operator, same inputs, other outputs: the verifiers are called"

    def _attested(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"  {self._name(args['verifier'])} has executed it and signs {args['record'].hex()[:16]}…"

    def _decided(self, args: Mapping[str, Any]) -> Iterator[str]:
        losers = [self._name(self._players[args["matchId"]][side]) for side in sides(args["losers"])]
        yield f"[yellow]decided, {CASES[Reason(args['reason'])]}[/yellow]"
        yield f"[red]{' and '.join(losers) or 'nobody'} loses[/red]"

    def _accepted(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"[green]accepted: run root {args['root'].hex()[:16]}…[/green]"

    def _ended(self, _: Mapping[str, Any]) -> Iterator[str]:
        yield "[red]the job has ended without a result[/red]"


_Tell = Callable[[Story, Mapping[str, Any]], Iterator[str]]

_JOB: dict[str, _Tell] = {
    "Joined": Story._joined,
    "Committed": Story._committed,
    "Claimed": Story._claimed,
    "Accepted": Story._accepted,
    "Unclaimed": Story._ended,
    "Voided": Story._ended,
}
_MATCH: dict[str, _Tell] = {
    "Opened": Story._opened,
    "Entered": Story._entered,
    "Revealed": Story._revealed,
    "Refined": Story._refined,
    "Descended": Story._descended,
    "RecordOpened": Story._record,
    "VerifiersCalled": Story._called,
    "Attested": Story._attested,
    "Decided": Story._decided,
}


def _steps(stride: int) -> str:
    return "step" if stride == 1 else f"{stride} steps"
