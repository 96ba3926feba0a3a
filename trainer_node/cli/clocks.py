"""`assay clocks`: the clocks of the contracts, which a guardian can stop for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ..operate.deploy_defaults import NOBODY
from .common import ACCOUNT, CHAIN, JsonOption, moment, reader, send, show_json, show_rows, with_settings

if TYPE_CHECKING:
    from ..settings.settings import Settings

app = typer.Typer(no_args_is_help=True)


@app.command()
@with_settings(CHAIN)
def show(settings: Settings, as_json: JsonOption = False) -> None:
    """Show the contracts' time, who can stop their clocks, and for how long."""
    snapshot = reader(settings).snapshot()
    keeper = snapshot.timekeeper()
    behind = snapshot.block.timestamp - snapshot.now
    if as_json:
        show_json(
            {
                "now": snapshot.now,
                "behind_s": behind,
                "paused_until": keeper.paused_until or None,
                "guardian": None if keeper.guardian == NOBODY else keeper.guardian,
                "budget_s": keeper.budget,
                "left_s": keeper.left,
            }
        )
        return
    state = (
        f"stand still, until {moment(keeper.paused_until)} at the latest" if keeper.paused_until else "run"
    )
    guardian = "nobody" if keeper.guardian == NOBODY else keeper.guardian
    rows: dict[str, object] = {
        "time": f"{moment(snapshot.now)}, {behind} s behind the chain",
        "clocks": state,
        "guardian": guardian,
        "may stop them": f"{keeper.left} s more, of {keeper.budget} s",
    }
    show_rows("clocks", rows)


@app.command()
@with_settings(ACCOUNT)
def stop(settings: Settings) -> None:
    """Stop all clocks and periods. Only for the guardian; moves, claims and withdrawals continue."""
    from ..chain import Call

    send(settings, Call.of(reader(settings).contracts.timekeeper, "pause"))


@app.command()
@with_settings(ACCOUNT)
def start(settings: Settings) -> None:
    """Let the clocks run again. Only for the guardian."""
    from ..chain import Call

    send(settings, Call.of(reader(settings).contracts.timekeeper, "resume"))
