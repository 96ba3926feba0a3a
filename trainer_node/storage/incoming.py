"""Artifacts on their way into a store, and what a store takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ..errors import Corrupt
from .artifacts import Check, Name, check_for
from .disk import disk_errors


@dataclass
class Usage:
    """Size and traffic of a store, as this process knows them: files and bytes by kind; bytes received and sent."""

    files: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    received: int = 0
    sent: int = 0

    def add(self, kind: str, size: int, files: int = 1) -> None:
        self.files[kind] = self.files.get(kind, 0) + files
        self.bytes[kind] = self.bytes.get(kind, 0) + size

    @property
    def total(self) -> int:
        """Bytes of all kinds together."""
        return sum(self.bytes.values())


class Incoming:
    """One artifact on its way into the store: its bytes are checked as they arrive, and it is named at the end."""

    def __init__(self, name: Name, file: IO[bytes], max_bytes: int, why: str, where: Path) -> None:
        self._check: Check = check_for(name, max_bytes)
        self._why = why
        self._where = where
        self._file = file
        self._name = name
        self._max_bytes = max_bytes
        self.size = 0

    def write(self, chunk: bytes) -> None:
        """Append. Raises Corrupt as soon as the bytes cannot become the artifact, or exceed the limit."""
        self.size += len(chunk)
        if self.size > self._max_bytes:
            raise Corrupt(f"{self._name} does not end: {self._why}")
        self._check.update(chunk)
        with disk_errors(self._where):
            self._file.write(chunk)

    def finish(self) -> None:
        """Raise Corrupt unless the bytes are the whole artifact."""
        self._check.finish()
