"""`assay dispute`: the walk of a match, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.text import Text
from rich.tree import Tree

from referee_py.errors import InvalidInput
from referee_py.game.state import NOBODY, Phase, Reason, sides

from ..chain import Job, MatchInfo
from ..chain.client import Snapshot
from ..chain.events import Event
from ..config import Settings
from .common import CHAIN, moment, out, reader, short, with_settings

app = typer.Typer(help="Disputes: matches between two claims.", no_args_is_help=True)


@app.command()
@with_settings(CHAIN)
def show(
    settings: Settings,
    job: Annotated[int, typer.Argument(help="Number of the job.", min=1)],
    match: Annotated[
        str | None, typer.Argument(help="Id of the match, or the beginning of it; all matches if not given.")
    ] = None,
) -> None:
    """Show how a dispute went: from the run roots down to what decided it."""
    snapshot = reader(settings).snapshot()
    found = snapshot.job(job)
    ids = [number for number in snapshot.matches_of(job) if match is None or _named(number, match)]
    if not ids:
        raise InvalidInput(
            f"job {job} has no match{f' {match}' if match else ''}; see `assay job show {job}`"
        )
    for number in ids:
        out.print(render(snapshot, found, snapshot.match(found, number)), soft_wrap=True)


def render(snapshot: Snapshot, job: Job, match: MatchInfo) -> Tree:
    """The walk as a tree: one branch for each level of commitments."""
    history = snapshot.history(match.id)
    title = Text.assemble((f"match {match.id:#066x}"[:20] + "…", "bold"), f" of job {job.id}")
    tree = Tree(title)
    for side, player in enumerate(match.terms.players):
        clock = match.state.clock[side]
        tree.add(Text(f"side {side}: {player}, {clock} of {match.terms.clock} s left"))
    branch = tree
    for event in history.events:
        text = describe(event, match)
        if event.name == "Entered":
            branch = tree.add(Text(text, style="cyan"))
        elif text:
            branch.add(Text(text))
    tree.add(Text(_outcome(match), style="bold green" if match.state.phase is Phase.DONE else "yellow"))
    return tree


def describe(event: Event, match: MatchInfo) -> str:
    """One line about an event; empty for those that say nothing new."""
    args = event.args
    return "".join(_words(event.name, args, match))


def _words(name: str, args: dict[str, Any], match: MatchInfo) -> Iterator[str]:
    strides = match.terms.program.strides
    match name:
        case "Entered":
            start, end, level = args["start"], args["end"], args["level"]
            if args["phase"] == Phase.REFINE:
                yield f"steps {start + 1} to {end} differ: both refine"
            elif args["phase"] == Phase.OPEN:
                yield f"step {end}: one node differs: both open their record"
            elif level == len(strides):
                yield f"step tree of step {end}: {match.terms.program.node_count} nodes"
            else:
                yield f"run tree of steps {start + 1} to {end}, a checkpoint every {strides[level]}"
        case "Revealed":
            yield f"side {args['side']} reveals {len(args['children'])} nodes {args['height']} levels up"
        case "Descended":
            place = (
                f"leaf {args['index']}"
                if args["height"] == 0
                else f"node {args['index']} at height {args['height']}"
            )
            yield f"first difference: {place}: {short(args['node0'])} or {short(args['node1'])}"
        case "Refined":
            yield f"side {args['side']} refines to stride {strides[args['level']]}: {short(args['root'])}"
        case "RecordOpened":
            record = args["record"]
            yield f"side {args['side']} opens its record: {len(record['inputs'])} inputs, "
            yield f"{len(record['outputs'])} outputs"
        case "VerifiersCalled":
            yield f"same inputs, other outputs: verifiers judge node {args['node']} of step {args['step']} "
            yield f"until {moment(args['until'])}"
        case "Attested":
            yield f"verifier {short(args['verifier'])} says {short(args['record'])} ({args['votes']} votes)"
        case "Decided":
            yield f"decided: {Reason(args['reason']).name.lower().replace('_', ' ')}"


def _outcome(match: MatchInfo) -> str:
    state = match.state
    if state.phase is not Phase.DONE:
        return f"{state.phase.name.lower()}: the next move is due {moment(match.deadline)}"
    reason = state.reason.name.lower().replace("_", " ")
    if state.losers == NOBODY:
        return f"{reason}: nobody was shown wrong"
    losers = " and ".join(match.terms.players[side] for side in sides(state.losers))
    return f"{reason}: {losers} lost"


def _named(number: int, text: str) -> bool:
    return text == str(number) or (len(text) > 2 and f"{number:#066x}".startswith(text.lower()))
