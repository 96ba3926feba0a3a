"""Files in folders on this machine that strangers may have filled: with links, pipes, devices."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from referee_py.errors import InvalidInput


def read_plain(path: Path, limit: int, remedy: str = "get or make it again") -> bytes:
    """Return the bytes of a file. Raises OSError, or InvalidInput for one over the limit, a pipe or a device: reading
    these may never end."""
    # NOTE: without O_NONBLOCK, opening a pipe waits for somebody who writes to it.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            raise InvalidInput(f"{path} is not a file of at most {limit} bytes; {remedy}")
        return file.read(limit)


def write_plain(path: Path, data: bytes | str) -> None:
    """Write a file with this content, whole or not: whoever reads it meanwhile finds the old one. Raises OSError.

    SAFETY: a link that somebody has put in the way is replaced, and the file that it names is left alone.
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
