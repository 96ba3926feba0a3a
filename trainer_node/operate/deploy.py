"""Deploys the contracts and writes down their addresses.

Timekeeper(guardian, budget)     Judge()     Watch()     the rules, a contract for each family of operators
VerifierRegistry(minBond, leaveDelay, time)
Opset1(the rules of each arithmetic)     Examiner(opset)     Court(examiner, time)
Panel(court, registry)     Referee(judge, panel)
DataAvailability(time)     Notary(registry, stakeGas, minFee, minPeriod)     Jobs(notary, requests, commitAge)
Releases(publisher)                       the list on which a deployment is published, new or existing
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from eth_abi.abi import encode
from eth_utils.abi import collapse_if_tuple
from web3 import Web3

from referee_py.gas_schedule import OSAKA, SCHEDULES, Schedule, schedule_like, schedule_named

from ..chain.abi import Build, load_artifact
from ..chain.contracts import (
    FIRST,
    NAMES,
    TABLES,
    Contracts,
    Deployment,
    code_of,
    hash_of,
    needs_of,
)
from ..chain.counted_blocks import ChainRule
from ..chain.fees import ETHER, GWEI, in_ether
from ..chain.fitness import charged, require_fit
from ..chain.outbox import Call
from ..chain.releases import Releases
from ..chain.rpc import guarded
from ..chain.transactions import TransactionManager
from ..errors import ConfigError, DeployError, InsufficientFunds, WrongChain
from ..settings.settings import LOCAL_CHAINS
from ..stake.min_stake import chain_price, least_stake
from .deploy_defaults import DAY_S, NOBODY

_log = structlog.get_logger(__name__)
ROOM_BYTES = 8 << 20
"""Room for the file and twice that of the sources, which are written when all is paid."""
MARGIN = 3
"""Multiple of its cost that an account needs while it deploys: each transaction offers twice the base fee or more, and
many are open at once."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The deployer's permanent decisions. Wei and seconds."""

    min_bond: int = ETHER
    leave_delay: int = 7 * DAY_S
    """Must exceed the length of any match in which a verifier may have voted."""
    schedule: Schedule = OSAKA
    """Schedule by which prices count: what the chain charges, or will charge after a fork."""
    stake_gas: int = 0
    """Least value of a stake in units of gas; if not given, the least stake under the schedule. SAFETY: half of it must
    cover the worst dispute."""
    min_fee: int = GWEI
    """Least price, in wei, that a unit of gas counts for in a job."""
    min_period: int = 60
    """Shortest period or clock: transactions must get through within it."""
    commit_age: int = 48
    """Minimum age of a commitment at its challenge: four blocks of 12 s, so that an observer cannot copy the challenge
    within that time. Less than ``min_period``, within which a challenge must get through."""
    guardian: str = NOBODY
    """Account that may stop all clocks and let them run again; nobody by default."""
    pause_budget: int = 30 * DAY_S
    """Longest total of all pauses."""

    def __post_init__(self) -> None:
        if not self.stake_gas:
            object.__setattr__(self, "stake_gas", least_stake(1, self.schedule))


def deploy(
    web3: Web3,
    transactions: TransactionManager,
    path: Path,
    parameters: Parameters | None = None,
    *,
    chain_id: int,
    force: bool = False,
    build: Build = Build.STANDARD,
) -> Deployment:
    """Deploy all contracts and write ``path``. Returns the deployment.

    Raises UnfitChain if the chain lacks what the contracts or their users need, or charges more than ``parameters``
    count by; DeployError if ``path`` names contracts that are live on this chain (unless ``force``), if it cannot be
    written, or if the code is not there afterwards; InsufficientFunds if the account cannot pay for all; and every
    error of :meth:`TransactionManager.submit` and `wait`.
    """
    parameters = parameters or Parameters()
    if not force:
        refuse_live(web3, path)
    require_fit(web3, needs_of(build), ChainRule(local=chain_id in LOCAL_CHAINS), parameters.schedule)
    with guarded("eth_blockNumber"):
        block = web3.eth.block_number
    _refuse_full(path)
    _refuse_poor(web3, transactions, build)
    addresses: dict[str, str] = {}
    # NOTE: the contracts of the first wave need no other address, so they go into as few blocks as possible.
    for wave in (FIRST, *((name,) for name in NAMES[len(FIRST) :])):
        sent = {}
        for name in wave:
            given = constructor_arguments(name, parameters, addresses)
            code = creation_code(name, *given, build=build)
            sent[name] = transactions.submit(Call(f"deploy {name}", None, code))
        for name, transaction_id in sent.items():
            receipt = transactions.wait(transaction_id)
            if receipt.contract is None:
                raise DeployError(f"the receipt of {name} names no contract; is this an Ethereum chain?")
            addresses[name] = Web3.to_checksum_address(receipt.contract)
            _log.info("deploy.contract", name=name, address=addresses[name], gas_used=receipt.gas_used)
    hashes = {name: _verified(web3, name, address, build) for name, address in addresses.items()}
    deployment = Deployment(chain_id, block, addresses, hashes, schedule=parameters.schedule)
    deployment.save(path)
    return deployment


