"""`assay dispute`: the walk of a match, for people."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from referee_py.errors import InvalidInput
from referee_py.walk.reason import Reason
from referee_py.walk.sides import NOBODY, sides

from ..ids import short, whole
from .common import CHAIN, moment, out, reader, show_ether, with_settings

if TYPE_CHECKING:
    from ..chain import HearingInfo, JobView, MatchInfo
    from ..chain.client import Snapshot
    from ..chain.events import Event
    from ..settings.settings import Settings

app = typer.Typer(no_args_is_help=True)
_WHOLE = 10_000
"""Columns where there is no terminal: more than any line has."""


@app.command()
@with_settings(CHAIN)
def show(
    settings: Settings,
    job: Annotated[int, typer.Argument(help="Number of the job.", min=1, max=(1 << 64) - 1)],
    match: Annotated[
        str | None, typer.Argument(help="Id of the match, or the beginning of it; all matches if not given.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again until it is decided.")] = False,
    every: Annotated[float, typer.Option(help="With --watch: seconds between two looks.", min=0.1)] = 5.0,
) -> None:
    """Show the course of a dispute, from the run roots down to its decision."""
    client = reader(settings)
    _follow(lambda: _look(client.snapshot(), job, match), watch=watch, wait=lambda: time.sleep(every))


def _follow(look: Callable[[], tuple[list[Tree], bool]], *, watch: bool, wait: Callable[[], None]) -> None:
    """Print what a look shows, and with ``watch`` each change, until a look says that it is over."""
    before: list[str] = []
    while True:
        shown, over = look()
        # NOTE: compared as text, since trees have no equality.
        text = [_plain_text(tree) for tree in shown]
        if text != before:
            if watch and out.is_terminal:
                out.clear()
            for tree in shown:
                _print(tree)
            before = text
        if over or not watch:
            return
        wait()


def _look(snapshot: Snapshot, job: int, match: str | None) -> tuple[list[Tree], bool]:
    """Return the trees of the matches that are asked for, and whether all of them and their hearings are over."""
    from referee_py.game.state import Phase
    from referee_py.panel.state import HearingPhase

    found = snapshot.job(job)
    ids = [number for number in snapshot.matches_of(job) if match is None or _named(number, match)]
    if not ids:
        raise InvalidInput(
            f"job {job} has no match{f' {match}' if match else ''}; see `assay job show {job}`"
        )
    trees, over = [], True
    for number in ids:
        known_match, hearing = snapshot.match(found, number), snapshot.hearing(found, number)
        trees.append(render(snapshot, found, known_match))
        over &= known_match.state.phase is Phase.DONE
        over &= hearing is None or hearing.state.phase is HearingPhase.DONE
    return trees, over


def _print(tree: Tree) -> None:
    """Print a tree: wrapped within the width of a terminal; elsewhere each line whole, for grep and files."""
    # NOTE: a width that is given to print is cut to the console's own.
    (out if out.is_terminal else Console(file=out.file, width=_WHOLE, highlight=False)).print(tree)


def _plain_text(tree: Tree) -> str:
    """Return the words of a tree."""
    return "\n".join([str(tree.label), *map(_plain_text, tree.children)])


def render(snapshot: Snapshot, job: JobView, match: MatchInfo) -> Tree:
    """Return the walk as a tree, with a branch for each level of commitments."""
    from referee_py.game.state import Phase

    history = snapshot.history(match.id)
    title = Text.assemble((f"match {short(match.id)}", "bold"), f" of job {job.id}")
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
    hearing = snapshot.hearing(job, match.id)
    if hearing is not None:
        _add_hearing(tree, snapshot, hearing)
    tree.add(Text(_outcome(match), style="bold green" if match.state.phase is Phase.DONE else "yellow"))
    return tree


def _add_hearing(tree: Tree, snapshot: Snapshot, hearing: HearingInfo) -> None:
    """Add what became of the operator: a branch for the hearing, and one for each trial."""
    from referee_py.panel.state import HearingPhase

    told = [(event, 0) for event in snapshot.hearing_events(hearing.id)]
    for number in range(1, hearing.state.trials + 1):
        told += [(event, number) for event in snapshot.trial_events(hearing.trial(number))]
    branch, trials = tree.add(Text("hearing", style="cyan")), dict[int, Tree]()
    for event, number in sorted(told, key=lambda item: (item[0].block, item[0].index)):
        if number and number not in trials:
            trials[number] = tree.add(Text(f"trial {number}", style="cyan"))
        text = "".join(_of_trial(event) if number else _of_hearing(event))
        if text:
            (trials[number] if number else branch).add(Text(text))
    state = hearing.state
    if state.phase is not HearingPhase.DONE:
        until = f" until {moment(state.until)}" if state.until else ""
        branch.add(Text(f"{state.phase.name.lower()}{until}", style="yellow"))


def _of_hearing(event: Event) -> Iterator[str]:
    args = event.args
    match event.name:
        case "Submitted":
            at = args["submission"]
            yield f"same inputs, other outputs: node {at.node} of step {at.step} is before the panel"
            if args["until"]:
                yield f"; verifiers judge it until {moment(args['until'])}"
        case "Attested":
            yield f"verifier {short(args['verifier'])} says {short(args['record'])} ({args['votes']} votes)"
        case "VerdictReached":
            yield f"verdict: {short(args['record'])} is right; it stands from {moment(args['until'])}"
        case "Appealed":
            yield f"{short(args['appellant'])} appeals"
        case "Tried":
            yield f"trial: {' against '.join(map(short, args['players']))}"
        case "Overruled":
            yield f"overruled; its signers may stand by it until {moment(args['until'])}"
        case "Slashed":
            yield f"verifier {short(args['verifier'])} loses its bond of {show_ether(args['bond'])}"
        case "Stood":
            yield f"verifier {short(args['verifier'])} stands by the verdict"
        case "Cleared":
            yield f"verifier {short(args['verifier'])} stood by the verdict, and was right"


def _of_trial(event: Event) -> Iterator[str]:
    args = event.args
    match event.name:
        case "OutputShown":
            yield f"output {args['output']} of side {args['side']} has data root {short(args['root'])}"
        case "NodesRevealed":
            yield f"side {args['side']} reveals {len(args['children'])} nodes {args['height']} levels up"
        case "NodesDescended":
            yield f"first difference: node {args['index']} at height {args['height']}"
        case "LeafShown":
            yield f"side {args['side']} shows its leaf of {len(args['leaf'])} bytes"
        case "ElementFound":
            first, second = args["values"]
            yield f"element {args['element']}: 0x{first:x} or 0x{second:x}, a chain of {args['steps']} steps"
        case "StatesPosted":
            yield f"side 0 posts its states between steps {args['lo']} and {args['hi']}"
        case "StateAnswered":
            yield f"side 1 agrees after step {args['lo']}, not after step {args['hi']}"
        case "TrialDecided":
            yield f"side {' and side '.join(map(str, sides(args['losers'])))} is wrong or late"


def describe(event: Event, match: MatchInfo) -> str:
    """Return one line about an event; empty if it adds nothing."""
    args = event.args
    return "".join(_words(event.name, args, match))


def _words(name: str, args: dict[str, Any], match: MatchInfo) -> Iterator[str]:
    from referee_py.game.state import Phase

    from ..chain.codec.base import known

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
            yield f"side {args['side']} opens its record: {len(record.inputs)} inputs, "
            yield f"{len(record.outputs)} outputs"
        case "Decided":
            reason = known(Reason, args["reason"], "event Decided")
            yield f"decided: {reason.name.lower().replace('_', ' ')}"


def _outcome(match: MatchInfo) -> str:
    from referee_py.game.state import Phase

    state = match.state
    if state.phase is Phase.HEARING:
        return "hearing: the panel decides it"
    if state.phase is not Phase.DONE:
        return f"{state.phase.name.lower()}: the next move is due {moment(match.deadline)}"
    reason = state.reason.name.lower().replace("_", " ")
    if state.losers == NOBODY:
        return f"{reason}: nobody was shown wrong"
    losers = " and ".join(match.terms.players[side] for side in sides(state.losers))
    return f"{reason}: {losers} lost"


def _named(number: int, text: str) -> bool:
    return text == str(number) or (len(text) > 2 and whole(number).startswith(text.lower().rstrip("…")))
