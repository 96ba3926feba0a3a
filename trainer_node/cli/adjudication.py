"""The flag that says who judges the operator that a match comes down to."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from referee_py.panel.state import Adjudication


class Judged(StrEnum):
    """The kinds of adjudication, as they are written."""

    ATTESTED = "attested"
    APPEALABLE = "appealable"
    ON_CHAIN = "on-chain"

    @property
    def adjudication(self) -> Adjudication:
        return Adjudication[self.name]


AdjudicationOption = Annotated[
    Judged,
    typer.Option(
        "--adjudication",
        help="Who judges a disputed operator: attested (the verifiers, for good), "
        "appealable (the verifiers, and the court on appeal from them), on-chain (the court).",
    ),
]
