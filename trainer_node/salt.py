"""The salt of a commitment, derived from the key, so that it cannot be lost between commit and reveal."""

from __future__ import annotations

import hashlib

from eth_account.messages import encode_defunct
from eth_account.signers.local import LocalAccount


def salt_of(account: LocalAccount, chain_id: int, jobs: str, job_id: int) -> bytes:
    """Return 32 bytes that only the holder of the key can know.

    SAFETY: the signature is deterministic (RFC 6979) and is never published, so the salt has the key's entropy. The
    text binds it to one job of one contract on one chain.
    """
    text = f"Assay commitment salt\nchain {chain_id}\njobs {jobs.lower()}\njob {job_id}"
    return hashlib.sha256(bytes(account.sign_message(encode_defunct(text=text)).signature)).digest()
