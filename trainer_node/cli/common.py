"""Shared parts of commands: flags for settings, and access to the chain for commands that act once."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from referee_py.errors import InvalidInput

from ..settings.extent import Mode
from .completion import job_numbers
from .flags import CommandFunction, flag, with_flags

if TYPE_CHECKING:
    from ..chain import Call, ChainClient, TransactionManager
    from ..settings.settings import Settings

out = Console(highlight=False)

_option = functools.partial(flag, panel="Settings")

_CHAIN: dict[str, Any] = {
    "config": _option(Path, "--config", "Configuration file in TOML; ./assay.toml if it exists."),
    "rpc_url": _option(
        str, "--rpc-url", "JSON-RPC endpoint of the chain; several: with commas between them."
    ),
    "agree": _option(int, "--agree", "Endpoints that must show the same chain before money is staked."),
    "chain_id": _option(int, "--chain-id", "Id of the chain; 31337 is a local one."),
    "deployment": _option(Path, "--deployment", "The contracts' addresses: deployments/<chain id>.json."),
    "releases": _option(str, "--releases", "Address of a list of releases, in place of that file."),
    "release": _option(str, "--release", "Version on the list of releases."),
    "data_dir": _option(Path, "--data-dir", "Folder of this node's database and artifacts: .assay."),
    "log_level": _option(str, "--log-level", "debug, info, warning or error."),
    "log_format": _option(str, "--log-format", "console or json."),
}
_KEY: dict[str, Any] = {
    "keystore": _option(Path, "--keystore", "Encrypted key: <data dir>/key.json."),
    "password_file": _option(
        Path, "--password-file", "File with the keystore's password; or set ASSAY_PASSWORD."
    ),
    "signer_url": _option(
        str, "--signer-url", "A remote signer (Web3Signer's interface) in place of a keystore."
    ),
    "signer_address": _option(str, "--signer-address", "Account that the remote signer signs for."),
}
_SERVER: dict[str, Any] = {
    "host": _option(str, "--host", "Address that the artifact server listens on."),
    "port": _option(int, "--port", "Port of the artifact server; 0 takes any free one."),
    "public_uri": _option(str, "--public-uri", "Base URI at which others reach the artifact server."),
}
_DAEMON: dict[str, Any] = {
    "confirmations": _option(int, "--confirmations", "Blocks on top of a block before its state counts."),
    "finality": _option(
        str, "--finality", "confirmations, safe or finalized: the blocks whose state counts."
    ),
    "threads": _option(int, "--threads", "Threads for the kernels of each worker; 0 shares out all cores."),
    "workers": _option(int, "--workers", "Processes of this machine that compute a run together."),
    "device": _option(str, "--device", "Where training runs: cpu or cuda."),
    "poll_s": _option(float, "--poll", "Seconds between two reads of the chain."),
}
_MODE: dict[str, Any] = {
    "mode": _option(Mode, "--mode", "watch (the default), defend or challenge."),
    "check": _option(
        str, "--check", "all of a job; share: intervals drawn in public; sample:P: a fraction, in secret."
    ),
    "samplers": _option(
        int, "--samplers", "With --check share: honest challengers of a job that check shares, you included."
    ),
    "max_check_cpu_h": _option(float, "--max-cpu-hours", "Limit on checking a part of each root; 0 is none."),
    "max_check_bytes": _option(int, "--max-fetch", "Bytes to fetch for a part of each root; 0 is no limit."),
    "max_watch_eth": _option(
        float,
        "--max-watch",
        "With --mode challenge: ether to stake on watching one job for a bounty; 0 watches none.",
    ),
}

CHAIN = _CHAIN
ACCOUNT = {**_CHAIN, **_KEY}
SERVE = {**_CHAIN, **_SERVER}
DAEMON = {**_CHAIN, **_KEY, **_SERVER, **_DAEMON}
CHALLENGER = {**DAEMON, **_MODE}

JobNumber = Annotated[
    int,
    typer.Argument(
        help="Number of the job; `assay job list` shows them.",
        min=1,
        max=(1 << 64) - 1,
        autocompletion=job_numbers,
    ),
]

CourtOnlyOption = Annotated[
    bool,
    typer.Option("--court-only", help="Without verifiers: only the court judges a disputed operator."),
]

HuggingFaceOption = Annotated[
    Path | None,
    typer.Option(
        "--hf", help="Folder for the trained model, to be loaded by from_pretrained of transformers or peft."
    ),
]
OptimizerStateOption = Annotated[
    bool, typer.Option("--optimizer-state", help="With --hf: also write the optimizer's state.")
]


def with_settings(
    options: dict[str, Any], *, quiet: bool = False
) -> Callable[[CommandFunction], CommandFunction]:
    """Give a command these flags; it gets the resulting ``settings``. ``quiet``: its log has warnings only, unless
    somebody has set a level."""
    return with_flags("settings", options, functools.partial(_settings, quiet))


def _settings(quiet: bool, /, **flags: Any) -> Settings:
    from ..observe.logs import configure_logging
    from ..settings.settings import load_settings

    settings = load_settings(**flags)
    level = "warning" if quiet and "log_level" not in settings.model_fields_set else settings.log_level
    configure_logging(settings.log_format, level)
    return settings


def reader(settings: Settings) -> ChainClient:
    """Return a client for one look at the chain; it verifies the code at the addresses."""
    from ..daemon.access import open_client

    return open_client(settings)


@contextlib.contextmanager
def sender(settings: Settings) -> Iterator[TransactionManager]:
    """Open a transaction manager for one command. Raises AlreadyRunning while a daemon uses the same key."""
    from ..daemon.access import open_web3, transaction_manager
    from ..daemon.keys import hold_account
    from ..storage.database import Database

    with hold_account(settings) as account:
        database = Database(settings.data_dir / "outbox.sqlite3")
        try:
            manager = transaction_manager(settings, open_web3(settings), account, database)
            manager.recover()
            yield manager
        finally:
            database.close()


def send(settings: Settings, call: Call) -> None:
    """Send one transaction, wait for it, and say what it took."""
    with sender(settings) as transactions:
        receipt = transactions.send(call)
    out.print(f"{receipt.action}: done, {receipt.gas_used:,} gas")


def progress_bar() -> Progress:
    """Return a bar with a description on standard error, which goes when it is done."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=Console(stderr=True), transient=True)


