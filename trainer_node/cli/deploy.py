"""`assay deploy`: put the contracts on a chain."""

from __future__ import annotations

from typing import Annotated

import typer

from ..chain import connect
from ..config import Settings
from ..deploy import DAY_S, Parameters, deploy
from .common import ACCOUNT, ether, out, sender, with_settings


@with_settings(ACCOUNT)
def deploy_command(
    settings: Settings,
    min_bond: Annotated[str, typer.Option(help="Least bond of a verifier, in ether.")] = "1",
    leave_delay: Annotated[int, typer.Option(help="Seconds that a leaving verifier's bond stays locked.")] = 7
    * DAY_S,
    min_stake: Annotated[
        str, typer.Option(help="Least stake of a claim, in ether: the gas of a worst match.")
    ] = "0.05",
    min_period: Annotated[int, typer.Option(help="Shortest phase or clock, in seconds.")] = 60,
    demand_price: Annotated[
        float,
        typer.Option(help="What an answer to a demand is paid, in gwei a gas: above this chain's price."),
    ] = 1.0,
    force: Annotated[bool, typer.Option(help="Replace a deployment file whose contracts are live.")] = False,
) -> None:
    """Deploy Jobs and all that it needs to judge, and write deployments/<chain id>.json."""
    parameters = Parameters(
        ether(min_bond), leave_delay, ether(min_stake), min_period, int(demand_price * 10**9)
    )
    web3 = connect(settings.rpc_url, settings.chain_id)
    with sender(settings) as transactions:
        deployment = deploy(
            web3,
            transactions,
            settings.deployment_file,
            parameters,
            chain_id=settings.chain_id,
            force=force,
        )
    for name, address in deployment.addresses.items():
        out.print(f"{name:19} {address}")
    out.print(f"[dim]written to {settings.deployment_file}[/dim]", soft_wrap=True)
