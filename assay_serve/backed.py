"""The part of a receipt that is signed for the contract Pledges (docs/protocol.md, section 11): the run, its result.

It is EIP-712 typed data of its own: a receipt has it beside the rest, so that the chain reads six words of a receipt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from eth_account.messages import SignableMessage, encode_typed_data
from pydantic import BaseModel, ConfigDict, Field

from referee_py.attestation import digest_of
from referee_py.commit import tensor_hash
from trainer_node.audit.receipt import Address, Hash

NAME, VERSION = "Assay Pledge", "1"
_FIELDS = {
    **{
        "owner": "address",
        "answer": "bytes32",
        "program": "bytes32",
        "file": "bytes32",
        "written": "bytes32",
    },
    **{"until": "uint64"},
}
TYPES = {"Backed": [{"name": name, "type": kind} for name, kind in _FIELDS.items()]}


@dataclass(frozen=True)
class Backing:
    """A server's pledge: where it is, whose, and for how many seconds a receipt can be challenged."""

    chain: int
    contract: str
    owner: str
    seconds: int


class Backed(BaseModel):
    """The part of a receipt that its server signs for the chain. Raises ValidationError.

    chain, contract  the contract Pledges, of the domain
    owner            account whose pledge is behind the receipt
    answer           the receipt's id
    program, file    hash of the program of the answer's run, SHA-256 of its file
    written          TENSOR hash of i64 [1, places]: slot 0 after the run
    until            the last second in which the receipt can be challenged
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    chain: Annotated[int, Field(gt=0, lt=1 << 64)]
    contract: Address
    owner: Address
    answer: Hash
    program: Hash
    file: Hash
    written: Hash
    until: Annotated[int, Field(gt=0, lt=1 << 40)]

    def message(self) -> SignableMessage:
        domain = {"name": NAME, "version": VERSION, "chainId": self.chain, "verifyingContract": self.contract}
        return encode_typed_data(
            domain_data=domain,
            message_types=TYPES,
            message_data={
                name: bytes.fromhex(getattr(self, name)) if kind == "bytes32" else getattr(self, name)
                for name, kind in _FIELDS.items()
            },
        )

    @property
    def digest(self) -> bytes:
        """The hash that the contract knows this by."""
        return digest_of(self.message())

    @property
    def words(self) -> tuple[object, ...]:
        """The contract's struct."""
        hashes = (bytes.fromhex(one) for one in (self.answer, self.program, self.file, self.written))
        return self.owner, *hashes, self.until


def written_hash(places: int, prompt: Sequence[int], tokens: Sequence[int]) -> bytes:
    """Return the TENSOR hash of what the run of an answer leaves in slot 0."""
    row = np.zeros((1, places), np.int64)
    whole = (*prompt, *tokens)[:places]
    row[0, : len(whole)] = whole
    return tensor_hash(row)
