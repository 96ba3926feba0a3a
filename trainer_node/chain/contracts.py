"""The contracts that a daemon talks to: their code as package data, and the addresses of their deployments.

`referee_py/abi/<Name>.json` is built by scripts/build_contracts.py. `deployments/<chain id>.json` has addresses:

    {"chainId": 31337, "block": 12, "schedule": "osaka",
     "contracts": {"Jobs": {"address": "0x..", "codeHash": "0x.."}, ...}}

    VerifierRegistry <── Panel <── Referee <── Jobs ──> Notary      each receives the addresses that its
              Court <──┘  Judge <──┘            └──> DataAvailability       arrows point to; DataAvailability
    rules <── Opset1 <── Examiner <── Court                         and Watch call any Jobs contract

    All but the Examiner, Opset1, the rules, the Judge, the Notary and Watch read the time from the Timekeeper.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from eth_abi.exceptions import DecodingError
from eth_utils.abi import collapse_if_tuple
from eth_utils.address import is_checksum_address
from eth_utils.crypto import keccak
from web3 import Web3
from web3.contract import Contract

from referee_py.errors import InvalidInput
from referee_py.gas_schedule import Schedule, schedule_named
from referee_py.program.modes import MODES

from ..errors import ConfigError, WrongChain
from .abi import CODEC, Build, load_artifact
from .endpoints import endpoints_of
from .majority import agreed
from .opcodes import Needs
from .rpc import guarded

TABLES = tuple(mode.rule_contracts for mode in MODES)
"""The rules of each arithmetic, in the order of Opset1's constructor. Families that several of them share have one
contract in all of these."""
RULES = tuple(dict.fromkeys(rule for table in TABLES for rule in table))
FIRST = ("Timekeeper", "Judge", "Watch", *RULES)
"""The contracts that need no other's address."""
NAMES = (
    *FIRST,
    "VerifierRegistry",
    "Opset1",
    "Examiner",
    "Court",
    "Panel",
    "Referee",
    "DataAvailability",
    "Notary",
    "Jobs",
)
"""The contracts of a deployment, in the order in which they are deployed."""

PANICS = {0x01: "assertion", 0x11: "overflow", 0x12: "division by zero", 0x32: "index out of range"}
_MAX_FILE_BYTES = 1 << 20


class ErrorDecoder:
    """Turns revert data into the name and arguments of a custom error of any of our contracts."""

    def __init__(self, *abis: list[dict[str, Any]]) -> None:
        self._known: dict[bytes, tuple[str, list[str], list[str]]] = {}
        for entry in (entry for abi in abis for entry in abi if entry["type"] == "error"):
            types = [collapse_if_tuple(item) for item in entry["inputs"]]
            names = [item["name"] or f"arg{i}" for i, item in enumerate(entry["inputs"])]
            self._known[keccak(f"{entry['name']}({','.join(types)})".encode())[:4]] = (
                entry["name"],
                names,
                types,
            )
        self._known[bytes.fromhex("08c379a0")] = "Error", ["message"], ["string"]
        self._known[bytes.fromhex("4e487b71")] = "Panic", ["code"], ["uint256"]

    def __call__(self, data: bytes) -> tuple[str, dict[str, Any]]:
        """Return name and arguments; "unknown" for data that matches no error. Never raises."""
        if not data:
            return "revert", {}
        known = self._known.get(data[:4])
        if known is None:
            return "unknown", {"data": data}
        name, names, types = known
        try:
            values = dict(zip(names, CODEC.decode(types, data[4:]), strict=True))
        except (DecodingError, OverflowError, ValueError):
            return name, {"data": data}
        if name == "Panic":
            values["meaning"] = PANICS.get(values["code"], "see the Solidity manual")
        return name, values


@cache
def error_decoder() -> ErrorDecoder:
    """Return the decoder for the errors of all contracts."""
    return ErrorDecoder(*(load_artifact(name).abi for name in (*NAMES, "Releases", "Pledges")))


