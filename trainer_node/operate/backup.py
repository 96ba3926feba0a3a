"""A copy of a node's data directory in one file, taken while the node runs, and a directory made from it again.

    backup.json            version, when, deployment, and the SHA-256 of each file below
    node.sqlite3           a consistent copy of the database; outbox.sqlite3 likewise
    key.json               only on request: without it, whoever finds the file finds no key
    artifacts/...          only on request: all can be computed or fetched again, but a trainer's rounding logs only on
                           the same kind of machine

SAFETY: what a restored node may not know is what its predecessor sent after the copy. It loses no intent by that and
does nothing twice: decisions are made from the chain alone, a nonce is mined once, and salts come from the key. But two
nodes with one key would replace each other's transactions. So a restored node first watches its account for a while,
and refuses to start if somebody else uses it (`single_use`).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..daemon.single_use import MARK
from ..errors import ConfigError
from ..storage.database import Database
from ..storage.disk import disk_errors
from ..storage.store_files import INCOMING

VERSION = 1
MANIFEST = "backup.json"
DATABASES = ("node.sqlite3", "outbox.sqlite3")
KEY = "key.json"
ARTIFACTS = "artifacts"
_MAX_MANIFEST = 1 << 28
_CHUNK = 1 << 20

_Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """The first file of a backup. ``made``: seconds since 1970."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int
    made: float
    deployment: str | None
    files: dict[str, _Hash]


def back_up(data_dir: Path, to: Path, *, key: Path | None = None, artifacts: bool = False) -> Manifest:
    """Write a backup of a data directory to a new file, of mode 0600. ``key``: a keystore that must be part of it.

    Raises ConfigError if there is nothing to back up or ``to`` exists, DiskFailed if the disk refuses.
    """
    present = [name for name in DATABASES if (data_dir / name).is_file()]
    if not present:
        raise ConfigError(
            f"{data_dir} has no node.sqlite3: name the data directory of a node with --data-dir"
        )
    if to.exists():
        raise ConfigError(f"{to} exists: name a new file")
    with disk_errors(to), tempfile.TemporaryDirectory(dir=to.absolute().parent, prefix=".backup-") as spare:
        sources = dict[str, Path]()
        deployment = None
        for name in present:
            database = Database(data_dir / name)
            try:
                deployment = deployment or database.deployment
                database.copy_to(Path(spare) / name)
            finally:
                database.close()
            sources[name] = Path(spare) / name
        if key is not None:
            if not key.is_file():
                raise ConfigError(
                    f"there is no keystore {key}; leave out --with-key, or name it with --keystore"
                )
            sources[KEY] = key
        if artifacts:
            sources |= dict(_artifacts(data_dir))
        manifest = Manifest(
            version=VERSION,
            made=time.time(),
            deployment=deployment,
            files={name: _hash(path) for name, path in sources.items()},
        )
        half = Path(spare) / "half"
        descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
                data = manifest.model_dump_json().encode()
                archive.addfile(_member(MANIFEST, len(data)), io.BytesIO(data))
                for name, path in sources.items():
                    with path.open("rb") as source:
                        archive.addfile(_member(name, os.fstat(source.fileno()).st_size), source)
            file.flush()
            os.fsync(file.fileno())
        half.replace(to)
    return manifest


def restore(source: Path, data_dir: Path) -> Manifest:
    """Make a data directory from a backup. Every file is checked before the directory gets its database.

    Raises ConfigError if the directory has a database or a key already, or if the file is not a sound backup.
    """
    # SAFETY: SQLite would play the journal of a database that was removed over the restored one.
    journals = (f"{name}-{kind}" for name in DATABASES for kind in ("wal", "shm", "journal"))
    for name in (*DATABASES, *journals, KEY):
        if (data_dir / name).exists():
            raise ConfigError(f"{data_dir / name} exists: a backup is restored into a new data directory")
    with disk_errors(data_dir):
        data_dir.mkdir(parents=True, exist_ok=True)
        with (
            _readable(source),
            _opened(source) as archive,
            tempfile.TemporaryDirectory(dir=data_dir, prefix=".restore-") as spare,
        ):
            manifest = _manifest(source, archive)
            found = set[str]()
            for member in archive:
                name = member.name
                if name == MANIFEST:
                    continue
                # SAFETY: only the names that a backup has become paths, and only plain files are written.
                if (
                    not member.isreg()
                    or name in found
                    or manifest.files.get(name) is None
                    or not _known(name)
                ):
                    raise ConfigError(f"{source} is not a sound backup: {name[:100]!r} does not belong in it")
                stream = archive.extractfile(member)
                assert stream is not None
                if _written(stream, Path(spare) / name) != manifest.files[name]:
                    raise ConfigError(f"{source} is damaged: {name} has another hash; use another backup")
                found.add(name)
            if missing := sorted(set(manifest.files) - found):
                raise ConfigError(f"{source} is damaged: it lacks {missing[0]}; use another backup")
            (data_dir / MARK).write_text(json.dumps({"made": manifest.made}))
            # INVARIANT: the database comes last: a directory that has one is whole.
            for name in sorted(found, key=lambda name: name in DATABASES):
                (data_dir / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(spare) / name).replace(data_dir / name)
    return manifest


def _artifacts(data_dir: Path) -> Iterator[tuple[str, Path]]:
    folder = data_dir / ARTIFACTS
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(data_dir))
        if path.is_file() and not path.is_symlink() and _known(name):
            yield name, path


def _known(name: str) -> bool:
    """Return whether a backup has files of that name."""
    parts = name.split("/")
    if name in (*DATABASES, KEY):
        return True
    plain = all(part and part.isascii() and part not in (".", "..") for part in parts)
    return plain and 2 < len(parts) <= 5 and parts[0] == ARTIFACTS and parts[1] != INCOMING


@contextlib.contextmanager
def _readable(source: Path) -> Iterator[None]:
    """Name a file that ends too early, or is none, as what it is."""
    try:
        yield
    except (tarfile.TarError, EOFError) as error:
        raise ConfigError(f"{source} is damaged or cut off ({error}); use another backup") from error


def _opened(source: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(source, mode="r:")  # the caller closes it
    except (tarfile.TarError, OSError) as error:
        raise ConfigError(f"{source} cannot be read as a backup: {error}") from error


def _manifest(source: Path, archive: tarfile.TarFile) -> Manifest:
    first = archive.next()
    if first is None or first.name != MANIFEST or not first.isreg() or first.size > _MAX_MANIFEST:
        raise ConfigError(f"{source} is not a backup of Assay: it does not begin with {MANIFEST}")
    stream = archive.extractfile(first)
    assert stream is not None
    try:
        manifest = Manifest.model_validate_json(stream.read())
    except ValidationError as error:
        raise ConfigError(f"{source}: {MANIFEST} is not readable: {error.errors()[0]['msg']}") from error
    if manifest.version != VERSION:
        raise ConfigError(f"{source} is a backup of version {manifest.version}; this build reads {VERSION}")
    return manifest


def _member(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _written(stream: IO[bytes], path: Path) -> str:
    """Write a file durably; return its SHA-256."""
    digest: Any = hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return str(digest.hexdigest())
