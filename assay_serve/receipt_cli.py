"""`assay receipt`: what the receipt of an answer says, and whether it is so."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from referee_py.errors import InvalidInput
from trainer_node.cli.common import out, printable, show_rows
from trainer_node.storage.untrusted_file import read_plain

if TYPE_CHECKING:
    from .model import Model
    from .receipt import Signed

DIFFERS, UNCHECKED = 1, 4
"""Exit codes, as those of an audit."""
MAX_REQUEST_BYTES = 1 << 24

PROVES = (
    "the owner of this key says that the model below, asked so, gives these tokens",
    "whoever has the model can compute each of them again, with assay receipt verify",
)
NOT = (
    "that the answer is true, good or safe",
    "that it was computed by this server, or at this time",
    "that the answer ended where it had to: the reason is the server's word",
    "what the prompt said, unless the request is compared, too (--request)",
)

app = typer.Typer(no_args_is_help=True)
Files = Annotated[list[Path], typer.Argument(help="Receipts, as GET /v1/receipts/ID gives them.")]


@app.command("show")
def show(receipt: Files) -> None:
    """Show what receipts say, what they prove, and what not. Needs no model."""
    from .receipt import value_of

    for path in receipt:
        signed = read_receipt(path)
        said, lists = signed.receipt, signed.lists
        show_rows(
            "receipt",
            {
                "id": said.id,
                "signed by": said.server,
                "at": datetime.fromtimestamp(said.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "model": said.model,
                "its weights": said.weights,
                "its step": f"{said.step}, {said.places} places",
                "its tokenizer": said.tokenizer,
                "its template": said.template,
                "prompt": f"{len(lists.prompt)} tokens, {said.prompt}",
                "answer": f"{len(lists.tokens)} tokens, {said.output}; ended by {said.finish}",
                "temperature": f"{value_of(said.temperature):.9g}",
                "top_p": f"{value_of(said.topP):.9g}",
                "top_k": said.topK or "all",
                "seed": said.seed,
                "steps": said.steps,
                "kernels": said.kernels,
                **_pledge_rows(signed),
            },
        )
        for title, words in (("proves", PROVES), ("does not prove", NOT)):
            for line in words:
                out.print(f"{title}: {line}", soft_wrap=True, markup=False)


@app.command("verify")
def verify(
    receipt: Files,
    model: Annotated[Path, typer.Option(help="Folder of the model.")],
    tokens: Annotated[
        str, typer.Option(help="Which to compute again: all, sample:N, or numbers such as 3,7-9.")
    ] = "all",
    seed: Annotated[int | None, typer.Option(help="Draw the sample from this number, to repeat it.")] = None,
    request: Annotated[
        Path | None, typer.Option(help="The request's JSON: its prompt must give the tokens of the receipt.")
    ] = None,
    signer: Annotated[str | None, typer.Option(help="Address that must have signed.")] = None,
) -> None:
    """Compute tokens of answers again, and compare them with their receipts.

    Exit codes: 0 all match; 1 one differs; 4 none differs, and one could not be checked.
    """
    from .model import Model, WrongPlaces
    from .replay import Finding, Replayer, Verdict, chosen

    read = [(path, read_receipt(path)) for path in receipt]
    loaded: dict[int, tuple[Model, Replayer]] = {}
    verdicts = []
    for path, signed in read:
        said = signed.receipt
        if signer is not None and said.server.lower() != signer.lower():
            raise InvalidInput(f"{path} is signed by {said.server}, not by {signer[:80]}")
        numbers = chosen(tokens, len(signed.lists.tokens), seed)
        try:
            if said.places not in loaded:
                made = Model.load(model, said.places)
                loaded[said.places] = made, Replayer(made)
            found_model, replayer = loaded[said.places]
            prompt = None if request is None else _prompt_of(request, found_model)
            found = replayer.check(signed, numbers, prompt)
        except WrongPlaces as error:
            found = Finding(Verdict.UNCHECKED, f"it is about another model: {error}")
        verdicts.append(found.verdict)
        words = f"{len(found.checked)} of {len(signed.lists.tokens)} tokens computed again"
        out.print(printable(f"{path}: {found.words()}; {words}", 600), soft_wrap=True, markup=False)
    if Verdict.DIFFERS in verdicts:
        raise typer.Exit(DIFFERS)
    if Verdict.UNCHECKED in verdicts:
        raise typer.Exit(UNCHECKED)


def _pledge_rows(signed: Signed) -> dict[str, object]:
    if (backed := signed.backed) is None:
        return {"pledge": "none"}
    until = datetime.fromtimestamp(backed.until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "pledge": f"of {backed.owner} at {backed.contract} on chain {backed.chain}; see assay pledge check",
        "challenged until": until,
        "its run": f"program {backed.program}, file {backed.file}",
    }


def read_receipt(path: Path) -> Signed:
    """Read and check a receipt in a file. Raises InvalidInput, InvalidEncoding."""
    from .receipt import MAX_BYTES, Signed

    try:
        return Signed.from_bytes(read_plain(path, MAX_BYTES))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}; name a file with a receipt") from error


def _prompt_of(path: Path, model: Model) -> list[int]:
    """Return the tokens of the prompt of a request in a file. Raises InvalidInput."""
    from .requests import ChatRequest, CompletionRequest, Kind, Refused, parse

    try:
        data = read_plain(path, MAX_REQUEST_BYTES)
        kind: Kind = ChatRequest if b'"messages"' in data else CompletionRequest
        prompts = parse(kind, data).prompts(model)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}; name the file of a request") from error
    except Refused as error:
        raise InvalidInput(f"{path} is no request: {error.message}; name the JSON that was sent") from error
    if len(prompts) != 1:
        raise InvalidInput(f"{path} has {len(prompts)} prompts; keep the one of this receipt")
    return prompts[0]
