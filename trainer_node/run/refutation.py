"""A refutation: one checkpoint of a claimed run, and the refuter's own in its place (docs/protocol.md, section 6)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from referee_py.execute import RunClaim


@dataclass(frozen=True)
class Refuted(RunClaim):
    """Statement of a refutation. As a claim it has the root of the claimed run tree with its own checkpoint in it.

    ``against``: the claimed root; ``index``: the interval, from 0; ``claimed`` and ``computed``: its checkpoints;
    ``siblings``: the path from either to its root.
    """

    against: bytes = b""
    index: int = 0
    claimed: bytes = b""
    computed: bytes = b""
    siblings: tuple[bytes, ...] = ()

    @property
    def key(self) -> tuple[bytes, int]:
        """The claimed root and the interval, from 1."""
        return self.against, self.index + 1

    def words(self) -> dict[str, Any]:
        """Return it as JSON, of which `of_words` makes it again."""
        return {field.name: _word(getattr(self, field.name)) for field in fields(self)}

    @staticmethod
    def of_words(words: dict[str, Any]) -> Refuted:
        """Return what `words` has written."""
        return Refuted(**{name: _value(word) for name, word in words.items()})


def _word(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_word(one) for one in value]
    return value.hex() if isinstance(value, bytes) else value


def _value(word: Any) -> Any:
    if isinstance(word, list):
        return tuple(_value(one) for one in word)
    return bytes.fromhex(word) if isinstance(word, str) else word
