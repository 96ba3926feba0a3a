"""Finds the contracts of a release by its version, in the publisher's list on the chain (IReleases).

SAFETY: the publisher decides which addresses are in the list. So a daemon accepts a release only if every contract,
down to the rules of single operators, has the code that this build of Assay would deploy, and the contracts refer only
to each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import structlog
from eth_utils.crypto import keccak
from repops.opset import OPSET_VERSION, lookup
from web3 import Web3

from referee_py.program.modes import MODES

from ..errors import ReleaseRefused, Reverted, WrongChain
from .abi import Build, ContractArtifact, load_artifact
from .codec.base import View
from .contracts import Deployment, ErrorDecoder
from .outbox import Call
from .rpc import guarded

PARTS = {
    "jobs": "Jobs",
    "referee": "Referee",
    "panel": "Panel",
    "court": "Court",
    "registry": "VerifierRegistry",
    "dataAvailability": "DataAvailability",
    "watch": "Watch",
    "timekeeper": "Timekeeper",
}
"""The names of a release's contracts in a deployment, by their names in the contract Releases."""
ONE_OF_EACH = ("add", "exp", "log", "sin", "sum", "mm", "max_pool2d", "take", "reshape", "philox")
"""One operator of each family, in the order of Opset1."""
LINKS = (
    ("Jobs", "DATA_AVAILABILITY", "DataAvailability"),
    ("Referee", "PANEL", "Panel"),
    ("Panel", "COURT", "Court"),
    ("Panel", "REGISTRY", "VerifierRegistry"),
    *(
        (name, "TIME", "Timekeeper")
        for name in ("Jobs", "Referee", "Panel", "Court", "VerifierRegistry", "DataAvailability")
    ),
)
"""(contract, getter, other): ``contract`` must return the address of ``other`` from ``getter``."""

_WORD = 32
_MAX_RELEASES = 10_000

_log = structlog.get_logger(__name__)


class Status(IntEnum):
    """The publisher's statement about a release. The zero state is not a release."""

    NONE = 0
    CURRENT = 1
    SUPERSEDED = 2
    WITHDRAWN = 3


@dataclass(frozen=True, slots=True)
class Release:
    """A release as it was published, with its present status. None of its contracts existed before block ``since``."""

    version: str
    opset: int
    status: Status
    since: int
    published: int
    addresses: dict[str, str]
    code_hashes: dict[str, str]
    reason: str


_RELEASE = View(Release, "Releases", "releaseOf", "release", beside="addresses code_hashes")