@dataclass(frozen=True)
class Deployment:
    """The addresses of the contracts on one chain. None of them existed before ``block``.

    NOTE: a release (releases.py) names only the contracts that daemons talk to, and ``build`` is that of all; a
    deployment file names all `NAMES`, and no build. ``schedule``: what a file says of how prices count, for people;
    what counts is on the chain (`stake.min_stake.schedule_of`). Older files say nothing.
    """

    chain_id: int
    block: int
    addresses: dict[str, str]
    code_hashes: dict[str, str]
    build: Build | None = None
    schedule: Schedule | None = None

    @property
    def jobs(self) -> str:
        return self.addresses["Jobs"]

    @property
    def referee(self) -> str:
        return self.addresses["Referee"]

    @property
    def panel(self) -> str:
        return self.addresses["Panel"]

    @property
    def digest(self) -> str:
        """A text that is the same for equal chain ids, addresses and code hashes."""
        told = json.dumps([self.chain_id, self.addresses, self.code_hashes], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    @classmethod
    def load(cls, path: Path) -> Deployment:
        """Read a deployment file. Raises ConfigError if the file is missing or malformed."""
        try:
            if path.stat().st_size > _MAX_FILE_BYTES:
                raise ConfigError(
                    f"{path} has more than {_MAX_FILE_BYTES} bytes; it is not a deployment file"
                )
            data = json.loads(path.read_text())
            contracts = data["contracts"]
            addresses = {name: contracts[name]["address"] for name in NAMES}
            hashes = {name: contracts[name]["codeHash"] for name in NAMES}
            schedule = schedule_named(data["schedule"]) if "schedule" in data else None
            deployment = cls(int(data["chainId"]), int(data["block"]), addresses, hashes, schedule=schedule)
        except InvalidInput as error:
            raise ConfigError(
                f"{path}: {error}; use the build that it was deployed with, or a newer one"
            ) from error
        except FileNotFoundError:
            raise ConfigError(
                f"{path} is missing; it is what `assay deploy` has written, or a page of the explorer offers: name it "
                "with --deployment, or deploy contracts of your own with `assay deploy`"
            ) from None
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{path} is not a deployment file: {type(error).__name__} {error}") from error
        for name, address in addresses.items():
            if not isinstance(address, str) or not is_checksum_address(address):
                raise ConfigError(f"{path}: the address of {name}, {address!r}, is not a checksummed address")
        return deployment

    def text(self) -> str:
        """Return the deployment file. Raises InvalidInput for a release, which does not name all contracts."""
        if missing := [name for name in NAMES if name not in self.code_hashes]:
            raise InvalidInput(f"a release has no deployment file: it does not name {missing[0]}")
        contracts = {
            name: {"address": self.addresses[name], "codeHash": self.code_hashes[name]} for name in NAMES
        }
        head: dict[str, Any] = {"chainId": self.chain_id, "block": self.block}
        if self.schedule is not None:
            head["schedule"] = self.schedule.name
        return json.dumps(head | {"contracts": contracts}, indent=2) + "\n"

    def save(self, path: Path) -> None:
        """Write the deployment file atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(self.text())
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).chmod(0o644)
        Path(file.name).replace(path)


def code_of(web3: Web3, address: str) -> bytes:
    """Return the code at an address; empty if there is none."""
    with guarded(f"code of {address}"):
        return bytes(web3.eth.get_code(Web3.to_checksum_address(address)))


def hash_of(code: bytes) -> str:
    """Return the Keccak-256 of code, as 0x-hex."""
    return "0x" + keccak(code).hex()


@cache
def needs_of(build: Build) -> Needs:
    """Return what a deployment of this build needs of its chain. Raises ConfigError if it was never built."""
    artifacts = [load_artifact(name, build) for name in (*NAMES, "Releases")]
    return Needs.of((one.runtime for one in artifacts), (one.bytecode for one in artifacts))


class Contracts:
    """web3 contract objects of one deployment, and the decoder of their errors."""

    def __init__(self, web3: Web3, deployment: Deployment) -> None:
        self.web3 = web3
        self.deployment = deployment
        self.decode_error = error_decoder()

    @cached_property
    def jobs(self) -> Contract:
        return self._at("Jobs")

    @cached_property
    def referee(self) -> Contract:
        return self._at("Referee")

    @cached_property
    def notary(self) -> Contract:
        """NOTE: the address comes from Jobs, because a release does not name the Notary."""

        def asked() -> str:
            with guarded("NOTARY"):
                return str(self.jobs.functions.NOTARY().call())

        address = Web3.to_checksum_address(
            agreed(endpoints_of(self.web3), asked, what="the address of the Notary")
        )
        contract: Contract = self.web3.eth.contract(
            address=address, abi=load_artifact("Notary").abi, decode_tuples=True
        )
        return contract

    @cached_property
    def data_availability(self) -> Contract:
        return self._at("DataAvailability")

    @cached_property
    def watch(self) -> Contract:
        return self._at("Watch")

    @cached_property
    def panel(self) -> Contract:
        return self._at("Panel")

    @cached_property
    def court(self) -> Contract:
        return self._at("Court")

    @cached_property
    def registry(self) -> Contract:
        return self._at("VerifierRegistry")

    @cached_property
    def timekeeper(self) -> Contract:
        return self._at("Timekeeper")

    @property
    def escrows(self) -> tuple[Contract, ...]:
        """The contracts that may owe an account money."""
        return self.jobs, self.panel, self.data_availability, self.watch

    def bounty(self, job_id: int, funder: str) -> tuple[str, int, str]:
        """Return the key of the bounty that ``funder`` has set aside for the watchers of a job."""
        return self.deployment.jobs, job_id, Web3.to_checksum_address(funder)

    def subject(self, job_id: int, root: bytes) -> tuple[str, int, bytes]:
        """Return what names the data under a root of a job, to request or show them."""
        return self.deployment.jobs, job_id, root

    def verify(self) -> Needs:
        """Check that the chain has the deployed code, and return what that needs of a chain.

        Raises WrongChain, RpcUnavailable or RpcCorrupt.
        """
        endpoints = endpoints_of(self.web3)
        with guarded("eth_chainId"):
            found = agreed(endpoints, lambda: self.web3.eth.chain_id, what="the chain's id")
            if found != self.deployment.chain_id:
                raise WrongChain(
                    f"the chain is {found}, the deployment is of chain {self.deployment.chain_id}"
                )
        codes = []
        for name, address in self.deployment.addresses.items():
            code = agreed(endpoints, partial(code_of, self.web3, address), what=f"the code of {address}")
            if not code or hash_of(code) != self.deployment.code_hashes[name]:
                state = "other code" if code else "no code"
                raise WrongChain(f"there is {state} at {name} {address}; deploy again with `assay deploy`")
            codes.append(code)
        return Needs.of(codes) if self.deployment.build is None else needs_of(self.deployment.build)

    def _at(self, name: str) -> Contract:
        address = Web3.to_checksum_address(self.deployment.addresses[name])
        contract: Contract = self.web3.eth.contract(
            address=address, abi=load_artifact(name).abi, decode_tuples=True
        )
        return contract
