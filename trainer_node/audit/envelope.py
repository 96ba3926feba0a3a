"""Envelopes of in-toto statements (DSSE 1), signed by an account's key over SHA-256 of the envelope's PAE, in DER."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from eth_account.signers.local import LocalAccount

from referee_py.attestation import recover_address
from referee_py.errors import InvalidEncoding

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
CERTIFICATE_TYPE = "urn:assay:certificate:1"
"""Type of the statements that `certificate` makes, which no receipt has."""


def seal(account: LocalAccount, payload: bytes) -> bytes:
    """Return an account's signature over a payload, in DER."""
    sealed = account.unsafe_sign_hash(digest_of(payload))  # type: ignore[arg-type]
    return der(sealed.r, sealed.s)


def envelope(signer: str, payload: bytes, signature: bytes) -> bytes:
    """Return the file of an envelope with one signature."""
    sealed = {"keyid": signer, "sig": base64.b64encode(signature).decode()}
    told = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [sealed],
    }
    return compact(told) + b"\n"


def compact(value: dict[str, Any]) -> bytes:
    """Return JSON in its one form: keys sorted, nothing between the parts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def digest_of(payload: bytes) -> bytes:
    """Return SHA-256 of the pre-authentication encoding (PAE) of DSSE 1."""
    kind = PAYLOAD_TYPE.encode()
    return hashlib.sha256(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)).digest()


def check_seal(signer: str, payload: bytes, signature: bytes) -> None:
    """Raise InvalidEncoding unless the signature, in DER, is the signer's over this payload."""
    r, s = numbers_of(signature)
    digest, both = digest_of(payload), r.to_bytes(32, "big") + s.to_bytes(32, "big")
    for v in (27, 28):  # NOTE: DER does not say which of two keys has signed
        try:
            if recover_address(digest, both + bytes([v])) == signer:
                return
        except InvalidEncoding as error:
            why = str(error)
            continue
        why = f"of other data or another key than {signer}'s"
    raise InvalidEncoding(f"the envelope's signature: {why}")


def der(r: int, s: int) -> bytes:
    """Return the DER encoding of two numbers."""
    parts = b""
    for number in (r, s):
        # NOTE: a leading zero byte where the number would look negative.
        data = number.to_bytes(number.bit_length() // 8 + 1, "big")
        parts += bytes([2, len(data)]) + data
    return bytes([0x30, len(parts)]) + parts


def numbers_of(data: bytes) -> tuple[int, int]:
    """Return the two numbers of a DER encoding. Raises InvalidEncoding for any other bytes."""
    try:
        length = data[3]
        r, s = int.from_bytes(data[4 : 4 + length], "big"), int.from_bytes(data[6 + length :], "big")
        if max(r, s) < 1 << 256 and der(r, s) == data:
            return r, s
    except IndexError:
        pass
    raise InvalidEncoding("the envelope's signature is not the DER encoding of two numbers")
