"""The account of a process. Its key is in a JSON keystore file (Ethereum's version 3, scrypt), readable by its owner
only, or with a remote signer (:mod:`trainer_node.daemon.remote_signer`).
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from eth_account import Account
from eth_account.signers.base import BaseAccount
from eth_account.signers.local import LocalAccount

from ..errors import KeystoreError
from ..settings.settings import LOCAL_CHAINS, Settings
from ..storage.process import exclusive, exclusive_name
from .remote_signer import RemoteAccount, Tell

WORK_FACTOR = 1 << 18
"""scrypt's N: about a second and 256 MB per guess. Tests use a small one."""

_MAX_FILE_BYTES = 1 << 16
_MAX_WORK_FACTOR = 1 << 20


def create_key(
    path: Path, password: str, *, key: str | bytes | None = None, work_factor: int = WORK_FACTOR
) -> LocalAccount:
    """Write a new key (or ``key``, 32 bytes) encrypted with ``password``. Never overwrites. Raises KeystoreError."""
    if not password:
        raise KeystoreError("the password is empty; set password_file or ASSAY_PASSWORD")
    try:
        account: LocalAccount = Account.create() if key is None else Account.from_key(key)
    except Exception as error:
        raise KeystoreError("the private key is not 32 bytes of hex; check what was given") from error
    encrypted = Account.encrypt(account.key, password, kdf="scrypt", iterations=work_factor)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # SAFETY: O_EXCL never overwrites a key that holds money; the mode is 0600 from the first byte on.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise KeystoreError(
            f"{path} exists and holds an account; give another --keystore or --data-dir"
        ) from None
    except OSError as error:
        raise KeystoreError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(encrypted, file)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink()  # NOTE: a part of a key would be taken for one that holds an account.
        raise KeystoreError(
            f"{path} cannot be written: {error.strerror}; make room, or give another --keystore or --data-dir"
        ) from error
    return account


def read_address(path: Path) -> str:
    """Return the address of a keystore, without its password. Raises KeystoreError."""
    from eth_utils.address import to_checksum_address

    try:
        return str(to_checksum_address(str(_read(path)["address"])))
    except (KeyError, ValueError, TypeError) as error:
        raise KeystoreError(f"{path} names no address; it is no keystore of version 3") from error


def open_key(path: Path, password: str) -> LocalAccount:
    """Return the account in a keystore. Raises KeystoreError."""
    content = _read(path)
    # NOTE: eth_account also reads version 4, which stores its work factor elsewhere; its own errors are less clear.
    if content.get("version") != 3:
        raise KeystoreError(f"{path} is no keystore of version 3, but of {content.get('version')!r:.20}")
    crypto = content.get("crypto") or content.get("Crypto")
    parameters = crypto.get("kdfparams", {}) if isinstance(crypto, dict) else {}
    work = parameters.get("n", 1) if isinstance(parameters, dict) else None
    if type(work) is not int or not 0 < work <= _MAX_WORK_FACTOR:
        raise KeystoreError(
            f"{path} asks for more work than scrypt with N = {_MAX_WORK_FACTOR}; make a new one"
        )
    try:
        key = Account.decrypt(content, password)
    except ValueError as error:
        raise KeystoreError(f"{path} cannot be opened with this password ({error})") from None
    except (KeyError, TypeError) as error:
        raise KeystoreError(f"{path} is no keystore of version 3: {error}") from error
    account: LocalAccount = Account.from_key(key)
    return account


@contextlib.contextmanager
def hold_account(settings: Settings, tell: Tell = lambda _: None) -> Iterator[BaseAccount]:
    """Open the account that the settings name, for this process alone. ``tell`` receives a remote signer's failures.

    Raises AlreadyRunning, KeystoreError; a remote signer that does not answer yet is only reported.
    """
    # SAFETY: two nodes with one key would use each other's nonces, also with copies of the key in other folders. The
    # file is locked besides, since processes in containers of their own may share it and share no names.
    if settings.signer_url is None or settings.signer_address is None:
        account = load_account(settings)
        held = exclusive_name(_name(settings, account.address), f"key of {account.address}")
        with exclusive(settings.keystore_path, f"key {settings.keystore_path}"), held:
            yield account
        return
    address, timeout_s = settings.signer_address, settings.limits.rpc_timeout_s
    with exclusive_name(_name(settings, address), f"key of {address}"):
        remote = RemoteAccount(settings.signer_url, address, timeout_s=timeout_s, tell=tell)
        remote.look()
        yield remote


def _name(settings: Settings, address: str) -> str:
    """Return the name that one process with this account holds. NOTE: many development chains have one id."""
    local = f"/{settings.rpc_url[0]}" if settings.chain_id in LOCAL_CHAINS else ""
    return f"key/{settings.chain_id}{local}/{address.lower()}"


def require_key(settings: Settings) -> None:
    """Raise KeystoreError if the settings name no remote signer, and there is no file at their keystore's place."""
    path, lost = settings.keystore_path, settings.lost
    if settings.signer_url is not None or path.exists():
        return
    why, make = no_key(settings)
    if settings.keystore is None and lost is not None:
        raise KeystoreError(f"{why}, and {lost}, or make a key with {make}")
    raise KeystoreError(f"{why}; make one with {make} or set keystore")


def no_key(settings: Settings) -> tuple[str, str]:
    """Return words for a key that is missing, with folders beside it that have one, and the command that makes it."""
    path = settings.keystore_path
    make = f"`assay key new --keystore {shlex.quote(str(path))}`"
    why = f"there is no key at {path}"
    if path.parent.exists():
        return why, make
    with contextlib.suppress(OSError):
        near = sorted(found.parent.name for found in path.parent.parent.glob(f"*/{glob.escape(path.name)}"))
        if near:
            return (
                f"{why}, whose folder does not exist ({', '.join(near[:8])} beside it: each has a key)",
                make,
            )
    return f"{why}, whose folder does not exist", make


def load_account(settings: Settings) -> LocalAccount:
    """Return the account of the settings' keystore. Raises KeystoreError, which says what to set.

    SAFETY: a key, or its password, that other users of the machine can read is not used: they may have it by now.
    """
    path = settings.keystore_path
    require_key(settings)
    for file in filter(None, (path, settings.password_file)):
        refuse_shared(file)
    password = settings.read_password()
    if not password:
        raise KeystoreError(
            f"{path} needs a password, and none is given, or an empty one; set password_file or ASSAY_PASSWORD"
        )
    return open_key(path, password)


def refuse_shared(file: Path) -> None:
    """Raise KeystoreError if others than its owner may read or write a file. A missing one is left to its reader."""
    try:
        rights = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return
    # NOTE: a credential of systemd lies in a folder that only the service can enter, and the list that lets it read the
    # file shows as the group's rights.
    kept = os.environ.get("CREDENTIALS_DIRECTORY")
    entered = bool(kept) and file.absolute().parent == Path(kept or "").absolute()
    if rights & (0o007 if entered else 0o077):
        raise KeystoreError(f"{file} has mode {rights:04o}: others can read it; chmod 600 {file}")


def _read(path: Path) -> dict[str, object]:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise KeystoreError(f"{path} has more than {_MAX_FILE_BYTES} bytes; it is no keystore")
        content = json.loads(path.read_text())
    except OSError as error:
        raise KeystoreError(
            f"{path} cannot be read: {error.strerror}; make a key with `assay key new`"
        ) from error
    except ValueError as error:
        raise KeystoreError(f"{path} is no keystore: {error}") from error
    if not isinstance(content, dict):
        raise KeystoreError(f"{path} is no keystore: it holds no JSON object")
    return content
