"""The receipt of an answer: what a server says it has computed, as EIP-712 typed data that its key signs, in a file.

    {"payload": base64(statement), "payloadType": "application/vnd.in-toto+json", "signatures": [...]}   a DSSE envelope

    statement = {"_type": ..., "subject": [{"name": "answer", "digest": {"assayAnswer": <id>}}], "predicateType": ...,
                 "predicate": {"receipt": {...}, "signature": <EIP-712>, "prompt": [...], "tokens": [...],
                               "logprobs": [...], "steps": [...]}}

The signed fields name tokens and steps by hashes; the lists beside them are checked against these. A receipt alone says
everything that whoever has the model needs to compute the answer again. It shows that the owner of a key says so.

INVARIANT: a receipt has one file, as those of audits: any other bytes are refused.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from eth_account.messages import SignableMessage, encode_typed_data
from eth_account.signers.local import LocalAccount
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from referee_py.attestation import digest_of, recover_address
from referee_py.commit import tensor_hash
from referee_py.commit.tensor import Array
from referee_py.errors import InvalidEncoding
from trainer_node.audit.engine import MAX_TIME
from trainer_node.audit.envelope import STATEMENT_TYPE, check_seal, compact, envelope, seal
from trainer_node.audit.receipt import Address, Hash

from .backed import Backed, written_hash
from .limits import MAX_TOKENS

FORMAT = 1
DOMAIN = {"name": "Assay Answer", "version": "1"}
"""INVARIANT: no receipt of an audit and no verdict is one of an answer, since their domains have other names."""
PREDICATE_TYPE = "urn:assay:answer-receipt:1"
MAX_BYTES = 1 << 24

_FIELDS = {
    **{"format": "uint32", "server": "address", "model": "bytes32", "step": "bytes32", "weights": "bytes32"},
    **{"tokenizer": "bytes32", "template": "bytes32", "places": "uint64", "prompt": "bytes32"},
    **{"temperature": "uint32", "topK": "uint64", "topP": "uint32", "seed": "uint64"},
    **{"output": "bytes32", "logprobs": "bytes32", "steps": "bytes32", "finish": "string"},
    **{"mode": "uint8", "kernels": "bytes32", "time": "uint64"},
}
TYPES = {"Answer": [{"name": name, "type": kind} for name, kind in _FIELDS.items()]}

_Count = Annotated[int, Field(ge=0, lt=1 << 48)]
_Bits = Annotated[int, Field(ge=0, lt=1 << 32)]
_Token = Annotated[int, Field(ge=0, lt=1 << 31)]
_Signed = Annotated[str, Field(pattern="^[0-9a-f]{130}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Receipt(_Part):
    """A statement about one answer, by the key of ``server``. Raises ValidationError.

    model          root over step, weights, tokenizer and template (`model.Identity`)
    places         tokens that a prompt and its answer may have together: a part of the program
    prompt, output TENSOR hashes of i64 tokens
    temperature, topP  bits of f32
    seed           number below 2^64
    logprobs       TENSOR hash of f32, of each token of the answer
    steps          TENSOR hash of i64 [n, 4]: row t has the TENSOR hash of all log-probabilities in the place of token t
    finish         why it ended, as the server says: nothing else of the receipt shows it
    mode, kernels  the arithmetic, and what computed it (trainer_node.audit.receipt_kernels)
    time           seconds since 1970, by the server's clock
    """

    format: int = Field(ge=FORMAT, le=FORMAT)
    server: Address
    model: Hash
    step: Hash
    weights: Hash
    tokenizer: Hash
    template: Hash
    places: _Count
    prompt: Hash
    temperature: _Bits
    topK: _Count  # noqa: N815 - a name of the typed data
    topP: _Bits  # noqa: N815
    seed: Annotated[int, Field(ge=0, lt=1 << 64)]
    output: Hash
    logprobs: Hash
    steps: Hash
    finish: Literal["stop", "length"]
    mode: Annotated[int, Field(ge=0, lt=1 << 8)]
    kernels: Hash
    time: Annotated[int, Field(gt=0, le=MAX_TIME)]

    def message(self) -> SignableMessage:
        fields = self.model_dump()
        for name, kind in _FIELDS.items():
            if kind == "bytes32":
                fields[name] = bytes.fromhex(fields[name])
        return encode_typed_data(domain_data=DOMAIN, message_types=TYPES, message_data=fields)

    @property
    def id(self) -> str:
        """The hash of the typed data, which is the name of this receipt."""
        return digest_of(self.message()).hex()


@dataclass(frozen=True)
class Lists:
    """Lists that the hashes of a receipt stand for. ``logprobs`` are bits of f32, ``steps`` hashes."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    logprobs: tuple[int, ...]
    steps: tuple[bytes, ...]

    def hashes(self) -> dict[str, str]:
        """Return the fields of a receipt that commit to these lists."""
        found: dict[str, Array] = {
            "prompt": np.array(self.prompt, np.int64),
            "output": np.array(self.tokens, np.int64),
            "logprobs": np.array(self.logprobs, np.uint32).view(np.float32),
            "steps": np.frombuffer(b"".join(self.steps), "<i8").reshape(-1, 4),
        }
        return {name: tensor_hash(array).hex() for name, array in found.items()}


