"""`assay pledge defend` and `assay pledge pursue`: the nodes of who answers a challenge, and of who has made it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from referee_py.errors import InvalidInput
from trainer_node.cli.common import DAEMON, JobNumber, out, reader, show_ether, with_settings

from .pledge_parts import USUAL_STEPS, Contract, File, Folder, backed_receipt, identity

if TYPE_CHECKING:
    from trainer_node.settings.settings import Settings


@with_settings(DAEMON)
def defend(
    settings: Settings,
    contract: Contract,
    owner: Annotated[str, typer.Argument(help="Account that has pledged.")],
    model: Folder,
    receipts: Annotated[Path, typer.Option("--receipts", help="Folder where assay serve keeps them.")],
) -> None:
    """Play the jobs of challenges of own receipts, and no others: claim the right run where another is claimed.

    Runs until interrupted. A wrong claim that nobody disputes costs a forfeit, so it must be on.
    """
    from trainer_node.errors import RpcCorrupt, RpcUnavailable
    from trainer_node.roles import challenger

    from .answer_run import AnswerRuns
    from .defence import Defence, settings_of
    from .model import Model
    from .pledge_job import Chain, job_lacks, needed, terms_of
    from .pledges import Pledges

    client = reader(settings)
    pledges, node_settings = Pledges(client, contract), settings_of(settings)
    Model.load(model)  # refuses a folder that is no model's, before there is a challenge
    try:
        job = pledges.conditions(owner), terms_of(USUAL_STEPS), Chain.of(client), node_settings
    except (RpcCorrupt, RpcUnavailable) as error:
        # SAFETY: what only warns keeps the node from no clock.
        out.print(f"conditions are not known: {error}", soft_wrap=True, markup=False)
    else:
        for line in job_lacks(*job):
            out.print(f"lacks: {line}", soft_wrap=True, markup=False)
        out.print(f"a challenge may take {show_ether(needed(*job))} of the account", soft_wrap=True)
    runs = functools.lru_cache(4)(lambda places: AnswerRuns(Model.load(model, places)))
    challenger.run(node_settings, chosen=lambda node: Defence(node, pledges, owner, runs, receipts).wants)


@with_settings(DAEMON)
def pursue(
    settings: Settings,
    receipt: File,
    job: JobNumber,
) -> None:
    """Claim the right run in the job of a challenge, in a slot or against who claims another. Runs until interrupted.

    No other job is looked at. Without it a challenge is lost, so it must be on until the job is over.
    """
    from trainer_node.errors import RpcCorrupt, RpcUnavailable
    from trainer_node.roles import pursuer

    from .defence import settings_of
    from .pledge_address import address_of

    signed = backed_receipt(receipt)
    assert signed.backed is not None
    about = job, signed.backed.contract.lower(), signed.backed.program
    try:
        client = reader(settings)
        if identity(client.snapshot().job(job)) != about or about[1] != address_of(client).lower():
            raise InvalidInput(f"job {job} is not of a challenge of this receipt; see assay pledge show")
    except (RpcCorrupt, RpcUnavailable) as error:
        # SAFETY: a node with a stake comes up again whatever endpoints say.
        out.print(f"job {job} is not known: {error}", soft_wrap=True, markup=False)
    pursuer.run(settings_of(settings), lambda found: identity(found) == about, job)
