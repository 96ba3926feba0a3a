"""The salts of commitments, derived from the key, so that they cannot be lost between commit and reveal."""

from __future__ import annotations

import hashlib

from eth_account.messages import encode_defunct
from eth_account.signers.base import BaseAccount

from .db import Database


class Salts:
    """The salts of one account, each kept in the database from its first use on.

    SAFETY: with a key in a keystore, or a signer whose signatures are deterministic (RFC 6979), an empty disk gives the
    same salts again. A signer in hardware may sign differently each time: with one, the database must not be lost while
    a commitment is open.
    """

    def __init__(self, account: BaseAccount, database: Database) -> None:
        self._account = account
        self._database = database

    def of(self, chain_id: int, contract: str, job_id: int) -> bytes:
        """Return 32 bytes that only the holder of the key can know. Raises SignerUnavailable.

        SAFETY: the signature is never published, so the salt has the key's entropy. The text binds it to one job of one
        contract on one chain.
        """
        text = f"Assay commitment salt\nchain {chain_id}\njobs {contract.lower()}\njob {job_id}"
        name = f"{text}\nof {self._account.address}"
        kept = self._database.get(name)
        if kept is None:
            signed = self._account.sign_message(encode_defunct(text=text))
            kept = hashlib.sha256(bytes(signed.signature)).hexdigest()
            self._database.put(name, kept)
        return bytes.fromhex(kept)
