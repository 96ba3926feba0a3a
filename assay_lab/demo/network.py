"""The network: a local chain, the contracts on it, and a process for each party.

Everything is below one folder, which is emptied first if an earlier network has made it. When the network is left,
by a signal too (`assay_lab.processes`), every process is ended by its own process id.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from eth_account import Account
from eth_account.signers.local import LocalAccount

from trainer_node.chain import Call, ChainClient, Deployment, TransactionManager, connect
from trainer_node.chain.contracts import error_decoder
from trainer_node.chain.fees import ETHER
from trainer_node.daemon.keys import create_key
from trainer_node.errors import ConfigError
from trainer_node.operate.deploy import Parameters, deploy
from trainer_node.operate.quickstart import free_port
from trainer_node.storage.database import Database
from trainer_node.storage.made_folders import closed, emptied
from trainer_node.storage.process import exclusive_name

from ..names import LocalChain
from ..processes import end, heed, undisturbed
from .local_chains import CHAIN_ID, HARDHAT_ENVIRONMENT, MNEMONIC, build_for, command, poll_s
from .roles import Role

START_TIMEOUT_S = 120.0
ANSWER_S = 1.0
"""Seconds that pages have to answer when we look whether they do: the narrator waits meanwhile."""
BY = "assay demo"
"""Text of the mark in a network's folder."""
_WORK_FACTOR = 1 << 10  # NOTE: low, because these keys are public


def development_keys(count: int) -> list[LocalAccount]:
    """Return anvil's funded accounts."""
    Account.enable_unaudited_hdwallet_features()
    paths = (f"m/44'/60'/0'/0/{number}" for number in range(count))
    return [Account.from_mnemonic(MNEMONIC, account_path=path) for path in paths]


