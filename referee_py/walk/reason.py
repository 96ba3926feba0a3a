"""The reason for which a match ended."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """The reason for which a match ended, with the contract's numbers (docs/protocol.md, section 7, "Decision")."""

    NONE = 0
    TIMEOUT = 1
    PADDING = 2
    STRUCTURE = 3
    INPUT_CHECKPOINT = 4
    INPUT_NODE = 5
    INPUT_CONSTANT = 6
    INPUT_STEP = 7
    LOG = 8
    OPERATOR = 9
