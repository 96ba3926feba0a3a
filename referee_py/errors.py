"""The error tree. The message of every error gives the value, the limit and the remedy.

AssayError
├── InvalidInput          an input that breaks a rule of docs/protocol.md
│   ├── InvalidProof      a Merkle path that does not lead to the expected root
│   ├── InvalidEncoding   bytes that are not the canonical encoding of anything
│   ├── InvalidProgram    a program that breaks a rule of sections 3 and 4
│   │   └── Unplayable    a program about which an honest party could not always conclude
│   └── UnknownVersion    an opset, mode or format that this build does not implement exactly
├── HashMismatch          content that does not match its hash
├── Disturbed             a library deviates from IEEE-754 at the moment; its results were not used
├── Unavailable           data that nobody delivers; says nothing about who is right
└── IllegalMove           a move that the game refuses (its subclasses are the contract's custom errors)
"""

from __future__ import annotations


class AssayError(Exception):
    """Base of every error that Assay raises on purpose."""

    @property
    def advice(self) -> str:
        """Return what a person can do, where the message is made of another's words and does not say it; or nothing."""
        return ""


class InvalidInput(AssayError):
    """A value that breaks a rule; the message names the value, the limit and the remedy."""


class InvalidProof(InvalidInput):
    """A Merkle path of the wrong length, at an impossible index, or to another root."""


class InvalidEncoding(InvalidInput):
    """Bytes that are truncated, too long, or not canonical."""


class InvalidProgram(InvalidInput):
    """A program that is not a well-formed, well-typed, topologically sorted operator graph."""


class Unplayable(InvalidProgram):
    """A program with a node about which an honest party could not always conclude (program/playable.py)."""


class UnknownVersion(InvalidInput):
    """An opset version, arithmetic mode or file format that this build does not implement exactly."""


class HashMismatch(AssayError):
    """Content that does not have the hash it was requested by."""


class Disturbed(AssayError):
    """Arithmetic that flushes subnormal numbers or does not round to nearest; its results were not used."""


class Unavailable(AssayError):
    """Data that nobody delivered. NOTE: never a reason to dispute a claim."""


class IllegalMove(AssayError):
    """A move that the rules of the game refuse; the state is unchanged."""
