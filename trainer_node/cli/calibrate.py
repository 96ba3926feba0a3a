"""`assay calibrate`: the divergence of libraries on a program, the size of its logs, and thresholds for dense ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from referee_py.errors import InvalidInput
from referee_py.params import MAX_BITS, MIN_BITS

from .common import out, progress_bar
from .extensions import captured
from .inspect import table_of

if TYPE_CHECKING:
    from referee_py.execute import State, StepTrace

    from ..local.bundle import Bundle


if TYPE_CHECKING:
    from ..rounded.divergence import Compared, Tally


def calibrate_command(
    program: Annotated[
        str,
        typer.Argument(
            help="A bundle's folder, a built-in recipe, or path/to/file.py:function (that file is run)."
        ),
    ],
    file: Annotated[
        Path | None, typer.Option("--out", help="Where to write the thresholds, for the setting calibration.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps to execute; fewer if the program has fewer.", min=1)] = 3,
    evaluators: Annotated[
        str,
        typer.Option(
            help="Two or more, by the names in `program run`; cuda is a GPU. The results of the first are used."
        ),
    ] = "torch,numpy,blocked,halves",
    bits: Annotated[
        int, typer.Option(help="Bits of a result in rounded-f64.", min=MIN_BITS, max=MAX_BITS)
    ] = MAX_BITS,
) -> None:
    """Compare evaluators on a program: divergences, the sizes of rounding logs, thresholds of dense ones.

    Ctrl-C ends the comparison early. Its results until then are shown, and written if they cover a whole step.
    """
    names = [name.strip() for name in evaluators.split(",")]
    if len(set(names)) != len(names) or len(names) < 2:
        raise InvalidInput(f"--evaluators {evaluators!r}; name two or more, each once")
    compared = _compared(bits, names)
    bundle = _bundle(program).with_mode(compared.rounding.mode)
    done = _execute(bundle, compared, min(steps, bundle.terms.steps))
    if not compared.tallies:
        out.print(f"{bundle.name} has no operator with a rounding log at {bits} bits", markup=False)
        return
    _show(compared.tallies)
    out.print(
        f"{bundle.name}: {done} of {bundle.terms.steps} steps, {bits} bits, {', '.join(names)}", markup=False
    )
    if file is not None and done:
        compared.calibration(bundle.terms.hash(), done).write(file)
        out.print(f"wrote {file}; a trainer uses it with the setting calibration", markup=False)
    elif file is not None:
        raise InvalidInput(f"no step was finished, so {file} is not written; let it run longer")


def _compared(bits: int, names: Sequence[str]) -> Compared:
    from ..run.devices import evaluator_of

    found = [evaluator_of("torch", "cuda") if name == "cuda" else evaluator_of(name) for name in names]
    from ..rounded.device import TensorEvaluator  # torch is there, or evaluator_of has raised
    from ..rounded.divergence import Compared, Fetched

    return Compared(
        bits, [Fetched("cuda", side) if isinstance(side, TensorEvaluator) else side for side in found]
    )


def _bundle(program: str) -> Bundle:
    from ..local.bundle import Bundle

    folder = Path(program)
    if folder.is_dir():
        return Bundle.read(folder)
    return captured(program)


def _execute(bundle: Bundle, compared: Compared, steps: int) -> int:
    """Execute the steps, or fewer on Ctrl-C; return the number of finished steps."""
    from referee_py.execute import Interpreter, Run

    run = Run.of(bundle, compared, executor=Interpreter(bundle.program, bundle.constants, compared))
    done = 0
    with progress_bar() as progress:
        bar = progress.add_task("comparing", total=steps)

        def tell(state: State, _trace: StepTrace | None) -> None:
            nonlocal done
            done = state.step
            progress.update(bar, completed=done)

        def look(_tally: Tally) -> None:
            seen = sum(tally.elements for tally in compared.tallies)
            progress.update(bar, description=f"{seen:,} elements compared")

        compared.on_look = look
        try:
            run.advance(run.initial(), steps, tell)
        except KeyboardInterrupt:
            progress.console.print("stopped early")
    return done


def _show(tallies: Sequence[Tally]) -> None:
    from referee_py.rounding.band import NARROW

    diverging = table_of(
        *("operator", "terms", "elements", "rounded apart", "divergence", "proven/seen", "probable/seen"),
        *("in proven band", "in probable band"),
    )
    dense = table_of("operator", "terms", "tau", "of half a quantum", "logged at fixed tau", "at this tau")
    for t in tallies:
        labels = t.operator, f"{t.terms:,}"
        within = [_times(1 / share if share else None) for share in (t.of_proven, t.of_probable)]
        bands = [_share(count, t.elements) for count in (t.in_proven, t.in_probable)]
        diverging.add_row(
            *labels, f"{t.elements:,}", _share(t.apart, t.elements), f"{t.quanta:.2g} q", *within, *bands
        )
        half = t.tau * 2.0 ** (t.bits - 8)
        logged = [_share(count, t.elements) for count in (t.at_fixed, t.at_tau)]
        dense.add_row(*labels, f"{t.tau:.6g}", f"1 - {1 - half:.2g}", *logged)
    # NOTE: never cut: on a narrow terminal the lines wrap.
    wide = Console(highlight=False, width=max(out.width, 160))
    wide.print("Divergence against the bounds (--bounds), and what sparse logs hold", style="bold")
    wide.print(diverging)
    wide.print(
        f"rounded apart, divergence (the largest, in quanta): where the proven bound is below {NARROW:g} quanta; "
        "elsewhere values are logged.\nproven/seen, probable/seen: bound over divergence, the least of all elements; "
        "below 0.5 some evaluator exceeded the bound.\n",
        style="dim",
    )
    wide.print("Thresholds of dense logs (--log dense)", style="bold")
    wide.print(dense)


def _share(count: int, of: int) -> str:
    return f"{count / of:.2g}" if of else "-"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3g}"
