"""`assay job`: post jobs, show them, end them, withdraw the money."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from referee_py.errors import InvalidInput

from ..ids import whole
from . import result, watch
from .arithmetic import ModeFlags, with_mode
from .common import (
    ACCOUNT,
    CHAIN,
    SERVE,
    CourtOnlyOption,
    JobNumber,
    JsonOption,
    ether,
    gas_price,
    out,
    reader,
    sender,
    show_ether,
    show_json,
    show_rows,
    with_settings,
)
from .job_page import job_row, print_terms, standing, whole_row

if TYPE_CHECKING:
    from ..chain import ChainClient
    from ..chain.outbox import Call
    from ..settings.settings import Settings

app = typer.Typer(no_args_is_help=True)

DEFAULT_STAKE = 10**17
FEE_RANGE, MAX_FEE = 25, 2**40 - 1
"""Default high fee as a multiple of the low one; the largest fee, in wei, that the contract takes."""


def _seconds(text: str) -> Any:
    """Return the option of a period. NOTE: the contract has narrower limits, which its refusal names."""
    return typer.Option(help=text, min=0, max=(1 << 32) - 1)


Collected = Annotated[
    list[int] | None,
    typer.Option(
        "--job",
        help="First collect the share of our claim in this job, or its bounty, once the job is over. Repeatable.",
    ),
]


@app.command()
@with_settings({**ACCOUNT, **SERVE})
@with_mode
def post(
    settings: Settings,
    mode: ModeFlags,
    bundle: Annotated[Path, typer.Argument(help="Bundle made by `assay program build`.")],
    reward: Annotated[str, typer.Option(help="Reward, in ether.")] = "1",
    stake: Annotated[
        str | None,
        typer.Option(
            help="Least stake of a claim, in ether; if not given, 0.1 or the chain's least, if that is more."
        ),
    ] = None,
    low_fee: Annotated[
        str | None,
        typer.Option(
            help="Least price that a unit of gas counts for, as 5gwei; stakes and deposits follow it. If not given, "
            "the chain's least."
        ),
    ] = None,
    high_fee: Annotated[
        str | None,
        typer.Option(help=f"Highest price that it counts for; if not given, {FEE_RANGE} times the least."),
    ] = None,
    slots: Annotated[int, typer.Option(help="Number of trainers wanted.", min=1, max=16)] = 1,
    train: Annotated[int, _seconds("Training phase, in seconds.")] = 3600,
    watch: Annotated[
        str,
        typer.Option(
            help="Bounty, in ether, for those who committed to the right result before any reveal; not in rounded-f64."
        ),
    ] = "0",
    watch_shares: Annotated[
        int, typer.Option(help="Number of shares of the bounty: nobody gets more than one.", min=1, max=255)
    ] = 4,
    watch_period: Annotated[
        int,
        _seconds(
            "Seconds between the last trainer's commitment and the first reveal, in which watchers finish. As "
            "long as a run takes, if --watch must be of use."
        ),
    ] = 0,
    reveal: Annotated[
        int | None,
        _seconds(
            "Reveal phase, in seconds; it ends when all have revealed. [default: 21600; 600 on a development chain]"
        ),
    ] = None,
    challenge: Annotated[
        int | None, _seconds("Challenge phase, in seconds. [default: a day; 3600 on a development chain]")
    ] = None,
    clock: Annotated[
        int | None,
        _seconds("Seconds for each side of a match. [default: a day; 7200 on a development chain]"),
    ] = None,
    court_only: CourtOnlyOption = False,
    verdict: Annotated[
        int | None,
        _seconds("Seconds for the verifiers' verdict. [default: 21600; 1800 on a development chain]"),
    ] = None,
    appeal: Annotated[
        int | None,
        _seconds(
            "Seconds to appeal from a verdict, and for its signers to stand by it. [default: a day; 1800 on a "
            "development chain]"
        ),
    ] = None,
    verifier: Annotated[
        list[str] | None,
        typer.Option(help="Address of a verifier; repeat it. All registered ones if not given."),
    ] = None,
    threshold: Annotated[
        int, typer.Option(help="Verifiers needed for a verdict; 0 is a majority.", min=0, max=255)
    ] = 0,
    ether_price: Annotated[
        str | None, typer.Option(help="Price of an ether, as 2500USD: costs are told in that currency, too.")
    ] = None,
    costs: Annotated[
        bool, typer.Option("--costs", help="Say what it costs, and post nothing. Needs no key.")
    ] = False,
) -> None:
    """Post a job for a bundle: say what it costs, check it, put its artifacts into the store, escrow the reward.

    Serve the artifacts at --public-uri with `assay artifacts serve`. Without --mode the arithmetic is the bundle's. In
    rounded-f64 there is one slot.
    """
    from eth_utils.address import is_checksum_address

    from ..client.default_nodes import Market, answers
    from ..client.default_verifiers import chosen
    from ..client.posting import Offer, default_periods, not_served, post_job
    from ..client.posting_costs import Price, costs_of, lines
    from ..local.bundle import Bundle
    from ..storage.store import Store

    price = None if ether_price is None else Price.of(ether_price)
    client = reader(settings)
    content = Bundle.read(bundle)
    content = content.with_mode(mode.over(content.terms.mode))
    verifiers = verifier or []
    for address in verifiers:
        if not is_checksum_address(address):
            raise InvalidInput(
                f"--verifier {address} is not an address with its checksum; `assay verifier list` shows them"
            )
    if court_only and (verifiers or threshold):
        raise InvalidInput("--court-only means without verifiers; leave out --verifier and --threshold")
    if settings.public_uri is None and not settings.port:
        raise InvalidInput(
            "trainers must know where the artifacts are; set --public-uri, or --port for a local one"
        )
    uri = settings.public_uri or f"http://{settings.host}:{settings.port}"
    snapshot = client.snapshot()
    usual = default_periods(settings.chain_id)
    low = gas_price(low_fee) if low_fee is not None else snapshot.least_fee()
    high = gas_price(high_fee) if high_fee is not None else min(FEE_RANGE * low, MAX_FEE)
    if not court_only and not verifiers:
        verifiers, left_out = chosen(
            snapshot.verifiers(), snapshot.stake_gas, snapshot.block.base_fee, low, high
        )
        if not verifiers:
            raise InvalidInput(
                f"no verifier is registered{f' that the contract takes (not {left_out})' if left_out else ''}; "
                "register one with `assay verifier register`, or post with --court-only"
            )
        if left_out:
            out.print(f"{len(verifiers)} registered verifiers judge it; not {left_out}", soft_wrap=True)
    offer = Offer(
        reward=ether(reward),
        stake=ether(stake) if stake is not None else max(DEFAULT_STAKE, snapshot.least_stake()),
        low_fee=low,
        high_fee=high,
        slots=slots,
        train_period=train,
        watch_period=watch_period,
        reveal_period=usual.reveal if reveal is None else reveal,
        challenge_period=usual.challenge if challenge is None else challenge,
        clock=usual.clock if clock is None else clock,
        verdict_period=usual.verdict if verdict is None else verdict,
        appeal_period=usual.appeal if appeal is None else appeal,
        verifiers=tuple(verifiers),
        threshold=threshold,
        bounty=ether(watch),
        bounty_shares=watch_shares,
    )
    market = Market(snapshot.block.base_fee, snapshot.stake_gas, snapshot.commit_age())
    for answer in answers(offer, content.terms, market, settings):
        who = f"challengers with default settings and --check {answer.check}"
        for reason in answer.reasons:
            out.print(f"{who} leave this job to others: {reason}", soft_wrap=True)
        if not answer.reasons:
            words = (
                "take this job if a step with its commitment, a trial, and an operator on the processor take them "
                f"{answer.most_s:.2g} s each at most (a larger --stake allows more)"
            )
            out.print(f"{who} {words}", soft_wrap=True)
    tip = settings.fees.policy().priority_fee
    for line in lines(costs_of(client, content, offer, uri, market, tip), price):
        out.print(line, soft_wrap=True)
    if costs:
        return
    store = Store(settings.data_dir / "artifacts", max_bytes=settings.limits.artifact_bytes)
    with sender(settings) as transactions:
        number, receipt = post_job(client, transactions, store, content, offer, uri)
    out.print(f"job {number}  [dim]{receipt.gas_used} gas, artifacts at {uri}[/dim]", soft_wrap=True)
    if (why := not_served(content.program.file_hash(), uri)) is not None:
        serve = f"assay artifacts serve --data-dir {shlex.quote(str(settings.data_dir))}"
        serve += f" --port {settings.port}" if settings.port else ""
        told = f"nobody can train it yet: its program {why}; serve what it needs with `{serve}`"
        out.print(told, soft_wrap=True, markup=False)


@app.command("list")
@with_settings(CHAIN)
def list_jobs(
    settings: Settings,
    last: Annotated[int, typer.Option(help="Number of newest jobs to show.", min=1)] = 20,
    as_json: JsonOption = False,
) -> None:
    """List the newest jobs."""
    snapshot = reader(settings).snapshot()
    table = Table("job", "phase", "reward", "stake", "steps", "claims", "groups", "open matches", box=None)
    count = snapshot.job_count()
    jobs = [snapshot.job(number, told=False) for number in range(max(1, count - last + 1), count + 1)]
    if as_json:
        show_json([job_row(job) for job in jobs])
        return
    for job in jobs:
        numbers = (len(job.claims), len(job.groups), job.open_matches)
        table.add_row(
            str(job.id),
            job.phase.name.lower(),
            show_ether(job.reward),
            show_ether(job.stake_now),
            str(job.program.steps),
            *map(str, numbers),
        )
    out.print(table)


@app.command()
@with_settings(CHAIN)
def show(settings: Settings, job: JobNumber, as_json: JsonOption = False) -> None:
    """Show a job: its terms, phases, claims and matches."""
    from ..client.parties import Parties

    snapshot = reader(settings).snapshot()
    found = snapshot.job(job)
    if as_json:
        show_json(whole_row(snapshot, found))
        return
    parties = Parties(found)
    print_terms(found, snapshot.pool(found), snapshot.block.timestamp - snapshot.now)
    for claim in found.claims:
        group = found.groups[claim.group]
        state = "lost" if claim.lost else "spokesman" if group.speaker == claim.index else "follows"
        if found.accepted_root == group.root and not claim.lost and found.phase.ended:
            state = "accepted"
        rows: dict[str, object] = {
            "owner": f"{parties.name(claim.owner)}, {claim.owner}",
            "state": state,
            "root": group.root.hex(),
            "stake": show_ether(claim.stake),
            "artifacts at": claim.uri,
        }
        show_rows(f"claim {claim.index}", rows)
    for match_id in snapshot.matches_of(job):
        match, hearing = snapshot.match(found, match_id), snapshot.hearing(found, match_id)
        between = " against ".join(map(parties.name, match.terms.players))
        out.print(f"match {whole(match_id)}, {between}: {standing(match, hearing)}", soft_wrap=True)


@app.command()
@with_settings(ACCOUNT)
def finalize(settings: Settings, job: JobNumber) -> None:
    """End a job whose phases are over and whose matches are decided. Anybody may do this."""
    from ..chain.outbox import Call

    client = reader(settings)
    with sender(settings) as transactions:
        transactions.send(Call.of(client.contracts.jobs, "finalize", job))
    found = client.snapshot().job(job)
    out.print(f"job {job}: {found.phase.name.lower()} {found.accepted_root.hex()}", soft_wrap=True)


@app.command()
@with_settings(ACCOUNT)
def withdraw(settings: Settings, jobs: Collected = None) -> None:
    """Withdraw what the contracts owe this account: rewards, prizes, stakes, bonds of appeals."""
    from ..chain.outbox import Call

    client = reader(settings)
    with sender(settings) as transactions:
        for number in jobs or ():
            calls = _collections(client, number, transactions.address)
            if not calls:
                raise InvalidInput(f"{transactions.address} has nothing to collect in job {number}")
            for call in calls:
                transactions.send(call)
        owed = client.snapshot().credits(transactions.address)
        for escrow, _ in owed or [(client.contracts.jobs, 0)]:
            transactions.send(Call.of(escrow, "withdraw"))
    out.print(f"{show_ether(sum(wei for _, wei in owed))} to {transactions.address}")


def _collections(client: ChainClient, number: int, account: str) -> list[Call]:
    """Return the calls that credit an account with what a job that is over owes it: claims, watching, own bounty."""
    from referee_py.watch import WatcherState

    from ..chain.outbox import Call

    snapshot, contracts = client.snapshot(), client.contracts
    job = snapshot.job(number)
    bounty = contracts.bounty(number, job.client)
    owed = [one for one in job.stakes_of(account) if not one.lost and not one.collected]
    calls = [Call.of(contracts.jobs, "collect", number, one.index) for one in owed]
    if snapshot.watcher(job, account).state in (WatcherState.COMMITTED, WatcherState.SHOWN):
        calls.append(Call.of(contracts.watch, "collect", bounty, account))
    pool = snapshot.pool(job)
    if job.client.lower() == account.lower() and pool.amount and not pool.ended:
        calls.append(Call.of(contracts.watch, "distribute", bounty))
    return calls


app.command("result")(result.result)
app.command("certificate")(result.certificate)
app.command("watch")(watch.watch)
