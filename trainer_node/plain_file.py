"""Files of strangers in folders on this machine."""

from __future__ import annotations

import os
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
            raise InvalidInput(f"{path} is no file of at most {limit} bytes; {remedy}")
        return file.read(limit)
