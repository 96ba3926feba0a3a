"""`assay deploy`: put the contracts on a chain."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Annotated

import typer

from referee_py.errors import InvalidInput

from ..observe.build import DISTRIBUTION
from ..operate.deploy_defaults import DAY_S, NOBODY, PRICE_FACTOR
from .common import ACCOUNT, ether, gas_price, out, sender, show_ether, with_settings

if TYPE_CHECKING:
    from referee_py.gas_schedule import Schedule

    from ..settings.settings import Settings


@with_settings(ACCOUNT, quiet=True)
def deploy_command(
    settings: Settings,
    min_bond: Annotated[str, typer.Option(help="Least bond of a verifier, in ether.")] = "1",
    leave_delay: Annotated[int, typer.Option(help="Seconds that a leaving verifier's bond stays locked.")] = 7
    * DAY_S,
    min_fee: Annotated[
        str | None,
        typer.Option(
            help="Least price that a unit of gas counts for in a job, as 20gwei; stakes and deposits follow it. If not "
            f"given, {PRICE_FACTOR} times the chain's current price."
        ),
    ] = None,
    min_period: Annotated[int, typer.Option(help="Shortest phase or clock, in seconds.")] = 60,
    commit_age: Annotated[
        int,
        typer.Option(
            help="Minimum age in seconds of a commitment for a challenge, below --min-period. Several blocks, so that "
            "a challenge that misses a block cannot be copied.",
            min=1,
        ),
    ] = 48,
    guardian: Annotated[
        str, typer.Option(help="Account that may stop all clocks for a while; nobody if not given.")
    ] = NOBODY,
    pause_budget: Annotated[
        int,
        typer.Option(
            help="Seconds that the clocks may stand still, summed over all pauses.", min=0, max=365 * DAY_S
        ),
    ] = 30 * DAY_S,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="Gas schedule by which stakes and bonds count, osaka or amsterdam; if not given, the one by which the "
            "chain charges. Before a fork state the later one."
        ),
    ] = None,
    portable: Annotated[
        bool,
        typer.Option(
            "--portable",
            help="The build for chains without the opcode CLZ, which Osaka brought; its arithmetic takes more gas.",
        ),
    ] = False,
    force: Annotated[bool, typer.Option(help="Replace a deployment file whose contracts are live.")] = False,
) -> None:
    """Deploy Jobs and the contracts that judge its disputes, write deployments/<chain id>.json, publish the release.

    What explorers verify the sources with is written into a folder beside that file.
    First the chain is tried: if it lacks what the contracts or honest parties need, that is said, and nothing is sent.
    The release goes on the list --releases, or a new list, as version --release, or the version of this build.
    """
    from eth_utils.address import is_checksum_address

    from ..chain import Releases
    from ..chain.abi import Build
    from ..daemon.access import open_web3
    from ..operate import standard_json
    from ..operate.deploy import (
        Parameters,
        chosen_schedule,
        constructor_arguments,
        deploy,
        encoded,
        publish,
        refuse_unpublishable,
    )
    from ..stake.min_stake import chain_price

    web3 = open_web3(settings)
    fee = gas_price(min_fee) if min_fee is not None else PRICE_FACTOR * chain_price(web3)
    counts_by = chosen_schedule(web3, schedule)
    _derive(
        fee,
        "as stated" if min_fee is not None else f"{PRICE_FACTOR} times what the chain asks now",
        counts_by,
    )
    if not is_checksum_address(guardian):
        raise InvalidInput(f"the guardian {guardian!r} is not a checksummed address")
    if commit_age >= min_period:
        raise InvalidInput(f"--commit-age is {commit_age}, --min-period {min_period}; it must be less")
    parameters = Parameters(
        schedule=counts_by,
        min_bond=ether(min_bond),
        leave_delay=leave_delay,
        min_fee=fee,
        min_period=min_period,
        commit_age=commit_age,
        guardian=guardian,
        pause_budget=pause_budget,
    )
    version = settings.release or metadata.version(DISTRIBUTION)
    build = Build.PORTABLE if portable else Build.STANDARD
    releases = Releases(web3, settings.releases) if settings.releases is not None else None
    with sender(settings) as transactions:
        publisher, had = transactions.address, transactions.balance()
        if releases is not None:
            refuse_unpublishable(releases, version, transactions.address)
        deployment = deploy(
            web3,
            transactions,
            settings.deployment_file,
            parameters,
            chain_id=settings.chain_id,
            force=force,
            build=build,
        )
        listed = publish(transactions, deployment, version, releases, web3, build)
        paid = had - transactions.balance()
    addresses = dict(deployment.addresses)
    given = {name: encoded(name, *constructor_arguments(name, parameters, addresses)) for name in addresses}
    if releases is None:
        addresses["Releases"], given["Releases"] = listed.address, encoded("Releases", publisher)
    file = settings.deployment_file
    sources = file.with_name(f"{file.stem}.sources")
    standard_json.write(sources, build, addresses, given)
    for name, address in deployment.addresses.items():
        out.print(f"{name:19} {address}")
    out.print(f"{show_ether(paid)} paid for gas")
    out.print(f"[dim]written to {file}[/dim]", soft_wrap=True)
    out.print(f"[dim]for explorers, what compiles to each: {sources}[/dim]", soft_wrap=True)
    out.print(
        f"published; nodes find it with --releases {listed.address} --release {version}",
        markup=False,
        soft_wrap=True,
    )


def _derive(fee: int, how: str, schedule: Schedule) -> None:
    """Print the least stake and its derivation."""
    from ..stake.min_stake import least_stake, worst_dispute, worst_gas

    out.print(f"least stake: what one side may have to send in the worst dispute, under {schedule.name}")
    for line in worst_dispute(schedule):
        out.print(f"  {line.move:27} {line.times:3} x {line.gas:9,} gas", style="dim")
    gas = worst_gas(schedule)
    out.print(f"  {gas:,} gas at {fee / 10**9:g} gwei ({how}); half of a lost stake is the winner's")
    out.print(f"  so {show_ether(least_stake(fee, schedule))} at least; --min-fee sets another")
