"""Errors of the node, below the tree of :mod:`referee_py.errors`. Each message names value, limit and remedy.

AssayError
├── ConfigError              a setting that is missing, unknown or out of range
├── KeystoreError            a key that cannot be read, written, opened or found
├── SignerUnavailable        a remote signer that does not sign now (also Unavailable): try again later
├── AlreadyRunning           another process holds the data directory
├── SchemaMismatch           a database of another version or of another deployment
├── DeployError              a deployment that must not or could not be made
├── ReleaseRefused           a release that is withdrawn, or differs from this build
├── WorkerLost               a worker of a run that is dead, hangs or computes wrongly; names it
├── DiskFailed               the disk refuses to read or write: what cannot be kept is computed again
│   └── DiskFull             it has no room
│       └── RoomKept         what room it has is kept for jobs in which we have a stake
├── LogsLate                 rounding logs that a run follows do not come in time (also Unavailable)
├── MemoryShort              the memory for all jobs together has no room for another (also Unavailable)
├── Corrupt                  bytes that do not match the name of an artifact (also HashMismatch and Unavailable)
├── Malformed                right bytes that no run of the program can lead to: the claim that names them is wrong
└── ChainError
    ├── RpcUnavailable       the endpoint does not answer (also Unavailable): try again later
    │   ├── NobodyListens    nothing listens at its address: a chain that was not started, or a wrong address
    │   ├── RpcBusy          it has had enough requests for now; says when to come again
    │   ├── RpcRefused       it does not answer this request; a smaller one may work
    │   ├── NotAsked         nobody was asked, since there is no time for it now
    │   └── Disagreement     too few endpoints show the same chain to stake money on it
    ├── RpcCorrupt           the endpoint's answer is malformed
    │   └── RpcTooLong       the answer exceeds our limit; a smaller request may work
    ├── WrongChain           the endpoint serves another chain or another contract
    ├── UnfitChain           the chain lacks what the contracts or an honest party's moves need
    ├── Reverted             a call that the contract refuses; carries the decoded custom error
    ├── FeeTooHigh           the chain's base fee is above our cap
    ├── InsufficientFunds    the account cannot pay value plus gas
    ├── TransactionFailed    mined, but reverted
    ├── TransactionLost      its nonce was used by a transaction that is not ours
    └── TransactionPending   not mined in time; it stays in the outbox
"""

from __future__ import annotations

import shlex
import sys
from typing import Any

from referee_py.errors import AssayError, HashMismatch, Unavailable

PIP = f"{shlex.quote(sys.executable)} -m pip"
"""The `pip` of this environment: one on the path may belong to another."""


class ConfigError(AssayError):
    """A setting that is missing, unknown or out of range."""


class KeystoreError(AssayError):
    """A key file that cannot be read, written or opened with this password."""


class SignerUnavailable(Unavailable):
    """A remote signer that does not answer, or not with a signature of ours."""


class AlreadyRunning(AssayError):
    """Another process works in the same data directory. Two nodes with one key would use each other's nonces."""


class SchemaMismatch(AssayError):
    """A database written by another version of Assay, or by a node of another deployment."""


class DeployError(AssayError):
    """A deployment that would overwrite a live one, or whose code is not on the chain."""


class ReleaseRefused(AssayError):
    """A release of the contracts that is not on the list, is withdrawn, or whose code differs from this build's."""


class WorkerLost(AssayError):
    """A worker of a run that has ended, does not answer in time, or has computed what others do not. ``worker`` is its
    number."""

    def __init__(self, worker: int, reason: str) -> None:
        self.worker = worker
        super().__init__(
            f"worker {worker} {reason}; the run can continue from the last state that it has kept, with any number of "
            "workers"
        )


class DiskFailed(AssayError):
    """The disk does not read or write. What could not be kept is computed or fetched again."""


class DiskFull(DiskFailed):
    """The disk, or the store's quota, has no room for the data to write."""


class RoomKept(DiskFull):
    """The room that is left is kept for jobs in which we have a stake, and the data to write is of another job."""


class LogsLate(Unavailable):
    """Rounding logs that a run follows do not come in time: nobody serves them, or they come too slowly."""


