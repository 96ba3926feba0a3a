"""The check of every artifact in a store against its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from referee_py.errors import AssayError

from .artifacts import Kind, check_for
from .store import Store
from .store_files import name_of

_CHUNK = 1 << 20


def verify_files(store: Store) -> Iterator[tuple[Path, str | None]]:
    """Yield every artifact's file, and what is wrong with it; None if nothing is. At most a chunk is in memory."""
    for kind in Kind:
        for path in sorted((store.root / kind).rglob("*")):
            if not path.is_file():
                continue
            try:
                name = name_of(store.root, path)
                check, size = check_for(name, store.max_bytes), 0
                with path.open("rb") as file:
                    while chunk := file.read(_CHUNK):
                        size += len(chunk)
                        check.update(chunk)
                check.finish()
            except (AssayError, OSError) as error:
                yield path, str(error)
            else:
                yield path, None
