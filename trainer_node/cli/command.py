"""A CLI command: where it is implemented, and its help text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A command or a group of commands. ``place`` is written as in entry points: `module:attribute`."""

    place: str
    help: str