class Releases:
    """The list at an address. Every method raises RpcUnavailable or RpcCorrupt."""

    def __init__(self, web3: Web3, address: str) -> None:
        """Raises WrongChain if there is no such contract."""
        artifact = load_artifact("Releases")
        self.web3, self.address = web3, Web3.to_checksum_address(address)
        self._decode = ErrorDecoder(artifact.abi)
        code = self._code(self.address)
        if not any(same_code(code, load_artifact("Releases", build)) for build in Build):
            raise WrongChain(f"there is no list of releases at {self.address}; check `releases` and chain_id")
        self.contract = web3.eth.contract(address=self.address, abi=artifact.abi, decode_tuples=True)

    def publisher(self) -> str:
        """Return the account that may add to the list."""
        return str(self._view("owner"))

    def every(self) -> list[Release]:
        """Return all releases, oldest first."""
        count = min(int(self._view("releaseCount")), _MAX_RELEASES)
        return [self._release(self._view("releaseAt", number)) for number in range(1, count + 1)]

    def named(self, version: str) -> Release:
        """Return a release by its version. Raises ReleaseRefused if there is none."""
        try:
            return self._release(self._view("releaseOf", version))
        except Reverted as error:
            if error.name != "NoSuchVersion":
                raise
            raise ReleaseRefused(
                f"{self.address} has no release {version!r}; see `assay release list`"
            ) from None

    def deployment(self, version: str, chain_id: int) -> Deployment:
        """Return the contracts of that version. Raises ReleaseRefused if a daemon must not use them."""
        release = self.named(version)
        if release.status is Status.WITHDRAWN:
            raise ReleaseRefused(
                f"release {version!r} was withdrawn: {release.reason!r}; see `assay release list` for another"
            )
        if release.opset != OPSET_VERSION:
            raise ReleaseRefused(
                f"release {version!r} judges by opset {release.opset}, this build computes opset {OPSET_VERSION}; "
                f"install the build of that release"
            )
        if release.status is Status.SUPERSEDED:
            _log.warning("release.superseded", version=version, reason=release.reason)
        build = self._check(release)
        return Deployment(chain_id, release.since, release.addresses, release.code_hashes, build)

    # ------------------------------------------------------------------ moves

    def publish(self, version: str, since: int, addresses: dict[str, str]) -> Call:
        """Return a call that publishes these contracts, by their names in a deployment."""
        parts = tuple(Web3.to_checksum_address(addresses[name]) for name in PARTS.values())
        return Call.of(self.contract, "publish", version, OPSET_VERSION, since, parts)

    def supersede(self, version: str, reason: str) -> Call:
        """Return a call that says that there is a better release."""
        return Call.of(self.contract, "supersede", version, reason)

    def withdraw(self, version: str, reason: str) -> Call:
        """Return a call that says that daemons should not use the release."""
        return Call.of(self.contract, "withdraw", version, reason)

    # ------------------------------------------------------------------ checks

    def _check(self, release: Release) -> Build:
        """Return the build of the release. Raise ReleaseRefused unless this version of Assay would deploy it."""
        codes = {name: self._code(address) for name, address in release.addresses.items()}
        build = max(Build, key=lambda build: _alike(codes, build))
        for name, address in release.addresses.items():
            code = codes[name]
            if "0x" + keccak(code).hex() != release.code_hashes[name]:
                raise ReleaseRefused(
                    f"the code of {name} at {address} is not that with which {release.version!r} was published; "
                    f"is the chain the right one?"
                )
            self._ours(release, name, address, code, build)
        for name, getter, other in LINKS:
            found, want = self._linked(name, release.addresses[name], getter), release.addresses[other]
            if found != want:
                raise ReleaseRefused(
                    f"release {release.version!r}: {name} goes by {found} as {getter}, not by its {other}, {want}"
                )
        self._check_judges(release, build)
        self._check_rules(release, build)
        return build

    def _check_judges(self, release: Release, build: Build) -> None:
        """Check the Judge and the Notary, which have no state and are not named in a release."""
        judge = self._linked("Referee", release.addresses["Referee"], "JUDGE")
        self._ours(release, "Judge", judge, self._code(judge), build)
        notary = self._linked("Jobs", release.addresses["Jobs"], "NOTARY")
        self._ours(release, "Notary", notary, self._code(notary), build)
        found, want = self._linked("Notary", notary, "REGISTRY"), release.addresses["VerifierRegistry"]
        if found != want:
            raise ReleaseRefused(
                f"release {release.version!r}: Notary goes by {found} as REGISTRY, not by its VerifierRegistry, {want}"
            )

    def _check_rules(self, release: Release, build: Build) -> None:
        """Check the contracts that the court judges with: Examiner, Opset1 and the rules."""
        examiner = self._linked("Court", release.addresses["Court"], "EXAMINER")
        self._ours(release, "Examiner", examiner, self._code(examiner), build)
        opset = self._linked("Examiner", examiner, "OPSET")
        self._ours(release, "Opset1", opset, self._code(opset), build)
        for mode in MODES:
            for operator, name in zip(ONE_OF_EACH, mode.rule_contracts, strict=True):
                rule = self._linked("Opset1", opset, "rule", lookup(operator).id, mode.byte)
                self._ours(release, name, rule, self._code(rule), build)

    def _ours(self, release: Release, name: str, address: str, code: bytes, build: Build) -> None:
        if not same_code(code, load_artifact(name, build)):
            raise ReleaseRefused(
                f"release {release.version!r} has other code as {name}, at {address}, than this build of Assay; "
                f"install the build of that release"
            )

    # ------------------------------------------------------------------ inside

    def _release(self, raw: Any) -> Release:
        with guarded("release"):
            parts, codes = raw.parts, raw.codes
            return _RELEASE.read(
                "release",
                raw,
                addresses={name: str(getattr(parts, part)) for part, name in PARTS.items()},
                code_hashes={name: "0x" + bytes(getattr(codes, part)).hex() for part, name in PARTS.items()},
            )

    def _view(self, function: str, *given: Any) -> Any:
        with guarded(function, self._decode):
            return self.contract.functions[function](*given).call()

    def _linked(self, name: str, address: str, getter: str, *given: Any) -> str:
        contract = self.web3.eth.contract(
            address=Web3.to_checksum_address(address), abi=load_artifact(name).abi
        )
        with guarded(f"{name}.{getter}"):
            return str(contract.functions[getter](*given).call())

    def _code(self, address: str) -> bytes:
        with guarded(f"code of {address}"):
            return bytes(self.web3.eth.get_code(Web3.to_checksum_address(address)))


def _alike(codes: dict[str, bytes], build: Build) -> int:
    """Return how many contracts have the code of a build."""
    return sum(same_code(code, load_artifact(name, build)) for name, code in codes.items())


def same_code(code: bytes, artifact: ContractArtifact) -> bool:
    """Return whether ``code`` is the build's, apart from the values of its immutables.

    SAFETY: the code has an immutable in each place that reads it, and a getter shows one of them. So a forged contract
    may tell the right value and go by another: all places of an immutable must have the same.
    """
    if len(code) != len(artifact.runtime):
        return False
    plain = bytearray(code)
    for places in artifact.immutables:
        if len({code[at : at + _WORD] for at in places}) != 1:
            return False
        for at in places:
            plain[at : at + _WORD] = bytes(_WORD)
    return plain == artifact.runtime
