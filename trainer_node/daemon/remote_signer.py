"""An account whose key is elsewhere: Web3Signer's HTTP interface for eth1 keys, or whatever else speaks it.

    GET  <url>/api/v1/eth1/publicKeys          ["0x<64 bytes>", ...]
    POST <url>/api/v1/eth1/sign/0x<64 bytes>   {"data": "0x..."}  ->  0x<r ‖ s ‖ v>, of keccak-256 of the data

SAFETY: the signer is trusted with the key and with nothing else: its answers are bounded in size and time, and a
signature is used only if it is canonical and recovers to our address for exactly what was to be signed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
import rlp
from eth_account.datastructures import SignedMessage, SignedTransaction
from eth_account.messages import SignableMessage
from eth_account.signers.base import BaseAccount
from eth_keys.datatypes import PublicKey
from eth_typing import ChecksumAddress
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError
from hexbytes import HexBytes

from referee_py.attestation import SIGNATURE_BYTES, recover_address
from referee_py.errors import InvalidEncoding

from ..errors import KeystoreError, SignerUnavailable

MAX_ANSWER_BYTES = 1 << 20
"""Some seven thousand public keys."""
_KEY_BYTES = 64
_DYNAMIC_FEE = b"\x02"
"""The type of our transactions (EIP-1559)."""

Tell = Callable[[str | None], None]
"""Called with why the signer does not sign, and with None once it does."""


class RemoteAccount(BaseAccount):
    """The account ``address``, for which a signer at ``url`` signs. ``tell`` hears of failures. Safe for threads.

    Both ways to sign raise SignerUnavailable if there is no usable signature now.
    """

    def __init__(
        self, url: str, address: str, *, timeout_s: float = 10.0, tell: Tell = lambda _: None
    ) -> None:
        self._url = url.rstrip("/")
        self._address = to_checksum_address(address)
        self._tell = tell
        self._lock = threading.Lock()
        self._identifier: str | None = None
        self._client = httpx.Client(timeout=timeout_s, follow_redirects=False, trust_env=False)

    @property
    def address(self) -> ChecksumAddress:
        return self._address

    def look(self) -> None:
        """Ask whether the signer has the key, and report. Raises KeystoreError if it has other keys only."""
        try:
            self._identifier = self._found(self._ask("GET", "/api/v1/eth1/publicKeys"))
        except SignerUnavailable as error:
            self._tell(str(error))
        except KeystoreError as error:
            self._tell(str(error))
            raise
        else:
            self._tell(None)

    def sign_message(self, signable_message: SignableMessage) -> SignedMessage:
        """Sign a message of EIP-191, typed data (EIP-712) included."""
        data = b"\x19" + signable_message.version + signable_message.header + signable_message.body
        signature = self._sign(data)
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")
        return SignedMessage(HexBytes(keccak(data)), r, s, signature[64], HexBytes(signature))

    def sign_transaction(self, transaction_dict: Any) -> SignedTransaction:
        """Sign a transaction with dynamic fees and no access list."""
        fields = {name: transaction_dict[name] for name in sorted(transaction_dict)}
        fields.pop("type")
        to = fields.pop("to", None)
        unsigned = [
            fields.pop("chainId"),
            fields.pop("nonce"),
            fields.pop("maxPriorityFeePerGas"),
            fields.pop("maxFeePerGas"),
            fields.pop("gas"),
            b"" if to is None else bytes.fromhex(str(to).removeprefix("0x")),
            fields.pop("value"),
            bytes(fields.pop("data")),
            [],
        ]
        # SAFETY: a field that is not signed would be lost silently.
        assert not fields, f"fields {sorted(fields)} are of no transaction of ours"
        signature = self._sign(_DYNAMIC_FEE + rlp.encode(unsigned))
        parity = signature[64] - 27
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")
        raw = _DYNAMIC_FEE + rlp.encode([*unsigned, parity, r, s])
        return SignedTransaction(HexBytes(raw), HexBytes(keccak(raw)), r, s, parity)

    def unsafe_sign_hash(self, _message_hash: Any) -> SignedMessage:
        """Refuse: the interface hashes by itself. Raises KeystoreError."""
        raise KeystoreError("a remote signer signs no bare hash; use a keystore for receipts of audits")

    # ------------------------------------------------------------------ inside

    def _sign(self, data: bytes) -> bytes:
        """Return the signature of keccak-256 of the data, as ``r ‖ s ‖ v``."""
        try:
            answer = self._ask("POST", f"/api/v1/eth1/sign/{self._key()}", {"data": "0x" + data.hex()})
            signature = _signature(answer)
            try:
                signer = recover_address(keccak(data), signature)
            except InvalidEncoding as error:
                raise SignerUnavailable(
                    f"the signer at {self._url} gave {error}; repair or replace it"
                ) from error
            if signer != self._address:
                raise SignerUnavailable(
                    f"the signer at {self._url} signed with the key of {signer}, or something else than it was asked "
                    f"to; the key of {self._address} is wanted"
                )
        except (SignerUnavailable, KeystoreError) as error:
            self._tell(str(error))
            raise SignerUnavailable(str(error)) from error
        self._tell(None)
        return signature

    def _key(self) -> str:
        """Return the signer's name of our key: the public key."""
        with self._lock:
            if self._identifier is None:
                self._identifier = self._found(self._ask("GET", "/api/v1/eth1/publicKeys"))
            return self._identifier

    def _found(self, answer: str) -> str:
        try:
            keys = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise SignerUnavailable(f"the signer at {self._url} lists no keys: {error}") from error
        for key in keys if isinstance(keys, list) else []:
            if isinstance(key, str) and _address_of(key) == self._address:
                return key
        raise KeystoreError(
            f"the signer at {self._url} has no key of {self._address}; check signer_address, or load the key there"
        )

    def _ask(self, method: str, path: str, body: dict[str, str] | None = None) -> str:
        try:
            with self._client.stream(method, self._url + path, json=body) as response:
                content = bytearray()
                for chunk in response.iter_bytes():
                    content += chunk
                    if len(content) > MAX_ANSWER_BYTES:
                        raise SignerUnavailable(
                            f"the signer at {self._url} answers more than {MAX_ANSWER_BYTES} bytes; is it a signer?"
                        )
                if response.status_code != 200:
                    raise SignerUnavailable(
                        f"the signer at {self._url} answers {response.status_code} to {path[:40]}: "
                        f"{bytes(content[:80])!r}; look into its log"
                    )
                return content.decode("ascii")
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise SignerUnavailable(
                f"the signer at {self._url} does not answer: {type(error).__name__} {error}; it is asked again"
            ) from error


def _signature(answer: str) -> bytes:
    """Return the 65 bytes of an answer, with or without quotation marks. Raises SignerUnavailable."""
    digits = answer.strip().strip('"').removeprefix("0x")
    try:
        signature = bytes.fromhex(digits)
    except ValueError:
        signature = b""
    if len(signature) != SIGNATURE_BYTES or len(digits) != 2 * SIGNATURE_BYTES:
        raise SignerUnavailable(
            f"the signer's answer {answer[:80]!r} is no signature of {SIGNATURE_BYTES} bytes"
        )
    # NOTE: some signers number the two possible keys 0 and 1, others 27 and 28.
    return signature[:64] + bytes([signature[64] + 27 if signature[64] < 27 else signature[64]])


def _address_of(key: str) -> str | None:
    """Return the address of a public key in hexadecimal digits; None if it is none."""
    try:
        data = bytes.fromhex(key.removeprefix("0x"))
        return PublicKey(data).to_checksum_address() if len(data) == _KEY_BYTES else None
    except (ValueError, ValidationError):
        return None
