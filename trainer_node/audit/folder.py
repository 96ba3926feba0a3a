"""The folder of an audit: what was found, receipts, and a cache of what was fetched. An audit continues from it.

SAFETY: what is in it counts as found by us, so it must be ours. A publisher could ship a folder with findings of his
own next to his run, under the name that an audit takes, and unpack it over ours. So a folder and each of its findings
bear a seal that only this user can make: HMAC-SHA-256 of the path, and of the finding, under a key in the user's state
folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from referee_py.errors import AssayError, InvalidInput

from ..errors import ConfigError
from ..storage.process import exclusive
from ..storage.untrusted_file import read_plain, write_plain

SEAL = "seal"
FINDINGS = "findings.jsonl"
KEY_BYTES = 32
_HEAD, _TAIL = b'{"seal": "', b'", '


@contextlib.contextmanager
def audit_folder(path: Path) -> Iterator[Path]:
    """Lock an audit's folder, or make it.

    Raises InvalidInput for one that no audit of this user has made, AlreadyRunning while another audit uses it.
    """
    fresh = not path.exists() or (path.is_dir() and not any(path.iterdir()))
    if not fresh:
        _check(path)
    path.mkdir(parents=True, exist_ok=True)
    if fresh:
        write_plain(path / SEAL, _seal(path))
    try:
        with exclusive(path / "lock", f"audit folder {path}"):
            yield path
    except AssayError:
        if fresh:
            _drop_empty(path)
        raise


def append(file: IO[bytes], folder: Path, report: bytes) -> None:
    """Write a report, an object of JSON, as a line of an audit's findings."""
    file.write(_HEAD + _mark(_key(), folder, report) + _TAIL + report[1:] + b"\n")
    file.flush()


def reports_in(folder: Path, limit: int) -> Iterator[bytes]:
    """Yield the reports of at most ``limit`` bytes that audits of this user have written here. Other lines are left
    out: torn ones, and those that somebody else has written or changed."""
    path, key = folder / FINDINGS, _key()
    if not path.is_file():
        return
    begin = len(_HEAD) + 2 * hashlib.sha256().digest_size
    with path.open("rb") as file:
        while line := file.readline(begin + len(_TAIL) + limit + 1):
            report = b"{" + line.rstrip(b"\n")[begin + len(_TAIL) :]
            if hmac.compare_digest(line[len(_HEAD) : begin], _mark(key, folder, report)):
                yield report


def _drop_empty(path: Path) -> None:
    """Remove a folder in which an audit has found nothing: it was called with a wrong name, mostly."""
    ours = {path / SEAL, path / "lock"}
    files = {file for file in path.rglob("*") if file.is_symlink() or not file.is_dir()}
    if files <= ours:
        for file in files:
            file.unlink()
        folders = sorted((one for one in path.rglob("*") if one.is_dir()), reverse=True)
        for folder in (*folders, path):
            folder.rmdir()


def _mark(key: bytes, folder: Path, report: bytes) -> bytes:
    message = b"Assay audit finding 1\0" + os.fsencode(folder.resolve()) + b"\0" + report
    return hmac.new(key, message, hashlib.sha256).hexdigest().encode()


def _check(path: Path) -> None:
    try:
        found = read_plain(path / SEAL, 1 << 10)
    except (OSError, InvalidInput):
        found = b""
    if not hmac.compare_digest(found, _seal(path).encode()):
        raise InvalidInput(
            f"{path} is not a folder that an audit of yours has made here, so its files do not count; name another "
            "folder with --out"
        )


def _seal(path: Path) -> str:
    message = b"Assay audit folder 1\0" + os.fsencode(path.resolve())
    return hmac.new(_key(), message, hashlib.sha256).hexdigest()


def _key() -> bytes:
    """Return the user's key for seals; the first call makes it."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = home / "assay" / "audit.key"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            unnamed = path.with_name(f"{path.name}.{os.getpid()}.new")
            with os.fdopen(os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
            # NOTE: a link fails where another process was first; then its key counts.
            with contextlib.suppress(FileExistsError):
                path.hardlink_to(unnamed)
            unnamed.unlink()
        key = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be used: {error.strerror}; set XDG_STATE_HOME to a folder of yours"
        ) from error
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{path} has {len(key)} bytes, not {KEY_BYTES}; remove it, and begin audits again")
    return key
