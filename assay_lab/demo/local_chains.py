"""The local chains of a demonstration: how each is started, and which build of the contracts runs there."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from trainer_node.chain.abi import Build
from trainer_node.errors import ConfigError

from ..names import LocalChain

MNEMONIC = "test test test test test test test test test test test junk"
"""The well-known development mnemonic of anvil and Hardhat: its accounts hold 10000 ether on local chains, and nowhere
else."""
CHAIN_ID = 31337
HARDFORKS = {LocalChain.ANVIL: "osaka", LocalChain.PRAGUE: "prague"}
HARDHAT = Path(".build/hardhat")
"""Folder of a clone that `make hardhat` installs it in."""
HARDHAT_ENVIRONMENT = {"CI": "1", "HARDHAT_DISABLE_TELEMETRY_PROMPT": "true"}


def poll_s(chain: LocalChain) -> float:
    """Return the seconds between two reads of a party. NOTE: Hardhat answers some hundred requests a second in all."""
    return 1.0 if chain is LocalChain.HARDHAT else 0.25


def build_for(chain: LocalChain) -> Build:
    """Return the build of the contracts that runs on a chain."""
    return Build.PORTABLE if chain is LocalChain.PRAGUE else Build.STANDARD


def command(chain: LocalChain, port: int, accounts: int) -> tuple[list[str], Path | None]:
    """Return the command that starts a chain with a block each second, and the folder in which it must run, if any.

    The chain has so many ``accounts`` with ether, Hardhat 20. Raises ConfigError if the program is not installed.
    """
    if chain is LocalChain.HARDHAT:
        started = ["node", str(_hardhat() / "node_modules/hardhat/internal/cli/bootstrap.js")]
        started += ["--config", str(_hardhat() / "hardhat.config.js"), "node"]
        return [*started, "--hostname", "127.0.0.1", "--port", str(port)], _hardhat()
    started = [_anvil(), "--port", str(port), "--chain-id", str(CHAIN_ID), "--block-time", "1"]
    started += ["--hardfork", HARDFORKS[chain], "--mnemonic", MNEMONIC]
    return [*started, "--accounts", str(accounts), "--silent"], None


def _anvil() -> str:
    beside = Path(sys.executable).with_name("anvil")
    found = str(beside) if beside.exists() else shutil.which("anvil")
    if found is None:
        raise ConfigError("anvil is not installed; run `make setup`, or put Foundry on the PATH")
    return found


def _hardhat() -> Path:
    for root in (Path(sys.executable).absolute().parents[2], Path.cwd()):
        if (root / HARDHAT / "node_modules/hardhat").is_dir():
            return root / HARDHAT
    raise ConfigError("Hardhat is not installed; run `make hardhat` in a clone")
