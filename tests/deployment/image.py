"""The instructions of a Dockerfile that this project uses, read for tests that run its commands without Docker."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    """One stage: its instructions in order, comments left out, continued lines joined."""

    base: str
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, word: str) -> list[str]:
        """Return the arguments of all instructions of that name."""
        return [rest for name, rest in self.instructions if name == word]

    def only(self, word: str) -> str:
        """Return the arguments of the one instruction of that name."""
        (rest,) = self.all(word)
        return rest

    def words(self, word: str) -> list[str]:
        """Return the exec form of an instruction: a JSON list."""
        text = self.only(word)
        found: list[str] = json.loads(text[text.index("[") :])
        return found

    def variables(self) -> dict[str, str]:
        """Return what ENV sets."""
        return dict(word.split("=", 1) for rest in self.all("ENV") for word in shlex.split(rest))


def stages(path: Path) -> list[Stage]:
    """Return the stages of a Dockerfile."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    found: list[Stage] = []
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found.append(Stage(base, name))
        elif word:
            found[-1].instructions.append((word, rest.strip()))
    return found
