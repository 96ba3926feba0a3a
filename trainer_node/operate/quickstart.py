"""A folder to start from: settings that work, a password, a key for each party, and the commands that come next."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from referee_py.errors import AssayError, InvalidInput

from ..chain.fees import ETHER
from ..chain.rpc import development_chain
from ..daemon.keys import WORK_FACTOR, create_key
from ..settings.settings import LOCAL_CHAINS

LIGHT = 1 << 12
LOCAL_PARTIES = ("client", "trainer", "challenger")
SETTINGS, PASSWORD = "assay.toml", "password"
START_WEI = 100 * ETHER
STEPS, STRIDES = 60, "20,5,1"


@dataclass(frozen=True)
class Started:
    """A folder that was made: addresses by party, and the commands that come next, in order."""

    folder: Path
    addresses: dict[str, str]
    commands: list[str]


def quickstart(folder: Path, rpc_url: str, chain_id: int, *, answers: bool) -> Started:
    """Make the folder. ``answers``: something listens at ``rpc_url``. Raises InvalidInput if it has files in it.

    On a development chain it has a key for each party, and the commands play a whole job. Elsewhere it has one key,
    encrypted at full strength, and the commands lead to a trainer.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} exists and is not empty; name another folder")
    try:
        return _made(folder, rpc_url, chain_id, answers=answers)
    except (OSError, AssayError):
        shutil.rmtree(folder, ignore_errors=True)  # NOTE: it was empty; a part of it would be in the way.
        raise


def _made(folder: Path, rpc_url: str, chain_id: int, *, answers: bool) -> Started:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    password = secrets.token_urlsafe(24)
    _write_private(folder / PASSWORD, password + "\n")
    local = chain_id in LOCAL_CHAINS
    parties = LOCAL_PARTIES if local else ("trainer",)
    _write_settings(folder / SETTINGS, rpc_url, chain_id, local=local)
    work = LIGHT if local else WORK_FACTOR
    addresses = {
        party: str(
            create_key(folder / _data_dir(party, local) / "key.json", password, work_factor=work).address
        )
        for party in parties
    }
    enter = f"cd {shlex.quote(str(folder.absolute()))}"
    if local:
        return Started(folder, addresses, [enter, *_network(rpc_url, addresses, answers=answers)])
    return Started(folder, addresses, [enter, *_trainer(addresses["trainer"], chain_id)])


def _data_dir(party: str, local: bool) -> str:
    return party if local else "data"


def _write_private(path: Path, text: str) -> None:
    # SAFETY: never readable by others, not even for a moment.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _write_settings(path: Path, rpc_url: str, chain_id: int, *, local: bool) -> None:
    lines = [
        "# Settings of this folder; every assay command that is started here reads them (`assay config show`).",
        # NOTE: a text in JSON is a text in TOML, too.
        f"rpc_url = {json.dumps(rpc_url)}",
        f"chain_id = {chain_id}",
        f'password_file = "{PASSWORD}"',
    ]
    if not local:
        lines += [
            'data_dir = "data"',
            "port = 7000",
            '# public_uri = "https://trainer.example.org"   # where others reach that port; it is written on the chain',
            f'# deployment = "deployments/{chain_id}.json"   # from who deployed; or `releases` and `release`',
        ]
    _write_private(path, "\n".join(lines) + "\n")


def _network(rpc_url: str, addresses: dict[str, str], *, answers: bool) -> list[str]:
    """Return the commands of a whole network on this machine: the first part of the operating guide."""
    url = shlex.quote(rpc_url)
    port = free_port()
    chain = [] if answers else [f"{development_chain(_port_of(rpc_url))} &", "sleep 2"]
    fund = [
        f"cast rpc --rpc-url {url} anvil_setBalance {address} {hex(START_WEI)}"
        for address in addresses.values()
    ]
    return [
        *chain,
        *fund,
        "assay deploy --data-dir client --min-period 10 --commit-age 1",
        "assay doctor --data-dir trainer",
        f"assay program build digits-mlp digits --steps {STEPS} --strides {STRIDES}",
        f"assay artifacts serve --data-dir client --port {port} 2>client.log &",
        f"assay job post digits --data-dir client --port {port} --reward 2 --stake 1 --court-only "
        "--train 600 --reveal 60 --challenge 60 --clock 60",
        "assay trainer run --data-dir trainer --threads 1 2>trainer.log &",
        "assay challenger run --data-dir challenger --threads 1 2>challenger.log &",
        "assay job list",
        "assay monitor --once",
    ]


def _trainer(address: str, chain_id: int) -> list[str]:
    """Return the commands of a trainer on a chain that others use. Comments say what no command can do."""
    return [
        f"# 1. send ether to {address}; keep no more there than you would stake",
        f"# 2. put the deployment file of your client at deployments/{chain_id}.json, or set releases and release",
        "# 3. set public_uri in assay.toml",
        "assay config show",
        "assay doctor",
        "assay trainer run",
    ]


def answers(rpc_url: str) -> bool:
    """Return whether something listens at the address of an endpoint."""
    parts = urlsplit(rpc_url)
    try:
        with socket.create_connection((parts.hostname or "", _port_of(rpc_url)), timeout=2):
            return True
    except OSError:
        return False


def _port_of(rpc_url: str) -> int:
    parts = urlsplit(rpc_url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