def _refuse_full(path: Path) -> None:
    """Raise DeployError, before anything is paid, if the disk has no room for the addresses and the sources."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent) as probe:
            probe.write(bytes(ROOM_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        raise DeployError(
            f"{path} cannot be written: {error.strerror}; make room for {ROOM_BYTES:,} bytes, or name another place "
            "with --deployment"
        ) from error


def _refuse_poor(web3: Web3, transactions: TransactionManager, build: Build) -> None:
    """Raise InsufficientFunds, before anything is paid, if the account cannot even pay for the code.

    NOTE: by the cheapest schedule, without constructors and calldata: who is not refused may still have too little.
    """
    codes = [len(load_artifact(name, build).runtime) for name in NAMES]
    gas = sum(OSAKA.base + OSAKA.account + OSAKA.code * size for size in codes)
    least, have = gas * chain_price(web3), transactions.balance()
    if have < least:
        raise InsufficientFunds(
            f"{len(codes)} contracts take {gas:,} gas at least, {in_ether(least)} at the price now; "
            f"{transactions.address} has {in_ether(have)}; send it {in_ether(MARGIN * least - have)}, since "
            "transactions offer more than they pay"
        )


def chosen_schedule(web3: Web3, name: str | None) -> Schedule:
    """Return the schedule of this name, or that which the chain charges by.

    Raises InvalidInput for an unknown name; DeployError if none is given and the chain charges as none that we know, or
    does not say; RpcUnavailable, RpcCorrupt.
    """
    if name is not None:
        return schedule_named(name)
    price = charged(web3)
    found = schedule_like(price) if price is not None else None
    if found is None:
        what = (
            "does not say what a new word of storage costs"
            if price is None
            else f"charges {price:,} gas for a new word"
        )
        names = ", ".join(one.name for one in SCHEDULES)
        raise DeployError(f"the chain {what}: state by which schedule prices count, --schedule ({names})")
    return found


def publish(
    transactions: TransactionManager,
    deployment: Deployment,
    version: str,
    releases: Releases | None,
    web3: Web3,
    build: Build = Build.STANDARD,
) -> Releases:
    """Put a deployment on a list of releases; if none is given, on a new list whose publisher is the sender.

    Raises every error of :meth:`TransactionManager.submit` and `wait`.
    """
    if releases is None:
        code = creation_code("Releases", transactions.address, build=build)
        receipt = transactions.wait(transactions.submit(Call("deploy Releases", None, code)))
        if receipt.contract is None:
            raise DeployError("the receipt of Releases names no contract; is this an Ethereum chain?")
        releases = Releases(web3, receipt.contract)
    transactions.send(releases.publish(version, deployment.block, deployment.addresses))
    _log.info("deploy.published", version=version, releases=releases.address)
    return releases


def refuse_unpublishable(releases: Releases, version: str, sender: str) -> None:
    """Raise DeployError, before anything is paid, if the sender cannot publish that version on the list."""
    publisher = releases.publisher()
    if publisher != sender:
        raise DeployError(f"only {publisher} publishes on {releases.address}, and this is {sender}")
    taken = [release.version for release in releases.every()]
    if version in taken:
        raise DeployError(
            f"{releases.address} has a release {version!r} already; choose another with --release"
        )


def refuse_live(web3: Web3, path: Path) -> None:
    """Raise DeployError if the deployment in ``path`` is live on this chain, or cannot be read."""
    if not path.exists():
        return
    try:
        deployment = Deployment.load(path)
    except ConfigError as error:
        raise DeployError(f"{error}; remove it or use --force") from error
    try:
        Contracts(web3, deployment).verify()
    except WrongChain:
        return  # the file is from a chain that is gone; every restart of a development chain leaves one
    raise DeployError(f"{path} names a deployment that is live; use it, or --force to replace the file")


def constructor_arguments(
    name: str, parameters: Parameters, addresses: Mapping[str, str]
) -> tuple[object, ...]:
    """Return a contract's constructor arguments; ``addresses`` has the contracts deployed before it."""
    match name:
        case "Timekeeper":
            return parameters.guardian, parameters.pause_budget
        case "VerifierRegistry":
            return parameters.min_bond, parameters.leave_delay, addresses["Timekeeper"]
        case "Opset1":
            return tuple([addresses[rule] for rule in rules] for rules in TABLES)
        case "Examiner":
            return (addresses["Opset1"],)
        case "Court":
            return addresses["Examiner"], addresses["Timekeeper"]
        case "Panel":
            return addresses["Court"], addresses["VerifierRegistry"]
        case "Referee":
            return addresses["Judge"], addresses["Panel"]
        case "DataAvailability":
            return (addresses["Timekeeper"],)
        case "Notary":
            fees = parameters.stake_gas, parameters.min_fee
            return addresses["VerifierRegistry"], *fees, parameters.min_period
        case "Jobs":
            return addresses["Notary"], addresses["DataAvailability"], parameters.commit_age
    return ()


def creation_code(name: str, *arguments: object, build: Build = Build.STANDARD) -> bytes:
    """Return bytecode with encoded constructor arguments."""
    return load_artifact(name, build).bytecode + encoded(name, *arguments)


def encoded(name: str, *arguments: object) -> bytes:
    """Return the arguments of a contract's constructor, as the ABI encodes them."""
    abi = load_artifact(name).abi
    constructor: dict[str, Any] = next(
        (entry for entry in abi if entry["type"] == "constructor"), {"inputs": []}
    )
    types = [collapse_if_tuple(item) for item in constructor["inputs"]]
    if len(types) != len(arguments):
        raise DeployError(
            f"the constructor of {name} takes {types}, not {len(arguments)} arguments; build again"
        )
    return encode(types, arguments)


def _verified(web3: Web3, name: str, address: str, build: Build) -> str:
    """Return the hash of the code at the address. NOTE: immutables are filled in, so only its length is compared."""
    code, want = code_of(web3, address), len(load_artifact(name, build).runtime)
    if not code or len(code) != want:
        raise DeployError(f"{name} at {address} has {len(code)} bytes of code, not {want}")
    return hash_of(code)
