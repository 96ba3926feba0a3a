"""Verdicts of verifiers: EIP-712 typed data, signed and recovered (docs/adjudication.md, section 6)."""

from __future__ import annotations

from dataclasses import dataclass

from eth_account.messages import SignableMessage, encode_typed_data
from eth_account.signers.base import BaseAccount
from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from .errors import InvalidEncoding

DOMAIN_NAME = "Assay Panel"
DOMAIN_VERSION = "1"
SIGNATURE_BYTES = 65
_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
"""Half the order of secp256k1's group."""

TYPES = {
    "Verdict": [
        {"name": "hearingId", "type": "uint256"},
        {"name": "step", "type": "uint64"},
        {"name": "node", "type": "uint32"},
        {"name": "record", "type": "bytes32"},
    ]
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The statement that a verifier signs: the hash of the right record of one node in one step, for one hearing."""

    hearing_id: int
    step: int
    node: int
    record: bytes

    def typed_data(self, chain_id: int, panel: str) -> SignableMessage:
        """Return the EIP-712 message. INVARIANT: its domain binds chain and contract; it counts in no other panel."""
        return encode_typed_data(
            domain_data={
                "name": DOMAIN_NAME,
                "version": DOMAIN_VERSION,
                "chainId": chain_id,
                "verifyingContract": panel,
            },
            message_types=TYPES,
            message_data={
                "hearingId": self.hearing_id,
                "step": self.step,
                "node": self.node,
                "record": self.record,
            },
        )

    def digest(self, chain_id: int, panel: str) -> bytes:
        """Return the 32 bytes that are signed."""
        return digest_of(self.typed_data(chain_id, panel))


def sign(verdict: Verdict, chain_id: int, panel: str, account: BaseAccount) -> bytes:
    """Return the account's 65-byte signature ``r ‖ s ‖ v``."""
    return bytes(account.sign_message(verdict.typed_data(chain_id, panel)).signature)


def recover(verdict: Verdict, chain_id: int, panel: str, signature: bytes) -> str:
    """Return the checksummed address that signed. Raises InvalidEncoding for a signature that is not canonical."""
    return recover_address(digest_of(verdict.typed_data(chain_id, panel)), signature)


def digest_of(message: SignableMessage) -> bytes:
    """Return the 32 bytes of typed data that are signed."""
    return keccak(b"\x19" + message.version + message.header + message.body)


def recover_address(digest: bytes, signature: bytes) -> str:
    """Return the checksummed address whose key has signed 32 bytes. Raises InvalidEncoding, as the contract would.

    SAFETY: the contract too takes only `s` in the lower half of the order and `v` 27 or 28, so a signature has one
    form.
    """
    if len(signature) != SIGNATURE_BYTES:
        raise InvalidEncoding(f"a signature of {len(signature)} bytes; it has {SIGNATURE_BYTES}")
    s, v = int.from_bytes(signature[32:64], "big"), signature[64]
    if s > _HALF_ORDER or v not in (27, 28):
        raise InvalidEncoding(f"a signature that is not canonical: v = {v}, s = {s:#x}")
    try:
        known = Signature(signature[:64] + bytes([v - 27]))
        return str(known.recover_public_key_from_msg_hash(digest).to_checksum_address())
    except (BadSignature, ValidationError) as error:
        raise InvalidEncoding(f"a signature of nobody: {error}") from error