class _Signature(_Part):
    keyid: Address
    sig: str = Field(max_length=128)


class _Envelope(_Part):
    payload: str = Field(max_length=MAX_BYTES)
    payloadType: Literal["application/vnd.in-toto+json"]  # noqa: N815
    signatures: list[_Signature] = Field(min_length=1, max_length=1)


class _Digest(_Part):
    assayAnswer: Hash  # noqa: N815


class _Subject(_Part):
    name: Literal["answer"]
    digest: _Digest


class _Predicate(_Part):
    receipt: Receipt
    signature: _Signed
    prompt: list[_Token] = Field(min_length=1, max_length=MAX_TOKENS)
    tokens: list[_Token] = Field(min_length=1, max_length=MAX_TOKENS)
    logprobs: list[_Bits] = Field(max_length=MAX_TOKENS)
    steps: list[Hash] = Field(max_length=MAX_TOKENS)
    backed: Backed | None = None
    backedSignature: _Signed = ""  # noqa: N815


class _Statement(_Part):
    type: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: list[_Subject] = Field(min_length=1, max_length=1)
    predicateType: Literal["urn:assay:answer-receipt:1"]  # noqa: N815
    predicate: _Predicate


@dataclass(frozen=True)
class Signed:
    """A receipt with its lists, and the server's signatures: of the typed data, and of the envelope (DER). Where a
    pledge is behind it: what is signed for its contract, too."""

    receipt: Receipt
    lists: Lists
    signature: bytes
    envelope_signature: bytes
    backed: Backed | None = None
    backed_signature: bytes = b""

    @classmethod
    def by(
        cls,
        account: LocalAccount,
        fields: dict[str, Any],
        lists: Lists,
        back: Callable[[Receipt], Backed] | None = None,
    ) -> Signed:
        """Sign a receipt of these fields; server, format and the hashes of the lists are filled in. ``back`` says what
        is signed for the contract of a pledge."""
        own = {"format": FORMAT, "server": account.address, **lists.hashes()}
        receipt = Receipt.model_validate({**fields, **own})
        signed = cls(receipt, lists, bytes(account.sign_message(receipt.message()).signature), b"")
        if back is not None:
            backed = back(receipt)
            told = bytes(account.sign_message(backed.message()).signature)
            signed = replace(signed, backed=backed, backed_signature=told)
        return replace(signed, envelope_signature=seal(account, signed._payload()))

    def to_bytes(self) -> bytes:
        """Return the file."""
        return envelope(self.receipt.server, self._payload(), self.envelope_signature)

    @classmethod
    def from_bytes(cls, data: bytes) -> Signed:
        """Read and check a file of a stranger. Raises InvalidEncoding, which says what is wrong with it."""
        if len(data) > MAX_BYTES:
            raise InvalidEncoding(f"no receipt: it has more than {MAX_BYTES} bytes")
        # SAFETY: this parser limits nesting.
        sealed: _Envelope = _parsed(_Envelope, data)
        payload = _decoded(sealed.payload)
        told: _Predicate = _parsed(_Statement, payload).predicate
        steps = tuple(map(bytes.fromhex, told.steps))
        lists = Lists(tuple(told.prompt), tuple(told.tokens), tuple(told.logprobs), steps)
        signed = cls(
            told.receipt,
            lists,
            bytes.fromhex(told.signature),
            _decoded(sealed.signatures[0].sig),
            told.backed,
            bytes.fromhex(told.backedSignature),
        )
        if signed.to_bytes() != data:
            raise InvalidEncoding(
                "no receipt: not in the one form of its content, with each key once, sorted, without spaces, "
                "and with id and signer as in the receipt"
            )
        signed._check()
        check_seal(signed.receipt.server, payload, signed.envelope_signature)
        return signed

    def _check(self) -> None:
        if len({len(self.lists.tokens), len(self.lists.logprobs), len(self.lists.steps)}) != 1:
            raise InvalidEncoding("no receipt: it has not as many tokens, log-probabilities and steps")
        for name, digest in self.lists.hashes().items():
            if getattr(self.receipt, name) != digest:
                raise InvalidEncoding(f"no receipt: its list of {name} is not the one that is signed")
        server, signatures = self.receipt.server, [(self.receipt.message(), self.signature)]
        if (backed := self.backed) is not None:
            self._check_backed(backed)
            signatures.append((backed.message(), self.backed_signature))
        for message, signature in signatures:
            if recover_address(digest_of(message), signature) != server:
                raise InvalidEncoding(f"its signature is of other data or another key than {server}'s")

    def _check_backed(self, backed: Backed) -> None:
        """SAFETY: a pledge that is behind other tokens, or another answer, is behind nothing of this receipt."""
        receipt, lists = self.receipt, self.lists
        if backed.answer != receipt.id:
            raise InvalidEncoding("no receipt: its pledge is behind another one")
        if len(lists.prompt) + len(lists.tokens) > receipt.places:
            raise InvalidEncoding("no receipt: its pledge is behind more tokens than its program has places")
        if receipt.places > MAX_TOKENS:
            raise InvalidEncoding(f"no receipt: its pledge is behind {receipt.places} places")
        if backed.written != written_hash(receipt.places, lists.prompt, lists.tokens).hex():
            raise InvalidEncoding("no receipt: its pledge is behind other tokens")
        if backed.until < receipt.time:
            raise InvalidEncoding("no receipt: it could be challenged only before it was signed")

    def _payload(self) -> bytes:
        lists = self.lists
        predicate = {
            "receipt": self.receipt.model_dump(),
            "signature": self.signature.hex(),
            "prompt": list(lists.prompt),
            "tokens": list(lists.tokens),
            "logprobs": list(lists.logprobs),
            "steps": [step.hex() for step in lists.steps],
        }
        if self.backed is not None:
            told = {"backed": self.backed.model_dump(), "backedSignature": self.backed_signature.hex()}
            predicate |= told
        return compact(
            {
                "_type": STATEMENT_TYPE,
                "subject": [{"name": "answer", "digest": {"assayAnswer": self.receipt.id}}],
                "predicateType": PREDICATE_TYPE,
                "predicate": predicate,
            }
        )


def bits_of(values: Sequence[float]) -> tuple[int, ...]:
    """Return the bits of values of f32."""
    return tuple(map(int, np.array(values, np.float32).view(np.uint32)))


def value_of(bits: int) -> float:
    """Return the value of f32 with these bits."""
    return float(np.uint32(bits).view(np.float32))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidEncoding(f"no receipt: no base64: {error}") from error


def _parsed(model: Any, data: bytes) -> Any:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "file"
        raise InvalidEncoding(f"no receipt: {place[:80]}: {first['msg'][:200]}") from error
