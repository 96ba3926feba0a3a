"""Verdicts of verifiers: EIP-712 typed data, signed and recovered (docs/protocol.md, section 7, "Verdict")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eth_account import Account
from eth_account.messages import SignableMessage, encode_typed_data
from eth_utils.crypto import keccak

DOMAIN_NAME = "Assay Referee"
DOMAIN_VERSION = "1"
SIGNATURE_BYTES = 65

TYPES = {
    "Verdict": [
        {"name": "matchId", "type": "uint256"},
        {"name": "step", "type": "uint64"},
        {"name": "node", "type": "uint32"},
        {"name": "record", "type": "bytes32"},
    ]
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verifier signs: the hash of the right record of one node in one step of one match."""

    match_id: int
    step: int
    node: int
    record: bytes

    def typed_data(self, chain_id: int, referee: str) -> SignableMessage:
        """INVARIANT: the domain binds chain and contract, so no signature counts in another match."""
        return encode_typed_data(
            domain_data={
                "name": DOMAIN_NAME,
                "version": DOMAIN_VERSION,
                "chainId": chain_id,
                "verifyingContract": referee,
            },
            message_types=TYPES,
            message_data={
                "matchId": self.match_id,
                "step": self.step,
                "node": self.node,
                "record": self.record,
            },
        )

    def digest(self, chain_id: int, referee: str) -> bytes:
        """The 32 bytes that are signed."""
        message = self.typed_data(chain_id, referee)
        return keccak(b"\x19" + message.version + message.header + message.body)


def sign(verdict: Verdict, chain_id: int, referee: str, key: bytes) -> bytes:
    """The 65-byte signature ``r ‖ s ‖ v``."""
    signed: Any = Account.sign_message(verdict.typed_data(chain_id, referee), key)
    return bytes(signed.signature)


def recover(verdict: Verdict, chain_id: int, referee: str, signature: bytes) -> str | None:
    """The checksummed address that signed, or None if it is no signature at all."""
    if len(signature) != SIGNATURE_BYTES:
        return None
    try:
        return str(Account.recover_message(verdict.typed_data(chain_id, referee), signature=signature))
    except Exception:
        return None
