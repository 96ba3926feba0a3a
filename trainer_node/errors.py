"""Errors of the node, below the tree of :mod:`referee_py.errors`. Each message names value, limit and remedy.

AssayError
├── ConfigError              a setting that is missing, unknown or out of range
├── KeystoreError            a key file that cannot be read, written or opened
├── AlreadyRunning           another process holds the data directory
├── SchemaMismatch           a database of another version or of another deployment
├── DeployError              a deployment that must not or could not be made
├── ReleaseRefused           a release that is withdrawn, or not what this build knows
├── Corrupt                  an artifact that is not what its name says (also HashMismatch and Unavailable)
└── ChainError
    ├── RpcUnavailable       the node does not answer (also Unavailable): try again later
    │   └── RpcRefused       it does not answer this; a smaller request may do
    ├── RpcCorrupt           the node answers nonsense
    │   └── RpcTooLong       more than we take in one answer; a smaller request may do
    ├── WrongChain           the node serves another chain or another contract
    ├── Reverted             a call that the contract refuses; carries the decoded custom error
    ├── FeeTooHigh           the chain's base fee is above our cap
    ├── InsufficientFunds    the account cannot pay value plus gas
    ├── TransactionFailed    mined, but reverted
    ├── TransactionLost      its nonce was used by a transaction that is not ours
    └── TransactionPending   not mined in time; it stays in the outbox
"""

from __future__ import annotations

from typing import Any

from referee_py.errors import AssayError, HashMismatch, Unavailable


class ConfigError(AssayError):
    """A setting that is missing, unknown or out of range."""


class KeystoreError(AssayError):
    """A key file that cannot be read, written or opened with this password."""


class AlreadyRunning(AssayError):
    """Another process works in the same data directory. Two nodes with one key would spend each other's nonces."""


class SchemaMismatch(AssayError):
    """A database that another version of Assay, or a node of another deployment, has written."""


class DeployError(AssayError):
    """A deployment that would overwrite a live one, or whose code is not on the chain."""


class ReleaseRefused(AssayError):
    """A release of the contracts that is not on the list, is withdrawn, or is other code than this build knows."""


class Corrupt(HashMismatch, Unavailable):
    """Bytes that are not the artifact that was asked for.

    NOTE: it is Unavailable too: whoever lied about the bytes says nothing about who is right.
    """


class ChainError(AssayError):
    """Anything that goes wrong between this node and the chain."""


class RpcUnavailable(ChainError, Unavailable):
    """The RPC endpoint does not answer, or answers that it cannot."""


class RpcRefused(RpcUnavailable):
    """The RPC endpoint is there, but does not do this: it answers with an error of its own, or too slowly."""


class RpcCorrupt(ChainError):
    """The RPC endpoint gave an answer of the wrong type or size."""


class RpcTooLong(RpcCorrupt):
    """The answer has more bytes than we take at once."""


class WrongChain(ChainError):
    """The RPC endpoint serves another chain id, or other code at the contract's address."""


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
    """The nonce was used by a transaction that is not in our outbox: somebody else uses this key."""


class TransactionPending(ChainError):
    """Not mined within the time given. It stays in the outbox and is replaced or rebroadcast by the next wait."""


def _short(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        text = "0x" + bytes(value).hex()
        return text if len(text) <= 66 else text[:66] + "..."
    text = str(value)
    return text if len(text) <= 80 else text[:80] + "..."