class Network:
    """A running network on a local chain, as a context manager. ``accounts`` maps names to addresses.

    Entering it raises InvalidInput if the folder is not empty and no network has made it, and AlreadyRunning if one is
    running in it.
    """

    def __init__(self, folder: Path, names: list[str], chain: LocalChain = LocalChain.ANVIL) -> None:
        homes = [name.replace(" ", "-") for name in names]
        self._made = ["password", "client", "logs", "deployments", "explorer", *homes]
        self.folder, self.password = folder, folder / "password"
        self._lock = contextlib.ExitStack()
        self._keys = dict(zip(["client", *names], development_keys(len(names) + 1), strict=True))
        self.accounts = {name: account.address for name, account in self._keys.items()}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._chain = chain
        self.rpc_url = ""

    def __enter__(self) -> Self:
        # NOTE: no file: what is in the folder is removed, and what is next to it is not ours.
        name = hashlib.sha256(str(self.folder.resolve()).encode()).hexdigest()
        self._lock.enter_context(exclusive_name(f"network/{name}", f"the folder {self.folder}"))
        try:
            emptied(self.folder, BY, self._made)
        except BaseException:
            # SAFETY: what is left in the folder then may be somebody's, so none of it is noted as ours.
            self._lock.close()
            raise
        try:
            self.password.touch(0o600)
            self.password.write_text(secrets.token_hex(16))
            self._start_chain()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        """End all processes; what they have written may go when the next network begins."""
        # SAFETY: a signal that has come is raised once more where signals have waited (`undisturbed`). Before the files
        # are noted, that would leave all of them to be moved aside.
        with undisturbed():
            end(self._processes.values())
            closed(self.folder, BY)
            self._lock.close()

    # ------------------------------------------------------------------ the chain

    def _start_chain(self) -> None:
        port = free_port()
        self.rpc_url = f"http://127.0.0.1:{port}"
        started, inside = command(self._chain, port, len(self.accounts))
        self._spawn("chain", started, inside, **HARDHAT_ENVIRONMENT)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _listens(port):
            if time.monotonic() > deadline or self._processes["chain"].poll() is not None:
                raise ConfigError(f"{self._chain} did not start on port {port}; see {self.log('chain')}")
            heed()
            time.sleep(0.05)

    def deploy(self) -> ChainClient:
        """Deploy the contracts."""
        parameters = Parameters(min_bond=ETHER, leave_delay=3600, min_period=5, commit_age=1)
        with self.transactions("client") as client:
            web3 = connect(self.rpc_url, CHAIN_ID)
            build = build_for(self._chain)
            deploy(web3, client, self._deployment, parameters, chain_id=CHAIN_ID, build=build)
            return ChainClient(web3, Deployment.load(self._deployment))

    @contextlib.contextmanager
    def transactions(self, name: str) -> Iterator[TransactionManager]:
        """Yield a transaction manager that sends for one of the accounts from this process."""
        database = Database(None)
        try:
            yield TransactionManager(
                connect(self.rpc_url, CHAIN_ID),
                self._keys[name],
                database,
                chain_id=CHAIN_ID,
                decode=error_decoder(),
                poll_s=poll_s(self._chain),
            )
        finally:
            database.close()

    def register_verifier(self, client: ChainClient, name: str) -> None:
        """Register a verifier with its bond."""
        with self.transactions(name) as transactions:
            transactions.send(
                Call.of(client.contracts.registry, "register", client.deployment.panel, "", value=ETHER)
            )

    # ------------------------------------------------------------------ the parties

    def start_part(self, part: Role, **settings: object) -> None:
        """Start a trainer or a challenger."""
        mode = ["--mode", "challenge"] if part.role == "challenger" else []
        command = [part.role, "run", *mode]
        if not part.honest:
            command = ["lab", part.role, *mode, "--fault", part.lie.fault, "--fault-step", str(part.lie.step)]
            command += [] if part.lie.node is None else ["--fault-node", str(part.lie.node)]
            command += ["--fault-appeals"] if part.lie.appeals else []
        self.start(part.name, command, **settings)

    def start_verifier(self, name: str, *, lies: bool = False) -> None:
        """Start a verifier."""
        self.start(name, ["lab", "verifier"] if lies else ["verifier", "run"])

    def start(self, name: str, command: list[str], **settings: object) -> None:
        """Start or restart an `assay` command as that party; ``settings`` go into its configuration file."""
        home = self.folder / name.replace(" ", "-")
        if not (home / "key.json").exists():
            key = self._keys[name].key
            create_key(home / "key.json", self.password.read_text(), key=key, work_factor=_WORK_FACTOR)
        settings = {
            "rpc_url": self.rpc_url,
            "chain_id": CHAIN_ID,
            "deployment": str(self._deployment),
            "data_dir": str(home),
            "password_file": str(self.password),
            "poll_s": poll_s(self._chain),
            "log_format": "json",
            "allow_probable_bounds": True,  # no client here chooses data against anybody
            **settings,
        }
        config = home / "assay.toml"
        config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
        self._spawn(name, [sys.executable, "-m", "trainer_node.cli", *command, "--config", str(config)])

    def start_explorer(self, bundle: Path) -> str:
        """Start web pages about the chain, with the labels of a bundle; return their address, which answers later."""
        port = free_port()
        home = self.folder / "explorer"
        command = ["explorer", "--rpc-url", self.rpc_url, "--chain-id", str(CHAIN_ID), "--port", str(port)]
        command += ["--deployment", str(self._deployment), "--data-dir", str(home), "--bundle", str(bundle)]
        self._spawn("explorer", [sys.executable, "-m", "trainer_node.cli", *command])
        return f"http://127.0.0.1:{port}"

    def answers(self, address: str) -> bool:
        """Return whether pages of ours answer by now: their port listens before the chain is read."""
        try:
            return httpx.get(address, timeout=ANSWER_S).is_success
        except httpx.TransportError:
            return False

    def pid(self, name: str) -> int:
        """Return the process id of a party."""
        return self._processes[name].pid

    def log(self, name: str) -> Path:
        """Return the log file of a process."""
        return self.folder / "logs" / f"{name.replace(' ', '-')}.log"

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the structured log of a party so far."""
        lines = self.log(name).read_text(errors="replace").splitlines() if self.log(name).exists() else []
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return [event for event in found if isinstance(event, dict)]

    def dead(self) -> list[str]:
        """Return the parties whose process has ended by itself; there should be none."""
        return [name for name, process in self._processes.items() if process.poll() is not None]

    @property
    def _deployment(self) -> Path:
        return self.folder / "deployments" / f"{CHAIN_ID}.json"

    # ------------------------------------------------------------------ processes

    def _spawn(self, name: str, command: list[str], inside: Path | None = None, **variables: str) -> None:
        log = self.log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        # NOTE: one thread for each process: the parties share this machine, and results do not depend on it.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
        with log.open("wb") as file, undisturbed():
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment, cwd=inside
            )


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0
