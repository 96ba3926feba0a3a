"""`assay demo`: a job with a liar in it, on its own local chain."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from trainer_node.cli.arithmetic import ModeFlags, with_mode
from trainer_node.cli.common import CHALLENGER, DAEMON, CourtOnlyOption, out, with_settings
from trainer_node.cli.completion import among
from trainer_node.cli.flags import flag, only_given, with_flags
from trainer_node.suggest import did_you_mean

from .names import NETWORK, Fault, LocalChain, Scenario
from .processes import ended_by_signals

if TYPE_CHECKING:
    from trainer_node.settings.settings import Settings

    from .demo import Result

ALL = "all"


@with_mode
@ended_by_signals()
def demo(
    mode: ModeFlags,
    fault: Annotated[
        str,
        typer.Option(
            help=f"The lie: {', '.join(Fault)}, or {ALL} for each in turn.",
            autocompletion=among([*Fault, ALL]),
        ),
    ] = Fault.WRONG_OP_OUTPUT,
    scenario: Annotated[
        str | None,
        typer.Option(
            help=f"The parties of the dispute: {', '.join(Scenario)}. In rounded-f64 one trainer only.",
            autocompletion=among(Scenario),
        ),
    ] = None,
    court_only: CourtOnlyOption = False,
    steps: Annotated[
        int, typer.Option(help="Training steps of the built-in program.", min=20, max=100_000)
    ] = 300,
    bundle: Annotated[
        Path | None, typer.Option(help="Another program, written by `assay program build`.")
    ] = None,
    fault_step: Annotated[
        int | None, typer.Option(help="First step of the lie; just after the middle if not given.", min=1)
    ] = None,
    fault_node: Annotated[
        int | None, typer.Option(help="The operator that wrong-op-output gets wrong.", min=0)
    ] = None,
    chain: Annotated[
        LocalChain,
        typer.Option(
            help=f"{LocalChain.PRAGUE} is a chain without the opcode CLZ, with the portable contracts."
        ),
    ] = LocalChain.ANVIL,
    explorer: Annotated[
        bool, typer.Option("--explorer", help="Also show it in a web page, which stays until Ctrl-C.")
    ] = False,
    folder: Annotated[
        Path,
        typer.Option(
            help=f"Folder for everything that is written; in it, {NETWORK}, which an earlier demonstration has made, "
            "is emptied first."
        ),
    ] = Path(".build/demo"),
) -> None:
    """Start a chain, deploy, train, cheat, dispute, and check that the truth has won."""
    from referee_py.program.modes import USUAL, mode_of
    from trainer_node.local.bundle import Bundle
    from trainer_node.storage.made_folders import check as check_folder
    from trainer_node.storage.made_folders import removed

    from .demo import BY, MANY, STRIDES, check, digits, middle, play
    from .faults import Lie, first_narrow_product, fits

    try:
        chosen = Scenario(scenario) if scenario is not None else None
        lies = list(Fault) if fault == ALL else [Fault(fault)]
    except ValueError as error:
        word = fault if fault not in {*Fault, ALL} else str(scenario)
        raise typer.BadParameter(
            f"{error}{did_you_mean(word, [*Fault, ALL, *Scenario])}; faults are {', '.join(Fault)} and {ALL}, "
            f"scenarios {', '.join(Scenario)}"
        ) from None
    if explorer and len(lies) > 1:
        raise typer.BadParameter(f"--explorer shows one demonstration; choose a fault in place of {ALL}")
    check_folder(folder / NETWORK, BY)
    strides = MANY if chosen is Scenario.SAMPLING else STRIDES
    narrow = mode_of(mode.over(USUAL.byte)).for_bf16
    source = bundle or digits(folder, steps, strides, bf16=narrow)
    program = Bundle.read(source)
    program = program.with_mode(mode.over(program.terms.mode))
    if chosen is None:
        chosen = Scenario.TRAINERS if program.terms.arithmetic.many_trainers else Scenario.LONE_LIAR
    if fault == ALL:
        lies = [lie for lie in lies if fits(lie, program.terms.arithmetic)]
    check(chosen, program.terms.arithmetic, lies, court_only=court_only)
    if fault_node is None and program.terms.arithmetic.for_bf16:
        fault_node = first_narrow_product(program.program)
    step = fault_step or middle(program.terms.steps, chosen)
    if step > program.terms.steps or (fault_node or 0) >= len(program.program.nodes):
        raise typer.BadParameter(
            f"step {step}, operator {fault_node}; the program has {program.terms.steps} steps "
            f"and {len(program.program.nodes)} operators"
        )
    results = {}
    for lie in lies:
        if len(lies) > 1:
            out.rule(f"[bold]{lie}")
        shown = source if explorer else None
        results[lie] = play(
            chosen,
            Lie(lie, step, fault_node),
            program,
            folder,
            court_only=court_only,
            explorer=shown,
            chain=chain,
        )
    if len(lies) > 1:
        out.rule("[bold]summary")
        out.print(_summary(results))
    if not all(result.just for result in results.values()):
        raise typer.Exit(1)
    removed(folder / NETWORK, BY)


def _summary(results: dict[Fault, Result]) -> Table:
    table = Table("lie", "", "decided by", "step", "operator", "transactions", "gas", "seconds", box=None)
    for lie, result in results.items():
        outcome = "[green]just[/green]" if result.just else "[red]UNJUST[/red]"
        seconds = f"{result.seconds:.0f}"
        if not result.disputes:
            table.add_row(lie, outcome, "no dispute", "", "", "", "", seconds)
        for match in result.disputes:
            operator = "" if match.operator is None else str(match.operator)
            words = (match.reason.name.lower().replace("_", " "), str(match.step), operator)
            table.add_row(lie, outcome, *words, str(match.transactions), f"{match.gas:,}", seconds)
    return table


lab = typer.Typer(no_args_is_help=True)

_lie = functools.partial(flag, panel=None)
_DETAILS: dict[str, Any] = {
    "step": _lie(int, "--fault-step", "The step in which the lie begins.", min=1),
    "node": _lie(int, "--fault-node", "The operator that wrong-op-output gets wrong.", min=0),
    "appeals": _lie(bool, "--fault-appeals", "Appeal from verdicts against the lie, and lose the bond."),
}


def _fault(text: str) -> Fault:
    """Return a lie by its name. Raises BadParameter."""
    try:
        return Fault(text)
    except ValueError:
        close = did_you_mean(text, Fault)
        raise typer.BadParameter(f"{text[:40]!r} is not a lie{close}; lies are {', '.join(Fault)}") from None


FaultOption = Annotated[
    Fault,
    typer.Option(
        "--fault",
        help=f"Cheat in this way; only on your own chain: {', '.join(Fault)}.",
        show_default=False,
        parser=_fault,
        autocompletion=among(Fault),
        metavar="LIE",
    ),
]


@lab.command("trainer")
@with_settings(DAEMON)
@with_flags("details", _DETAILS, only_given)
def run_trainer(settings: Settings, fault: FaultOption, details: dict[str, Any]) -> None:
    """Run a trainer that cheats."""
    from .daemons import run_trainer as run
    from .faults import Lie

    run(settings, Lie(fault, **details))


@lab.command("challenger")
@with_settings(CHALLENGER)
@with_flags("details", _DETAILS, only_given)
def run_challenger(settings: Settings, fault: FaultOption, details: dict[str, Any]) -> None:
    """Run a challenger that disputes right results. It needs no --mode: one that only watches would dispute nothing."""
    from trainer_node.settings.extent import Mode

    from .daemons import run_challenger as run
    from .faults import Lie

    if settings.mode is Mode.WATCH:
        settings = settings.model_copy(update={"mode": Mode.CHALLENGE})
    run(settings, Lie(fault, **details))


@lab.command("verifier")
@with_settings(DAEMON)
def run_verifier(settings: Settings) -> None:
    """Run a verifier that signs what is wrong."""
    from .daemons import run_verifier as run

    run(settings)
