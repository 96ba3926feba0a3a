"""`assay pledge`: ether behind the receipts of a server, and challenges of them (docs/protocol.md, section 11)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from referee_py.errors import InvalidInput
from trainer_node.cli.common import (
    ACCOUNT,
    CHAIN,
    SERVE,
    ether,
    gas_price,
    moment,
    out,
    reader,
    send,
    sender,
    show_ether,
    show_rows,
    with_settings,
)
from trainer_node.cli.flags import flag, only_given, with_flags

from .pledge_nodes import defend, pursue
from .pledge_page import lacks, show_pledge
from .pledge_parts import (
    USUAL_STEPS,
    Contract,
    File,
    Folder,
    backed_receipt,
    first_open,
    pledge_of,
    run_of,
    store_of,
    wrong_run,
)

if TYPE_CHECKING:
    from trainer_node.settings.settings import Settings


REFUSED = 1
"""Exit code where a pledge is not what a receipt needs."""
WAIT_S, TRIES = 1.0, 600

app = typer.Typer(no_args_is_help=True)
app.command()(defend)
app.command()(pursue)

_JOB = "Job of a challenge"
JOB = {
    "stake": flag(str, "--stake", "Least stake of a claim, in ether; the least if not given.", _JOB),
    "low_fee": flag(str, "--low-fee", "Least price of a unit of gas, as 5gwei; the chain's least.", _JOB),
    "high_fee": flag(str, "--high-fee", "Highest price that it counts for; 25 times the least.", _JOB),
    "train_period": flag(int, "--train", "Training phase, in seconds: 3600.", _JOB, min=0),
    "reveal_period": flag(int, "--reveal", "Reveal phase, in seconds.", _JOB, min=0),
    "challenge_period": flag(int, "--challenge", "Challenge phase, in seconds.", _JOB, min=0),
    "clock": flag(int, "--clock", "Seconds for each side of a match.", _JOB, min=0),
    "verdict": flag(int, "--verdict", "Seconds that computing a checkpoint may take.", _JOB, min=0),
    "appeal": flag(int, "--appeal", "Seconds to appeal.", _JOB, min=0),
}


def _local(settings: Settings) -> None:
    """Refuse a chain whose ether matters. SAFETY: what attacks have found is open (docs/security.md, section 7)."""
    from trainer_node.settings.settings import LOCAL_CHAINS

    if settings.chain_id not in LOCAL_CHAINS:
        raise InvalidInput(
            f"pledges are for local chains as yet, and {settings.chain_id} is none: "
            "docs/security.md, section 7, says what is open"
        )


@app.command()
@with_settings(ACCOUNT)
def deploy(settings: Settings) -> None:
    """Deploy the contract Pledges of this deployment. Anybody may; all servers and clients share it."""
    from .pledge_address import address_of, deploying, is_deployed

    _local(settings)
    client = reader(settings)
    where = address_of(client)
    if is_deployed(client):
        out.print(f"Pledges at {where}, as before", soft_wrap=True)
        return
    with sender(settings) as transactions:
        receipt = transactions.send(deploying(client))
    out.print(f"Pledges at {where}, {receipt.gas_used:,} gas", soft_wrap=True)


@app.command()
@with_settings(ACCOUNT)
@with_flags("job", JOB, only_given)
def make(
    settings: Settings,
    job: dict[str, Any],
    contract: Contract,
    amount: Annotated[str, typer.Argument(help="Ether to pledge.")],
    signer: Annotated[str, typer.Option(help="Address that signs the receipts, as assay serve shows it.")],
    forfeit: Annotated[str, typer.Option(help="Ether that a receipt costs which is shown wrong.")],
    charge: Annotated[str, typer.Option(help="Ether that a challenge costs which shows nothing wrong.")],
    notice: Annotated[int, typer.Option(help="Seconds between notice and leaving.", min=1)],
) -> None:
    """Pledge ether behind receipts. The conditions never change: an account that wants others uses another key."""
    from referee_py.jobs import Rules
    from trainer_node.client.posting import default_periods

    from .pledge_job import Chain, job_lacks, terms_of
    from .pledges import Conditions, Pledges, least_stake

    _local(settings)
    client = reader(settings)
    pledges, snapshot, usual = (
        Pledges(client, contract),
        client.snapshot(),
        default_periods(settings.chain_id),
    )
    low = gas_price(job["low_fee"]) if "low_fee" in job else snapshot.least_fee()
    rules = Rules(
        0, job.get("verdict", usual.verdict), job.get("appeal", usual.appeal), job.get("clock", usual.clock)
    )
    least = max(snapshot.least_stake(), least_stake(ether(forfeit), ether(charge)))
    conditions = Conditions(
        signer=signer,
        forfeit=ether(forfeit),
        charge=ether(charge),
        notice=notice,
        stake=ether(job["stake"]) if "stake" in job else least,
        low_fee=low,
        high_fee=gas_price(job["high_fee"]) if "high_fee" in job else min(25 * low, (1 << 40) - 1),
        train_period=job.get("train_period", 3600),
        reveal_period=job.get("reveal_period", usual.reveal),
        challenge_period=job.get("challenge_period", usual.challenge),
        rules=rules,
    )
    if (why := pledges.refuses(conditions)) is not None:
        raise InvalidInput(f"no challenge could post a job of these conditions: {why}")
    if found := job_lacks(conditions, terms_of(USUAL_STEPS), Chain.of(client), settings):
        raise InvalidInput(
            f"clients would find something lacking: {'; '.join(found)}; choose other conditions"
        )
    send(settings, pledges.pledging(conditions, ether(amount)))


@app.command()
@with_settings(CHAIN)
def show(
    settings: Settings,
    contract: Contract,
    owner: Annotated[str, typer.Argument(help="Account that has pledged.")],
) -> None:
    """Show what an account has pledged, on which conditions, and which challenges are open."""
    from .pledges import Pledges

    client = reader(settings)
    pledges = Pledges(client, contract)
    conditions, kept = pledges.conditions(owner), pledges.pledge(owner)
    show_pledge(conditions, kept)
    for number in range(kept.decided, kept.opened):
        found = pledges.open(owner, number)
        told = pledges.challenged(client.snapshot().job(found.job_id))
        rows = {
            "receipt": "not known" if told is None else told.answer,
            "job": found.job_id,
            "by": found.challenger,
            "digest": found.digest.hex(),
        }
        if found.closes_at:
            rows["closes"] = f"{moment(found.closes_at)}, unless it is decided before"
        show_rows(f"challenge {number}", rows)


@app.command()
@with_settings(CHAIN)
def check(settings: Settings, receipt: File) -> None:
    """Ask the chain what is behind a receipt. Exit code 1: not enough for it to be challenged until its last second."""
    from .answer_run import steps_of
    from .pledge_job import Chain, job_lacks, needed, terms_of

    _local(settings)
    signed = backed_receipt(receipt)
    client = reader(settings)
    pledges, conditions, kept = pledge_of(client, signed)
    show_pledge(conditions, kept)
    found = lacks(pledges, signed, conditions, kept, client.snapshot().now, conditions.forfeit)
    job = conditions, terms_of(steps_of(signed)), Chain.of(client), settings
    found += job_lacks(*job)
    takes = needed(*job) + conditions.charge
    out.print(f"an account that challenges has {show_ether(takes)} at least", soft_wrap=True)
    for line in found:
        out.print(f"lacks: {line}", soft_wrap=True, markup=False)
    if found:
        raise typer.Exit(REFUSED)


@app.command()
@with_settings({**ACCOUNT, **SERVE})
def challenge(
    settings: Settings,
    receipt: File,
    model: Folder,
    least: Annotated[
        str | None, typer.Option(help="Ether that must be pledged and free; the forfeit if not given.")
    ] = None,
) -> None:
    """Challenge a receipt that is found wrong here: posts the job of its run.

    Then claim the right run in that job, and dispute what others claim: `assay pledge pursue`, which serves the run's
    artifacts at --public-uri.
    """
    from trainer_node.errors import Reverted
    from trainer_node.run.package import package_names

    from .pledge_job import Chain, job_lacks, needed
    from .pledges import commitment, new_salt

    _local(settings)
    if settings.public_uri is None and not settings.port:
        raise InvalidInput(
            "others must know where the run's artifacts are; set --public-uri, or --port for a local one"
        )
    signed = backed_receipt(receipt)
    bundle, run_s = wrong_run(model, signed)
    client = reader(settings)
    pledges, conditions, kept = pledge_of(client, signed)
    assert signed.backed is not None
    free = conditions.forfeit if least is None else ether(least)
    snapshot = client.snapshot()
    takes_s = snapshot.commit_age() + int(2 * settings.latency_s)
    found = lacks(pledges, signed, conditions, kept, snapshot.now, free, takes_s)
    job = conditions, bundle.terms, Chain.of(client), settings
    found += job_lacks(*job, run_s)
    if found:
        raise InvalidInput(f"a challenge of it may be lost: {'; '.join(found)}")
    store = store_of(settings)
    file_hash = bundle.put(store)
    uri = settings.public_uri or f"http://{settings.host}:{settings.port}"
    salt = new_salt()
    call = pledges.challenge(conditions, signed, bundle, uri, free, salt)
    with sender(settings) as transactions:
        transactions.confirm()  # of an earlier challenge that was interrupted
        if (before := pledges.open_of(signed.backed.owner, transactions.address)) is not None:
            raise InvalidInput(
                f"job {before.job_id} is of an open challenge by this account, which plays one at a time; decide "
                "that first, or challenge from another account"
            )
        # SAFETY: a node that cannot pay for the dispute claims nothing, and the charge is lost.
        if (takes := needed(*job) + conditions.charge) > (has := transactions.balance()):
            raise InvalidInput(
                f"a challenge takes {show_ether(takes)}, most of it to stake and to dispute with, and the account has "
                f"{show_ether(has)}: send ether to it, or lower fees.max_fee_gwei"
            )
        transactions.send(pledges.commit(commitment(transactions.address, signed.backed.digest, salt)))
        age = snapshot.commit_age()
        out.print(f"committed; the challenge follows in {age} seconds", soft_wrap=True)
        for left in reversed(range(age + TRIES)):
            time.sleep(WAIT_S)
            try:
                done = transactions.send(call)
            except Reverted as error:
                if error.name != "TooSoon" or not left:
                    raise
            else:
                break
    number, posted = pledges.number_of(done)
    store.held_by(posted).hold(*package_names(bundle.program, file_hash))
    out.print(
        f"challenge {number}, job {posted}, {done.gas_used:,} gas; artifacts at {uri}\n"
        f"now claim the right run there: assay pledge pursue {receipt} {posted}\n"
        f"decide within {conditions.challenge_period} s after the job is over: later anybody may close the challenge",
        soft_wrap=True,
    )


@app.command()
@with_settings(ACCOUNT)
def decide(settings: Settings, receipt: File, model: Folder) -> None:
    """Decide the first open challenge of a pledge, which must be of this receipt, once its job is over."""
    from trainer_node.chain import JobPhase

    from .pledges import NOTHING_WRITTEN, written

    signed = backed_receipt(receipt)
    pledges, conditions, job = first_open(reader(settings), signed)
    assert signed.backed is not None
    proof = NOTHING_WRITTEN
    if job.phase is JobPhase.ACCEPTED:
        own = written(run_of(model, signed))
        if own.root != job.accepted_root:
            raise InvalidInput(
                f"job {job.id} has accepted another run than this model's; who claimed it can decide"
            )
        proof = own.words
    send(settings, pledges.decide(conditions, signed, proof))
    wrong = pledges.is_wrong(signed.backed.digest)
    out.print("the receipt is wrong" if wrong else "nothing wrong was shown of the receipt")


@app.command()
@with_settings(ACCOUNT)
def close(settings: Settings, receipt: File) -> None:
    """Close that challenge, since nobody shows what its job has accepted: once to say so, and after a period again."""
    signed = backed_receipt(receipt)
    pledges, conditions, _ = first_open(reader(settings), signed)
    send(settings, pledges.close(conditions, signed))


@app.command()
@with_settings(ACCOUNT)
def notice(settings: Settings, contract: Contract) -> None:
    """Announce that the pledge of this account leaves."""
    from .pledges import Pledges

    pledges = Pledges(reader(settings), contract)
    with sender(settings) as transactions:
        transactions.send(pledges.notice(pledges.conditions(transactions.address)))
        leaves = pledges.pledge(transactions.address).leaves_at
    out.print(f"it leaves at {moment(leaves)}, once no challenge is open", soft_wrap=True)


@app.command()
@with_settings(ACCOUNT)
def reclaim(settings: Settings, contract: Contract) -> None:
    """Take the pledge of this account back, after its notice."""
    from .pledges import Pledges

    pledges = Pledges(reader(settings), contract)
    with sender(settings) as transactions:
        transactions.send(pledges.reclaim())
        transactions.send(pledges.withdraw())
    out.print("reclaimed and withdrawn")


@app.command()
@with_settings(ACCOUNT)
def withdraw(settings: Settings, contract: Contract) -> None:
    """Withdraw what the contract owes this account: prizes, charges."""
    from .pledges import Pledges

    send(settings, Pledges(reader(settings), contract).withdraw())
