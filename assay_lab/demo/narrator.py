"""Tells every event of the job, its matches, hearings and trials, in order and in words, while it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from referee_py.game.state import Phase
from referee_py.walk.reason import Reason
from referee_py.walk.sides import sides
from trainer_node.chain import ChainClient
from trainer_node.chain.events import Event

from .roles import CASES

Say = Callable[[str], None]
Explain = Callable[[int, int], str]
"""Describes the disputed operator of a step: `explain(step, node)`."""


class Narrator:
    """Tells the new events on each call. ``names`` maps addresses to names."""

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
        """Names of the players by match or trial."""
        self._where: dict[int, tuple[int, int, int]] = {}
        """Level, start and end of the tree being walked, by match."""

    def tell(self) -> None:
        """Tell what has happened since the last call."""
        snapshot = self._client.snapshot()
        job = snapshot.job(self._job_id)
        events = [(event, _JOB) for event in snapshot.job_events(job.id)]
        for match_id in snapshot.matches_of(job.id):
            events += [(event, _MATCH) for event in snapshot.events(match_id)]
            hearing = snapshot.hearing(job, match_id)
            if hearing is None:
                continue
            events += [(event, _HEARING) for event in snapshot.hearing_events(hearing.id)]
            for number in range(1, hearing.state.trials + 1):
                events += [(event, _TRIAL) for event in snapshot.trial_events(hearing.trial(number))]
        for event, words in sorted(events, key=lambda told: (told[0].block, told[0].index)):
            place = (event.block, event.index)
            if place not in self._told:
                self._told.add(place)
                for line in self._lines(event, words):
                    self._say(line)

    # ------------------------------------------------------------------ words

    def _name(self, address: str) -> str:
        return f"[bold]{self._names.get(address.lower(), address)}[/bold]"

    def _lines(self, event: Event, words: Mapping[str, _Tell]) -> Iterator[str]:
        if event.name in words:
            yield from words[event.name](self, event.args)

    def _joined(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"{self._name(args['trainer'])} takes a slot and stakes for it"

    def _committed(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"{self._name(args['trainer'])} has trained and commits to its result, sealed"

    def _claimed(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"{self._name(args['owner'])} claims run root {args['root'].hex()[:16]}…"

    def _opened(self, args: Mapping[str, Any]) -> Iterator[str]:
        players = args["matchTerms"]["players"]
        self._players[args["matchId"]] = list(players)
        first, second = (self._name(player) for player in players)
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

    def _submitted(self, args: Mapping[str, Any]) -> Iterator[str]:
        who = "the verifiers are called" if args["until"] else "the court is to judge it"
        yield f"  same operator, same inputs, other outputs: {who}"

    def _attested(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"  {self._name(args['verifier'])} signs {args['record'].hex()[:16]}…"

    def _verdict(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"  verdict: {args['record'].hex()[:16]}… is the right record"

    def _appealed(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"  {self._name(args['appellant'])} appeals, with a bond: the court is to judge it"

    def _tried(self, args: Mapping[str, Any]) -> Iterator[str]:
        self._players[args["trialId"]] = list(args["players"])
        first, second = (self._name(player) for player in args["players"])
        yield f"  [yellow]a trial[/yellow] of the operator: {first} against {second}"

    def _overruled(self, _: Mapping[str, Any]) -> Iterator[str]:
        yield "[yellow]the court has overruled the verdict[/yellow]; its signers may stand by it"

    def _slashed(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"[red]{self._name(args['verifier'])} loses its bond[/red] of {args['bond'] / 10**18:g} ether"

    def _cleared(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"[green]{self._name(args['verifier'])} has stood by the verdict, and was right[/green]"

    def _shown(self, args: Mapping[str, Any]) -> Iterator[str]:
        who = self._name(self._players[args["trialId"]][args["side"]])
        yield f"    output {args['output']} of {who} has data root {args['root'].hex()[:16]}…"

    def _element(self, args: Mapping[str, Any]) -> Iterator[str]:
        first, second = (f"0x{bits:x}" for bits in args["values"])
        yield f"    element {args['element']} is the first that differs: {first} or {second}"
        yield f"    a chain of {args['steps']} {'step' if args['steps'] == 1 else 'steps'}"

    def _narrowed(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"    agreed after step {args['lo']}, not after step {args['hi']}"

    def _judged(self, args: Mapping[str, Any]) -> Iterator[str]:
        losers = [self._name(self._players[args["trialId"]][side]) for side in sides(args["losers"])]
        yield f"  the court finds {' and '.join(losers)} wrong"

    def _decided(self, args: Mapping[str, Any]) -> Iterator[str]:
        losers = [self._name(self._players[args["matchId"]][side]) for side in sides(args["losers"])]
        yield f"[yellow]decided, {CASES[Reason(args['reason'])]}[/yellow]"
        yield f"[red]{' and '.join(losers) or 'nobody'} loses[/red]"

    def _accepted(self, args: Mapping[str, Any]) -> Iterator[str]:
        yield f"[green]accepted: run root {args['root'].hex()[:16]}…[/green]"

    def _ended(self, _: Mapping[str, Any]) -> Iterator[str]:
        yield "[red]the job has ended without a result[/red]"


_Tell = Callable[[Narrator, Mapping[str, Any]], Iterator[str]]

_JOB: dict[str, _Tell] = {
    "Joined": Narrator._joined,
    "Committed": Narrator._committed,
    "Claimed": Narrator._claimed,
    "Accepted": Narrator._accepted,
    "Unclaimed": Narrator._ended,
    "Voided": Narrator._ended,
}
_MATCH: dict[str, _Tell] = {
    "Opened": Narrator._opened,
    "Entered": Narrator._entered,
    "Revealed": Narrator._revealed,
    "Refined": Narrator._refined,
    "Descended": Narrator._descended,
    "RecordOpened": Narrator._record,
    "Decided": Narrator._decided,
}
_HEARING: dict[str, _Tell] = {
    "Submitted": Narrator._submitted,
    "Attested": Narrator._attested,
    "VerdictReached": Narrator._verdict,
    "Appealed": Narrator._appealed,
    "Tried": Narrator._tried,
    "Overruled": Narrator._overruled,
    "Slashed": Narrator._slashed,
    "Cleared": Narrator._cleared,
}
_TRIAL: dict[str, _Tell] = {
    "OutputShown": Narrator._shown,
    "ElementFound": Narrator._element,
    "StateAnswered": Narrator._narrowed,
    "TrialDecided": Narrator._judged,
}


def _steps(stride: int) -> str:
    return "step" if stride == 1 else f"{stride} steps"
