"""Receipts as files: an in-toto Statement in a DSSE envelope, with both signatures of the auditor.

    {"payload": base64(statement), "payloadType": "application/vnd.in-toto+json",
     "signatures": [{"keyid": <address>, "sig": base64(DER of r, s)}]}           over SHA-256 of the envelope's PAE

    statement = {"_type": ..., "subject": [{"name": "run", "digest": {"assayRunRoot": <root>}}], "predicateType": ...,
                 "predicate": {"receipt": {...}, "signature": <EIP-712 signature, 130 hexadecimal digits>}}

INVARIANT: a receipt has one file: keys are sorted, nothing stands between the parts, both signatures are deterministic
and canonical. Any other bytes are refused, so nothing in a file is unsigned, ignored, or said twice.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from eth_account.signers.local import LocalAccount
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from referee_py.errors import InvalidEncoding

from ..storage.untrusted_file import read_plain, write_plain
from .envelope import CERTIFICATE_TYPE, STATEMENT_TYPE, check_seal, compact, envelope, seal
from .receipt import Address, Hash, Receipt, check_signature, sign

MAX_BYTES = 1 << 13
PREDICATE_TYPE = "urn:assay:audit-receipt:1"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Signature(_Part):
    keyid: Address
    sig: str = Field(max_length=128)


Part = TypeVar("Part", bound=_Part)


class _Envelope(_Part):
    payload: str = Field(max_length=MAX_BYTES)
    payloadType: Literal["application/vnd.in-toto+json"]  # noqa: N815 - a name of the format
    signatures: list[_Signature] = Field(min_length=1, max_length=1)


class _Digest(_Part):
    assayRunRoot: Hash  # noqa: N815 - a name of the format


class _Subject(_Part):
    name: Literal["run"]
    digest: _Digest


class _Predicate(_Part):
    receipt: Receipt
    signature: Annotated[str, Field(pattern="^[0-9a-f]{130}$")]


class _Statement(_Part):
    type: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: list[_Subject] = Field(min_length=1, max_length=1)
    predicateType: Literal["urn:assay:audit-receipt:1"]  # noqa: N815 - a name of the format
    predicate: _Predicate


@dataclass(frozen=True)
class Signed:
    """A receipt with the signatures of its auditor: of the typed data (r ‖ s ‖ v), and of the envelope (DER)."""

    receipt: Receipt
    signature: bytes
    envelope_signature: bytes

    @classmethod
    def by(cls, account: LocalAccount, receipt: Receipt) -> Signed:
        """Sign a receipt whose auditor has this account."""
        signature = sign(receipt, account)
        return cls(receipt, signature, seal(account, _payload(receipt, signature)))

    def to_bytes(self) -> bytes:
        """Return the file."""
        payload = _payload(self.receipt, self.signature)
        return envelope(self.receipt.auditor, payload, self.envelope_signature)

    @classmethod
    def from_bytes(cls, data: bytes) -> Signed:
        """Read and check a file of a stranger. Raises InvalidEncoding, which says what is wrong with it."""
        if len(data) > MAX_BYTES:
            raise InvalidEncoding(f"no receipt: it has more than {MAX_BYTES} bytes")
        _refuse_certificate(data)
        # SAFETY: this parser limits nesting.
        envelope = _parsed(_Envelope, data)
        payload = _decoded(envelope.payload)
        _refuse_certificate(payload)
        predicate = _parsed(_Statement, payload).predicate
        signed = cls(
            predicate.receipt, bytes.fromhex(predicate.signature), _decoded(envelope.signatures[0].sig)
        )
        if signed.to_bytes() != data:
            raise InvalidEncoding(
                "no receipt: not in the one form of its content, with each key once, sorted, without spaces, "
                "and with run and signer as in the receipt"
            )
        check_signature(signed.receipt, signed.signature)
        check_seal(signed.receipt.auditor, payload, signed.envelope_signature)
        return signed

    @classmethod
    def read(cls, path: Path) -> Signed:
        """Read a file. Raises OSError, InvalidInput."""
        return cls.from_bytes(read_plain(path, MAX_BYTES))

    def write(self, folder: Path) -> Path:
        """Write the file under its name in a folder, whole or not at all; return its path."""
        path = folder / file_name(self.receipt.root, self.receipt.interval, self.receipt.auditor)
        write_plain(path, self.to_bytes())
        return path


def file_name(root: str, interval: int, auditor: str) -> str:
    """Return the name of a receipt's file; it is not read from it again."""
    return f"{root[:16]}-{interval:06}-{auditor.lower()}.json"


def _payload(receipt: Receipt, signature: bytes) -> bytes:
    return compact(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": "run", "digest": {"assayRunRoot": receipt.root}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {"receipt": receipt.model_dump(), "signature": signature.hex()},
        }
    )


def _refuse_certificate(data: bytes) -> None:
    """Raise InvalidEncoding for a certificate, with what shows that it is right."""
    if f'"{CERTIFICATE_TYPE}"'.encode() in data:
        raise InvalidEncoding(
            "a certificate, and no receipt: it follows from its evidence, so make it again with "
            "`assay run certificate`, of the same run and receipts, and compare the bytes of certificate.json"
        )


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidEncoding(f"no receipt: no base64: {error}") from error


def _parsed(model: type[Part], data: bytes) -> Part:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "file"
        raise InvalidEncoding(f"no receipt: {place[:80]}: {first['msg'][:200]}") from error
