"""A calibration: thresholds for dense logs, found by comparing evaluators (algorithm 4 of Srivastava et al., 2024).

    {"format": 1, "bits": 32, "program": "<hash>", "steps": 10, "evaluators": ["torch", "numpy"],
     "thresholds": [{"operator": "mm", "terms": 768, "elements": 393216, "tau": 5.9e-08}, ...]}

It is a trainer's own file, about its own machines and similar programs, and no part of a job: a log means the same
whichever threshold it was written with.
"""

from __future__ import annotations

import tempfile
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from referee_py.errors import InvalidEncoding
from referee_py.program.modes import MAX_BITS, MIN_BITS
from referee_py.rounding.bounds import MAX_TERMS
from referee_py.rounding.evaluate import CONTRACTIONS, ELEMENTARY
from referee_py.rounding.primitives import FIXED_TAU

MAX_BYTES = 1 << 20
MAX_THRESHOLDS = 4096
OPERATORS = frozenset((*CONTRACTIONS, "sum", "scatter_add", *ELEMENTARY))

_EXACT = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Threshold(BaseModel):
    """tau of the sums of one operator with this many terms, and the number of elements it was found from."""

    model_config = _EXACT

    operator: str
    terms: int = Field(ge=0, le=MAX_TERMS)
    elements: int = Field(ge=0, lt=1 << 63)
    tau: float = Field(ge=FIXED_TAU)

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.operator not in OPERATORS:
            raise ValueError(f"operator {self.operator[:40]!r} has no log")
        return self


class Calibration(BaseModel):
    """Result of a comparison of evaluators. `tau` replaces the fixed threshold."""

    model_config = _EXACT

    format: Literal[1] = 1
    bits: int = Field(ge=MIN_BITS, le=MAX_BITS)
    program: str = Field(pattern="^[0-9a-f]{64}$")
    steps: int = Field(ge=1, lt=1 << 40)
    evaluators: list[Annotated[str, Field(pattern="^[a-z0-9-]{1,32}$")]] = Field(min_length=2, max_length=16)
    thresholds: list[Threshold] = Field(max_length=MAX_THRESHOLDS)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        half = 2.0 ** (8 - self.bits)
        for item in self.thresholds:
            if item.tau > half:
                raise ValueError(f"tau = {item.tau} of {item.operator}; half a quantum is {half}")
        if len(self._taus) != len(self.thresholds):
            raise ValueError("two thresholds for one operator and number of terms")
        return self

    @cached_property
    def _taus(self) -> dict[tuple[str, int], float]:
        return {(item.operator, item.terms): item.tau for item in self.thresholds}

    def tau(self, bits: int, operator: str, terms: int) -> float:
        """Return the threshold to use: the paper's fixed one if there is none for the sum or for these bits."""
        return self._taus.get((operator, terms), FIXED_TAU) if bits == self.bits else FIXED_TAU

    @classmethod
    def read(cls, path: Path) -> Calibration:
        """Read a file. Raises InvalidEncoding if it is not a calibration, OSError if it cannot be read."""
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InvalidEncoding(
                f"{path} is not a calibration: more than {MAX_BYTES} bytes; see `assay calibrate --help`"
            )
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))[:80] or "file"
            raise InvalidEncoding(
                f"{path} is not a calibration: {where}: {first['msg'][:200]}; see `assay calibrate --help`"
            ) from None

    def write(self, path: Path) -> None:
        """Write the file atomically: all of it or nothing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(self.model_dump_json(indent=1).encode() + b"\n")
                file.flush()
                Path(file.name).chmod(0o644)
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
