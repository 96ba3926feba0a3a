"""The file claim.json of a run that is published: what is claimed of it, and its finer trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from referee_py.commit import NO_LOG
from referee_py.execute import RunClaim
from referee_py.program.terms import Terms

from ..storage.untrusted_file import write_plain

FORMAT = 1
MAX_CLAIM_BYTES = 16 << 20
CLAIM = "claim.json"

_Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Step = Annotated[int, Field(ge=0, lt=1 << 48)]


class Refinement(BaseModel):
    """A finer run tree that is published: over `(start, end]` at a stride."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: _Step
    end: _Step
    stride: _Step
    root: _Hash


class Claim(BaseModel):
    """The content of claim.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = Field(ge=FORMAT, le=FORMAT)
    name: str = Field(max_length=200)
    program_file: _Hash
    program_hash: _Hash
    steps: _Step
    strides: list[Annotated[int, Field(ge=1, lt=1 << 64)]] = Field(min_length=1, max_length=8)
    mode: int = Field(ge=0, lt=256)
    root: _Hash
    last: _Hash
    path: list[_Hash] = Field(max_length=64)
    logs: _Hash = NO_LOG.hex()
    refinements: list[Refinement] = Field(default=[], max_length=1 << 16)

    @classmethod
    def of(cls, name: str, terms: Terms, program_file: bytes, claim: RunClaim) -> Claim:
        return cls(
            format=FORMAT,
            name=name[:200],
            program_file=program_file.hex(),
            program_hash=terms.hash().hex(),
            steps=terms.steps,
            strides=list(terms.strides),
            mode=terms.mode,
            root=claim.root.hex(),
            last=claim.last.hex(),
            path=[node.hex() for node in claim.path],
            logs=claim.logs.hex(),
        )

    def write(self, folder: Path) -> None:
        write_plain(folder / CLAIM, json.dumps(self.model_dump(), indent=1) + "\n")
