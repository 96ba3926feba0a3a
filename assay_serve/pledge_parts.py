"""Parts that the commands of `assay pledge` have in common: a receipt, its pledge, its run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from referee_py.errors import InvalidInput

from .receipt_cli import read_receipt

if TYPE_CHECKING:
    from trainer_node.chain import ChainClient, JobView
    from trainer_node.local.bundle import Bundle
    from trainer_node.settings.settings import Settings
    from trainer_node.storage.store import Store

    from .pledges import Conditions, Pledge, Pledges
    from .receipt import Signed


Contract = Annotated[str, typer.Argument(help="Address of the contract Pledges.")]
Folder = Annotated[Path, typer.Option("--model", help="Folder of the model.")]
File = Annotated[Path, typer.Argument(help="Receipt with a pledge behind it.")]
USUAL_STEPS = 4096
"""Steps of a run by which conditions are judged before there are receipts."""


def backed_receipt(path: Path) -> Signed:
    signed = read_receipt(path)
    if signed.backed is None:
        raise InvalidInput(f"{path} has no pledge behind it: its server signed nothing for a chain")
    return signed


def pledge_of(client: ChainClient, signed: Signed) -> tuple[Pledges, Conditions, Pledge]:
    from .pledges import Pledges

    assert signed.backed is not None
    backed = signed.backed
    if backed.chain != client.deployment.chain_id:
        raise InvalidInput(f"its pledge is on chain {backed.chain}, not on {client.deployment.chain_id}")
    pledges = Pledges(client, backed.contract)
    return pledges, pledges.conditions(backed.owner), pledges.pledge(backed.owner)


def first_open(client: ChainClient, signed: Signed) -> tuple[Pledges, Conditions, JobView]:
    """Return the job, which is over, of the first open challenge. Raises InvalidInput unless it is of this receipt."""
    pledges, conditions, kept = pledge_of(client, signed)
    assert signed.backed is not None
    found = pledges.open(signed.backed.owner, kept.decided)
    if found.digest != signed.backed.digest:
        raise InvalidInput(
            "the first open challenge, if there is one, is of another receipt; see assay pledge show"
        )
    job = client.snapshot().job(found.job_id)
    if not job.phase.ended:
        raise InvalidInput(
            f"job {job.id} is in the phase {job.phase.name.lower()}; wait, or end it: assay job finalize {job.id}"
        )
    return pledges, conditions, job


def identity(job: JobView) -> tuple[int, str, str]:
    """Return what tells a challenge's job from all others: its number, its client in small letters, and its program's
    hash in hex."""
    return job.id, job.client.lower(), job.program.hash().hex()


def run_of(folder: Path, signed: Signed) -> Bundle:
    """Return the run of a receipt with a model's tensors. Raises InvalidInput for that of another model."""
    from .answer_run import AnswerRuns, bundle_of
    from .model import Model

    assert signed.backed is not None
    bundle = bundle_of(AnswerRuns(Model.load(folder, signed.receipt.places)), signed)
    # SAFETY: with the hash of another file nobody could play the job.
    found = bundle.terms.hash().hex(), bundle.program.file_hash().hex()
    if found != (signed.backed.program, signed.backed.file):
        raise InvalidInput("its pledge is behind a run of another model, or of another answer")
    return bundle


def wrong_run(folder: Path, signed: Signed) -> tuple[Bundle, float]:
    """Return the run of a receipt whose tokens are not those of the model, and the seconds of computing it. Raises
    InvalidInput if they are those of the model."""
    from .backed import written_hash
    from .pledges import written

    bundle = run_of(folder, signed)
    lists = signed.lists
    began = time.monotonic()
    if written(bundle).value == written_hash(signed.receipt.places, lists.prompt, lists.tokens):
        raise InvalidInput("its tokens are those of the model: a challenge would cost the charge")
    return bundle, time.monotonic() - began


def store_of(settings: Settings) -> Store:
    from trainer_node.storage.store import Store

    return Store(settings.data_dir / "artifacts", max_bytes=settings.limits.artifact_bytes)