def ether(text: str) -> int:
    """Return wei for an amount like "0.5", "0.5ether", "20gwei" or "7wei". Raises InvalidInput."""
    from decimal import Decimal, InvalidOperation

    units = {"ether": 10**18, "gwei": 10**9, "wei": 1}
    unit = next((name for name in units if text.endswith(name)), "ether")
    try:
        wei = Decimal(text.removesuffix(unit).strip()) * units[unit]
    except InvalidOperation:
        raise InvalidInput(f"{text!r} is not an amount; write 0.5, 0.5ether, 20gwei or 7wei") from None
    if not wei.is_finite() or not 0 <= wei < 1 << 128:
        raise InvalidInput(f"{text!r} is out of range; an amount has 0 to 2^128 - 1 wei")
    if wei != int(wei):
        raise InvalidInput(f"{text!r} is not a whole number of wei; leave out the last digits")
    return int(wei)


def gas_price(text: str) -> int:
    """Return wei for a price of a unit of gas, like "20gwei" or "7wei". Raises InvalidInput, also without a unit."""
    # NOTE: an amount without a unit is ether elsewhere, and no unit of gas costs one.
    if not text.endswith("wei"):
        raise InvalidInput(f"{text!r} is not a price of gas; write it with its unit: 20gwei or 7wei")
    return ether(text)


def show_ether(wei: int) -> str:
    """Format an amount for people."""
    from ..chain.fees import in_ether

    return in_ether(wei)


JsonOption = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


def show_json(found: object) -> None:
    """Print one line of JSON for scripts. Amounts in it are wei, instants are unix seconds, hashes are hex."""
    import json

    typer.echo(json.dumps(found))


def show_rows(title: str, rows: Mapping[str, object]) -> None:
    """Print names and values, one per line. NOTE: never cut or wrapped, so that hashes can be copied; no markup."""
    out.print(Text(plain(title), style="bold"), soft_wrap=True)
    for name, value in rows.items():
        out.print(Text.assemble((f"  {plain(name):17}", "dim"), plain(value)), soft_wrap=True)


def printable(text: object, limit: int = 80) -> str:
    """Make untrusted text printable, and cut it."""
    shown = plain(str(text)[: limit + 1])
    return shown if len(shown) <= limit else shown[:limit] + "…"


def plain(text: object) -> str:
    """Make text of any length printable. SAFETY: an escape sequence in it must not reach the terminal."""
    return "".join(c if c.isprintable() else "�" for c in str(text))


def moment(instant: int) -> str:
    """Format an instant in local time: unix seconds, on the contracts' clocks if the contracts have set it."""
    from datetime import datetime

    try:
        found = datetime.fromtimestamp(instant).astimezone()
    except (ValueError, OverflowError, OSError):  # NOTE: a calendar ends with the year 9999
        return "-"
    return found.strftime("%Y-%m-%d %H:%M:%S") if instant > 0 else "-"


def interactive() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin.isatty()
