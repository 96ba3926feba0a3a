"""A certificate as others read it: by the library of in-toto."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2  # type: ignore[import-untyped]
from in_toto_attestation.v1.statement import Statement  # type: ignore[import-untyped]


def in_toto(statement: bytes) -> dict[str, Any]:
    """Return the parts of a statement as the library has read and validated it. Raises ParseError for a field that it
    does not know, ValueError for a statement that lacks something."""
    read = json_format.Parse(statement, statement_pb2.Statement())
    Statement.copy_from_pb(read).validate()
    found: dict[str, Any] = json_format.MessageToDict(read)
    return found
