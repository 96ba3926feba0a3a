"""`assay audit verify` and `assay audit coverage`: what receipts of auditors say, without a replay."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from referee_py.errors import InvalidInput, Unavailable

from .common import moment, out, plain, printable

if TYPE_CHECKING:
    from ..audit.coverage import Coverage
    from ..audit.published import PublishedRun
    from ..audit.receipt import Receipt


REFUSED, DIFFERS = 1, 1
"""Exit codes: a receipt is refused; some auditor that counts finds an interval wrong."""

PROVES = (
    "A receipt proves that the owner of its key says that a replay of this interval, from the checkpoint before it, "
    "had this result. It does not prove that he has replayed anything, that he is somebody else than the trainer or "
    "another auditor, when it was signed, or anything about other intervals. To replay it: `assay audit RUN`."
)
_SHOWN = 20

RunOption = Annotated[str, typer.Argument(help="A published run: a folder, or an address (http, https, s3).")]
RootOption = Annotated[str | None, typer.Option(help="The run root, known from elsewhere.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


def verify(
    receipts: Annotated[list[Path], typer.Argument(help="Receipts, or folders of receipts.")],
    run: Annotated[str | None, typer.Option(help="The published run that they have to be about.")] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check signatures and fields of receipts, and with --run or --root that they are about that run. Replays nothing.

    Exit code 1: a receipt is refused.
    """
    from ..audit.coverage import files_in
    from ..audit.receipt import difference
    from ..audit.receipt_file import Signed

    wanted = hash_of(root)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        published = open_run(run, Path(cache), wanted) if run is not None else None
        for path in files_in(receipts):
            try:
                receipt = Signed.read(path).receipt
            except (InvalidInput, OSError) as error:
                rows.append({"file": str(path), "refused": str(error)})
                continue
            why = difference(receipt, published) if published is not None else None
            if wanted is not None and receipt.root != wanted.hex():
                why = f"it is about the run with root {receipt.root}, not {wanted.hex()}"
            rows.append({"file": str(path), "refused": why} if why else _accepted(path, receipt))
    if not rows:
        raise InvalidInput("there is no receipt in these folders: their names end in .json")
    if as_json:
        typer.echo(json.dumps({"receipts": rows}))
    else:
        for row in rows:
            out.print(_words(row), soft_wrap=True, markup=False)
        if any("receipt" in row for row in rows):
            out.print(PROVES, soft_wrap=True, markup=False)
        if run is None and root is None:
            out.print(
                "Whether they are about a run is not checked: add --run RUN, or --root.", soft_wrap=True
            )
    if any("refused" in row for row in rows):
        raise typer.Exit(REFUSED)


