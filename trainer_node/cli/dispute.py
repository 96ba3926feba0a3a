"""`assay dispute`: the walk of a match, for people."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from referee_py.errors import InvalidInput
from referee_py.walk.sides import NOBODY, sides

from ..ids import short, side_of, whole
from .common import CHAIN, JobNumber, JsonOption, moment, out, reader, show_json, with_settings

if TYPE_CHECKING:
    from ..chain import JobView, MatchInfo
    from ..chain.snapshot import Snapshot
    from ..client.parties import Parties
    from ..settings.settings import Settings

app = typer.Typer(no_args_is_help=True)
_WHOLE = 10_000
"""Columns where there is no terminal: more than any line has."""


@app.command()
@with_settings(CHAIN)
def show(
    settings: Settings,
    job: JobNumber,
    match: Annotated[
        str | None, typer.Argument(help="Id of the match, or the beginning of it; all matches if not given.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again until it is decided.")] = False,
    as_json: JsonOption = False,
    every: Annotated[float, typer.Option(help="With --watch: seconds between two looks.", min=0.1)] = 5.0,
) -> None:
    """Show the course of a dispute, from the run roots down to its decision."""
    client = reader(settings)
    if as_json:
        if watch:
            raise InvalidInput("--json shows a dispute once; leave out --watch")
        trees, over = _look(client.snapshot(), job, match)
        show_json({"job": job, "over": over, "matches": [_row(tree) for tree in trees]})
        return
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


def _row(tree: Tree) -> dict[str, Any]:
    """Return a tree as JSON: what it says, and what is under it."""
    return {"text": str(tree.label), "under": [_row(child) for child in tree.children]}


def _plain_text(tree: Tree) -> str:
    """Return the words of a tree."""
    return "\n".join([str(tree.label), *map(_plain_text, tree.children)])


def render(snapshot: Snapshot, job: JobView, match: MatchInfo) -> Tree:
    """Return the walk as a tree: a branch for each level of commitments, one for the hearing, one for each trial."""
    from referee_py.game.state import Phase
    from referee_py.panel.state import HearingPhase

    from ..client.dispute_words import Words, told
    from ..client.parties import Parties

    parties = Parties(job)
    between = " against ".join(map(parties.name, match.terms.players))
    tree = Tree(Text.assemble((f"match {short(match.id)}", "bold"), f" of job {job.id}: {between}"))
    for side, player in enumerate(match.terms.players):
        clock = match.state.clock[side]
        who = f"{side_of(side)}: {parties.name(player)}, {player}"
        tree.add(Text(f"{who}, {clock} of {match.terms.clock} s left"))
    hearing = snapshot.hearing(job, match.id)
    words = Words(match.terms.program, moment, name=parties.name)
    branches = {"match": tree}
    for one in told(snapshot, match.id, hearing):
        text, of = words.of(one.event), f"trial {one.trial}" if one.trial else one.of
        if one.event.name == "Entered":
            branches["match"] = tree.add(Text(text, style="cyan"))
            continue
        if of not in branches:
            branches[of] = tree.add(Text(of, style="cyan"))
        if text:
            branches[of].add(Text(text))
    if hearing is not None and hearing.state.phase is not HearingPhase.DONE:
        until = f" until {moment(hearing.state.until)}" if hearing.state.until else ""
        branches.get("hearing", tree).add(Text(f"{hearing.state.phase.name.lower()}{until}", style="yellow"))
    tree.add(
        Text(_outcome(match, parties), style="bold green" if match.state.phase is Phase.DONE else "yellow")
    )
    return tree


def _outcome(match: MatchInfo, parties: Parties) -> str:
    from referee_py.game.state import Phase

    from ..client.dispute_words import CASES

    state = match.state
    if state.phase is Phase.HEARING:
        return "hearing: the panel decides it"
    if state.phase is not Phase.DONE:
        return f"{state.phase.name.lower()}: the next move is due {moment(match.deadline)}"
    case, what = CASES[state.reason]
    if state.losers == NOBODY:
        return f"decided, {case}: nobody was shown wrong"
    losers = " and ".join(
        f"{parties.name(match.terms.players[side])} ({side_of(side)})" for side in sides(state.losers)
    )
    return f"decided, {case}: {losers} lost, since {what}"


def _named(number: int, text: str) -> bool:
    return text == str(number) or (len(text) > 2 and whole(number).startswith(text.lower().rstrip("…")))
