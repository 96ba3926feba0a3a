"""The salts of commitments and the secret of draws, derived from the key, so that they cannot be lost."""

from __future__ import annotations

import hashlib

from eth_account.messages import encode_defunct
from eth_account.signers.base import BaseAccount

from ..storage.database import Database


class Salts:
    """The salts and secrets of one account, each kept in the database from its first use on.

    SAFETY: with a key in a keystore, or a signer whose signatures are deterministic (RFC 6979), an empty disk gives the
    same salts again. A signer in hardware may sign differently each time: with one, the database must not be lost while
    a commitment is open.
    """

    def __init__(self, account: BaseAccount, database: Database) -> None:
        self._account = account
        self._database = database

    def of(self, chain_id: int, contract: str, job_id: int) -> bytes:
        """Return the salt of our result's commitment in a job: 32 bytes, which the claim of the result shows to
        everybody. Raises SignerUnavailable."""
        return self._signed("Assay commitment salt", chain_id, contract, job_id)

    def secret(self, chain_id: int, contract: str, job_id: int) -> bytes:
        """Return 32 bytes for what nobody but us may ever know of a job. Raises SignerUnavailable.

        SAFETY: no salt, since salts are shown: what a sampler draws must stay its own after its first refutation.
        """
        return self._signed("Assay secret of draws", chain_id, contract, job_id)

    def of_refutation(self, chain_id: int, contract: str, job_id: int, against: bytes, root: bytes) -> bytes:
        """Return the salt of one refutation in a job. SAFETY: each has its own, so that one that is shown tells nothing
        of those that are not."""
        secret = self.secret(chain_id, contract, job_id)
        return hashlib.sha256(b"Assay refutation" + secret + against + root).digest()

    def _signed(self, what: str, chain_id: int, contract: str, job_id: int) -> bytes:
        """Return 32 bytes that only the holder of the key can know.

        SAFETY: the signature is never published, so they have the key's entropy. The text binds them to one job of one
        contract on one chain.
        """
        text = f"{what}\nchain {chain_id}\njobs {contract.lower()}\njob {job_id}"
        name = f"{text}\nof {self._account.address}"
        kept = self._database.get(name)
        if kept is None:
            signed = self._account.sign_message(encode_defunct(text=text))
            kept = hashlib.sha256(bytes(signed.signature)).hexdigest()
            self._database.put(name, kept)
        return bytes.fromhex(kept)