def coverage(
    run: RunOption,
    receipts: Annotated[
        list[Path] | None,
        typer.Option(
            help="A folder of receipts, or one; may be repeated. Those of `assay audit RUN` if not given."
        ),
    ] = None,
    auditors: Annotated[
        str | None, typer.Option(help="Addresses that count, with commas between; all if not given.")
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which intervals of a run were checked by how many auditors, and the probability that a lie went unnoticed.

    Contradictions come first. Exit code 1: an auditor finds an interval wrong.
    """
    from ..audit.coverage import files_in, merge

    counted = auditors_of(auditors)
    files = files_in(receipts or [folder_for(run) / "receipts"])
    with tempfile.TemporaryDirectory() as cache:
        published = open_run(run, Path(cache), hash_of(root))
        found = merge(published, files, counted)
    if as_json:
        typer.echo(json.dumps({"root": published.claim.root, **_row(found)}))
    else:
        out.print(
            f"{printable(published.claim.name)}  {printable(run)}  root {published.claim.root}",
            soft_wrap=True,
            markup=False,
        )
        for line in _map(found):
            out.print(line, soft_wrap=True, markup=False)
    if found.contradictions or found.different:
        raise typer.Exit(DIFFERS)


def auditors_of(text: str | None) -> frozenset[str] | None:
    """Return the addresses that a flag gives; None for all. Raises InvalidInput."""
    return None if text is None else frozenset(map(_address, text.split(",")))


def hash_of(root: str | None) -> bytes | None:
    """Return the root that a flag gives. Raises InvalidInput."""
    if root is None:
        return None
    if len(root) != 64 or any(digit not in "0123456789abcdef" for digit in root):
        raise InvalidInput(f"--root {root[:80]!r} is not a hash of 64 hexadecimal digits")
    return bytes.fromhex(root)


def folder_for(address: str) -> Path:
    """Return where an audit of a run is kept if its folder is not named. Raises Unavailable."""
    name = "".join(c if c.isalnum() else "-" for c in address.rstrip("/").rpartition("/")[2])
    if not name:
        raise Unavailable(f"{address!r} has no name for a folder; add --out FOLDER")
    return Path(f"audit-{name[:60]}")


def open_run(run: str, cache: Path, root: bytes | None) -> PublishedRun:
    """Open a published run. Raises as `PublishedRun`."""
    from ..audit.address import Address
    from ..audit.published import PublishedRun
    from ..storage.store import Store

    return PublishedRun(Address(run), Store(cache, sync=False), root)


def _address(text: str) -> str:
    from eth_utils.address import is_address, to_checksum_address

    if not is_address(text.strip()):
        raise InvalidInput(
            f"--auditors: {text.strip()[:60]!r} is not an address; write 0x and 40 hexadecimal digits"
        )
    return str(to_checksum_address(text.strip()))


def _accepted(path: Path, receipt: Receipt) -> dict[str, Any]:
    from ..audit.receipt_kernels import kernel_digest

    same = receipt.kernels == kernel_digest(receipt.mode, receipt.device)
    return {"file": str(path), "receipt": receipt.model_dump(), "same_kernels": same}


def _words(row: dict[str, Any]) -> str:
    if "refused" in row:
        return f"{plain(row['file'])}: refused: {printable(row['refused'], 400)}"
    receipt: dict[str, Any] = row["receipt"]
    kernels = "the kernels of this installation" if row["same_kernels"] else "kernels of another build"
    return "\n".join(
        (
            f"{plain(row['file'])}: signed by {receipt['auditor']}",
            f"  interval {receipt['interval']} (steps {receipt['start'] + 1} to {receipt['end']}) of the run with root "
            f"{receipt['root']}: {receipt['verdict']}{_place(receipt)}",
            f"  on {receipt['device']} with {kernels}; by the auditor's clock {moment(receipt['time'])}",
        )
    )


def _place(receipt: dict[str, Any]) -> str:
    from ..audit.receipt import UNKNOWN

    known = [
        (name, receipt[name]) for name in ("step", "node", "output", "element") if receipt[name] != UNKNOWN
    ]
    return "".join(f", {name} {number}" for name, number in known)


def _row(found: Coverage) -> dict[str, Any]:
    return {
        "intervals": found.count,
        "agreed": found.agreed,
        "contradictions": found.contradictions,
        "different": found.different,
        "said": [
            {"interval": number, "match": sorted(said.match), "differ": sorted(said.differ)}
            for number, said in found.intervals.items()
        ],
        "spans": [{"first": a, "last": b, "auditors": keys} for a, b, keys in found.spans()],
        "missed": [{"wrong": lies, "chance": chance} for lies, chance in found.chances()],
        "refused": [{"file": file, "reason": reason} for file, reason in found.refused],
        "not_counted": sorted(found.strangers),
    }


def _map(found: Coverage) -> list[str]:
    """Return the lines to print: contradictions and differences first."""
    lines = []
    for title, numbers in (
        ("auditors contradict each other about", found.contradictions),
        ("only found wrong:", found.different),
    ):
        for number in numbers[:_SHOWN]:
            said = found.intervals[number]
            lines.append(f"{title} interval {number}")
            lines += [f"  MATCH    {address}" for address in sorted(said.match)[:_SHOWN]]
            for address, receipt in sorted(said.differ.items())[:_SHOWN]:
                lines.append(f"  DIFFERS  {address}{_place(receipt.model_dump())}")
        if len(numbers) > _SHOWN:
            lines.append(f"{title} {len(numbers) - _SHOWN} more intervals; --json has all")
    for file, reason in found.refused[:_SHOWN]:
        lines.append(f"refused: {plain(file)}: {printable(reason, 300)}")
    if len(found.refused) > _SHOWN:
        lines.append(f"refused: {len(found.refused) - _SHOWN} more files; --json has all")
    if found.strangers:
        lines.append(f"not counted: {len(found.left_out)} receipts of {len(found.strangers)} other auditors")
    lines.append(
        f"{found.agreed} of {found.count} intervals are found right by some auditor, and wrong by none"
    )
    spans = list(found.spans())
    for first, last, keys in spans[: 5 * _SHOWN]:
        which = f"interval {first}" if first == last else f"intervals {first} to {last}"
        lines.append(f"  {which}: {keys} auditor{'' if keys == 1 else 's'}")
    if len(spans) > 5 * _SHOWN:
        lines.append(f"  and {len(spans) - 5 * _SHOWN} more rows; --json has all")
    if found.contradictions or found.different:
        lines.append("Look into these first: `assay audit RUN --intervals N` replays an interval here.")
    else:
        lines.append(
            "chance that a lie was missed, if each interval could be checked, and the auditors drew at random and tell "
            "the truth:"
        )
        lines += [f"  {lies} wrong: {chance:.4g}" for lies, chance in found.chances()]
    lines.append(
        "Several keys may belong to one person, or to the trainer: count those you know with --auditors."
    )
    return lines
