"""Reports every event of the job, its matches, hearings and trials, in order and in words, while it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from referee_py.game.state import Phase
from referee_py.walk.reason import Reason
from referee_py.walk.sides import sides
from trainer_node.chain import ChainClient
from trainer_node.chain.events import Event
from trainer_node.ids import short

from .roles import CASES, Role

Say = Callable[[str], None]
Explain = Callable[[int, int], str]
"""Describes the disputed operator of a step: `explain(step, node)`."""


class Narrator:
    """Reports the new events on each call. ``names`` maps addresses to names."""

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
        self._refuters: dict[int, str] = {}
        """Names of refuters by their group."""
        self._players: dict[int, list[str]] = {}
        """Names of the players by match or trial."""
        self._where: dict[int, tuple[int, int, int]] = {}
        """Level, start and end of the tree being walked, by match."""

    def tell(self) -> None:
        """Report what has happened since the last call."""
        snapshot = self._client.snapshot()
        job = snapshot.job(self._job_id)
        for group in job.groups:
            if group.refutes is not None:
                self._refuters.setdefault(group.index, "")
        events = [(event, self._of_job) for event in snapshot.job_events(job.id)]
        for match_id in snapshot.matches_of(job.id):
            events += [(event, self._of_match) for event in snapshot.events(match_id)]
            hearing = snapshot.hearing(job, match_id)
            if hearing is None:
                continue
            events += [(event, self._of_hearing) for event in snapshot.hearing_events(hearing.id)]
            for number in range(1, hearing.state.trials + 1):
                events += [(event, self._of_trial) for event in snapshot.trial_events(hearing.trial(number))]
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

    def _of_match(self, event: Event) -> Iterator[str]:
        args = event.args
        match event.name:
            case "Opened":
                self._players[args["matchId"]] = players = list(args["matchTerms"].players)
                first, second = map(self._name, players)
                yield f"[yellow]two claims differ:[/yellow] {first} against {second}"
            case "Entered":
                level, start, end = args["level"], args["start"], args["end"]
                self._where[args["matchId"]] = (level, start, end)
                if args["phase"] == Phase.REFINE:
                    yield f"  [cyan]steps {start + 1} to {end}[/cyan]: here they part; both commit to them more finely"
                elif level < len(self._strides):
                    yield f"  [cyan]steps {start + 1} to {end}[/cyan], one checkpoint every {self._strides[level]}"
                elif args["phase"] == Phase.WALK:
                    yield f"  [cyan]step {end}[/cyan] is the first step that differs; down into its operators"
            case "Revealed":
                yield f"  {self._player(args)} reveals {len(args['children'])} nodes of its tree"
            case "Refined":
                every = _steps(self._strides[args["level"]])
                yield f"  {self._player(args)} commits to every {every}: {short(args['root'])}"
            case "Descended":
                level, _, end = self._where[args["matchId"]]
                if args["height"] == 0 and level == len(self._strides):
                    yield f"  [cyan]operator {args['index']}[/cyan] of step {end} is the first that differs"
                    yield f"    {self._explain(end, args['index'])}"
            case "RecordOpened":
                yield f"  {self._player(args)} opens its record of it"
            case "Decided":
                yield f"[yellow]decided, {CASES[Reason(args['reason'])]}[/yellow]"
                yield f"[red]{self._losers(args) or 'nobody'} loses[/red]"

    def _of_hearing(self, event: Event) -> Iterator[str]:
        args = event.args
        match event.name:
            case "Submitted":
                who = "the verifiers are called" if args["until"] else "the court is to judge it"
                yield f"  same operator, same inputs, other outputs: {who}"
            case "Attested":
                yield f"  {self._name(args['verifier'])} signs {short(args['record'])}"
            case "VerdictReached":
                yield f"  verdict: {short(args['record'])} is the right record"
            case "Appealed":
                yield f"  {self._name(args['appellant'])} appeals, with a bond: the court is to judge it"
            case "Tried":
                self._players[args["trialId"]] = players = list(args["players"])
                first, second = map(self._name, players)
                yield f"  [yellow]a trial[/yellow] of the operator: {first} against {second}"
            case "Overruled":
                yield "[yellow]the court has overruled the verdict[/yellow]; its signers may stand by it"
            case "Slashed":
                yield f"[red]{self._name(args['verifier'])} loses its bond[/red] of {args['bond'] / 10**18:g} ether"
            case "Cleared":
                yield f"[green]{self._name(args['verifier'])} has stood by the verdict, and was right[/green]"

    def _of_trial(self, event: Event) -> Iterator[str]:
        args = event.args
        match event.name:
            case "OutputShown":
                root = short(args["root"])
                yield f"    output {args['output']} of {self._player(args)} has data root {root}"
            case "ElementFound":
                first, second = (f"0x{bits:x}" for bits in args["values"])
                yield f"    element {args['element']} is the first that differs: {first} or {second}"
                yield f"    a chain of {args['steps']} {'step' if args['steps'] == 1 else 'steps'}"
            case "StateAnswered":
                yield f"    agreed after step {args['lo']}, not after step {args['hi']}"
            case "TrialDecided":
                yield f"  the court finds {self._losers(args)} wrong"

    def _name(self, address: str) -> str:
        return f"[bold]{self._names.get(address.lower(), address)}[/bold]"

    def _player(self, args: Mapping[str, Any]) -> str:
        """Return the name of the side that an event of a match or a trial is about."""
        return self._name(self._sides(args)[args["side"]])

    def _losers(self, args: Mapping[str, Any]) -> str:
        return " and ".join(self._name(self._sides(args)[side]) for side in sides(args["losers"]))

    def _sides(self, args: Mapping[str, Any]) -> list[str]:
        return self._players[args["trialId"] if "trialId" in args else args["matchId"]]


def _steps(stride: int) -> str:
    return "step" if stride == 1 else f"{stride} steps"


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
