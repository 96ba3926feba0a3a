"""`assay run`: two runs side by side, and the certificate of one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from referee_py.errors import InvalidInput

from .audit import OWN, Own
from .audit_receipts import RootOption, RunOption, auditors_of, hash_of, open_run
from .common import JsonOption, out, printable, show_json
from .flags import with_flags

if TYPE_CHECKING:
    from ..audit.run_diff import RunDiff

DIFFERS = 1
"""Exit code: the two differ."""
Side = Annotated[
    str,
    typer.Argument(help="A run (its folder or address), a claim.json, or a bundle.", show_default=False),
]
KEY = {name: OWN[name] for name in ("config", "keystore", "password_file")}
app = typer.Typer(no_args_is_help=True)


@app.command()
def diff(
    first: Side,
    second: Side,
    bundle: Annotated[
        Path | None, typer.Option(help="Bundle whose labels name operators and tensors.")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay/--no-replay", help="Replay one interval of each, to find the step.")
    ] = True,
    memory: Annotated[int, typer.Option(help="Limit in bytes on tensors and one step.", min=1)] = 8 << 30,
    device: Annotated[str, typer.Option(help="Where to replay: cpu or cuda.")] = "cpu",
    limit: Annotated[int, typer.Option(help="Most differences of a kind to list.", min=1)] = 20,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs, A and B: configuration, data, and the first step, operator and element that differ.

    Of claims and bundles alone what they have is compared. Exit code 1: they differ.
    """
    from ..audit.run_diff import NO_NAMES, Compared, compare
    from ..local.bundle import Bundle

    if device not in ("cpu", "cuda"):
        raise InvalidInput(f"device {device!r}; choose cpu or cuda")
    with tempfile.TemporaryDirectory(prefix="assay-diff-") as cache:
        one, other = (Compared.open(text, Path(cache)) for text in (first, second))
        known = one.bundle or other.bundle
        if bundle is not None:
            known = Bundle.read_of(bundle, {"A": one.program_file, "B": other.program_file})
        names = known.names if known is not None else NO_NAMES
        found = compare(one, other, names=names, replay=replay, max_memory=memory, device=device)
    if as_json:
        show_json(
            {"A": {"of": first, "root": one.root}, "B": {"of": second, "root": other.root}, **found.to_json()}
        )
    else:
        for letter, side in (("A", one), ("B", other)):
            root = f"  root {side.root}" if side.root is not None else ""
            out.print(Text(f"{letter}  {printable(side.text, 300)}{root}"), soft_wrap=True)
        for line in lines(found, limit):
            out.print(Text(line), soft_wrap=True)
    if not found.same:
        raise typer.Exit(DIFFERS)


@app.command()
@with_flags("own", KEY, lambda **flags: Own(flags))
def certificate(
    own: Own,
    run: RunOption,
    receipts: Annotated[
        list[Path] | None, typer.Option(help="A folder of receipts, or one. Repeatable.")
    ] = None,
    auditors: Annotated[
        str | None, typer.Option(help="Addresses that count, with commas between; all if not given.")
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="The run's bundle: its labels name the tensors.")
    ] = None,
    to: Annotated[Path, typer.Option("--out", help="Folder for certificate.json and badge.svg.")] = Path(
        "certificate"
    ),
    root: RootOption = None,
) -> None:
    """Write what receipts say of a run as a certificate: an in-toto statement, and a badge for a README.

    With --keystore also in an envelope that the key signs. Exit code 1: an interval was found wrong.
    """
    from ..audit.certificate import NO_NAMES, Result, certify_run
    from ..audit.coverage import files_in, merge
    from ..local.bundle import Bundle

    account = own.account()
    with tempfile.TemporaryDirectory(prefix="assay-certificate-") as cache:
        published = open_run(run, Path(cache), hash_of(root))
        given = files_in(receipts or ())
        counted = merge(published, given, auditors_of(auditors))
        for file, reason in counted.refused:
            out.print(
                Text(f"does not count: {printable(file, 200)}: {printable(reason, 300)}"), soft_wrap=True
            )
        known = None if bundle is None else Bundle.read_of(bundle, {"the run": published.claim.program_file})
        found = certify_run(published, counted, NO_NAMES if known is None else known.names)
    files = found.write(to, account)
    if not given:
        out.print("no receipts were given: an audit with --keystore writes them, --receipts reads them")
    out.print(Text(f"{found.summary}; written to {', '.join(map(str, files))}"), soft_wrap=True)
    if found.result is Result.WRONG:
        raise typer.Exit(DIFFERS)


def lines(found: RunDiff, limit: int) -> list[str]:
    """Return a comparison as lines for people."""
    from ..audit.parting import place_words

    told = []
    for kind, differs in found.configuration.items():
        told += [f"{kind}: {printable(one.what, 200)}: A {printable(one.first, 200)}, B {printable(one.second, 200)}"
                 for one in differs[:limit]]  # fmt: skip
        if len(differs) > limit:
            told.append(f"{kind}: {len(differs) - limit} more; raise --limit")
    if found.metric is not None:
        step, one = found.metric
        told.append(f"metrics: {printable(one.what)} differs first after step {step}: A {printable(one.first)}, "
                    f"B {printable(one.second)}")  # fmt: skip
    if found.place is not None:
        told.append(f"the runs part: {printable(place_words(found.place), 800)}")
    elif found.unparted and told:
        told.append(printable(found.unparted, 800))
    return told or [f"no difference ({found.compared} compared)"]