class MemoryShort(Unavailable):
    """A job does not fit in memory alongside others. ``waits``: it does later; else it is left to others."""

    def __init__(self, reason: str, *, waits: bool) -> None:
        super().__init__(reason)
        self.waits = waits


class Corrupt(HashMismatch, Unavailable):
    """Bytes that are not the requested artifact.

    NOTE: it is Unavailable too: a server that lies about bytes proves nothing about which side is right.
    """


class Malformed(AssayError):
    """Data under a claimed checkpoint cannot be of the program, so the interval that ends there is wrong."""


class ChainError(AssayError):
    """Any failure between this node and the chain."""


class RpcUnavailable(ChainError, Unavailable):
    """The RPC endpoint does not answer, or answers that it cannot."""

    @property
    def advice(self) -> str:
        return _unless_told(self, "name an endpoint that serves in rpc_url, or try again later")


class NobodyListens(RpcUnavailable):
    """Nothing listens at the RPC endpoint's address. The message says what to do."""


class RpcBusy(RpcUnavailable):
    """The RPC endpoint takes no more requests for now. ``retry_s``: seconds until it may, by its own word; or 0."""

    def __init__(self, reason: str, retry_s: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_s = retry_s


class RpcRefused(RpcUnavailable):
    """The RPC endpoint is up but refuses this request: it answers with an error of its own, or too slowly."""


class NotAsked(RpcUnavailable):
    """Endpoints were not asked to confirm what was read: there is no time for it while moves wait."""


class Disagreement(RpcUnavailable):
    """Too few RPC endpoints show the same chain, or it is too old, to stake money on what they show. ``contradicted``:
    one of them shows something else now, and not only too few answer."""

    def __init__(self, reason: str, *, contradicted: bool = False) -> None:
        super().__init__(reason)
        self.contradicted = contradicted


class RpcCorrupt(ChainError):
    """The RPC endpoint gave an answer of the wrong type or size."""

    @property
    def advice(self) -> str:
        return _unless_told(self, "correct the address in rpc_url, or name another endpoint there")


class RpcTooLong(RpcCorrupt):
    """The answer has more bytes than the limit."""


class WrongChain(ChainError):
    """The RPC endpoint serves another chain id, or other code at the contract's address."""


class UnfitChain(ChainError):
    """The chain does not execute, hold or pay for what the contracts need, so a stake there could not be defended."""


class Reverted(ChainError):
    """A call that the contract refuses.

    ``name`` is the custom error ("Late"), ``values`` its arguments by name, ``data`` the raw revert data.
    """

    def __init__(
        self, action: str, name: str, values: dict[str, Any] | None = None, data: bytes = b""
    ) -> None:
        self.action = action
        self.name = name
        self.values = values or {}
        self.data = data
        given = ", ".join(f"{key}={_short(value)}" for key, value in self.values.items())
        super().__init__(f"{action} is refused by the contract: {name}({given})")


class InsufficientFunds(ChainError):
    """The account holds less than value plus the most that the gas may cost."""


class FeeTooHigh(ChainError):
    """The chain's base fee is above the configured cap."""


class TransactionFailed(Reverted):
    """A transaction that was mined and reverted: the state changed between simulation and inclusion."""

    def __init__(self, action: str, tx_hash: bytes, gas_used: int, cause: Reverted | None) -> None:
        name = cause.name if cause else "unknown"
        super().__init__(action, name, cause.values if cause else None, cause.data if cause else b"")
        self.tx_hash = tx_hash
        self.gas_used = gas_used


class TransactionLost(ChainError):
    """The nonce was used by a transaction that is not in our outbox: another process uses this key."""


class TransactionPending(ChainError):
    """Not mined within the given time. It stays in the outbox; the next wait replaces or rebroadcasts it."""


def _unless_told(error: ChainError, remedy: str) -> str:
    return "" if "rpc_url" in str(error) else remedy


def _short(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        text = "0x" + bytes(value).hex()
        return text if len(text) <= 66 else text[:66] + "..."
    text = str(value)
    return text if len(text) <= 80 else text[:80] + "..."
