"""Check of TrainingArguments: can a program follow them? Each has a row in the table (`table`).

Nothing is ignored in silence: an argument that the table does not know is refused unless it has its default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch.distributed

from ...capture.errors import CaptureError
from .table import HARMLESS, REFUSED, TRANSLATED, wrong_number


def check_arguments(arguments: Any) -> None:
    """Raise CaptureError for an argument that has no counterpart. `arguments` is a TrainingArguments."""
    for field in dataclasses.fields(arguments):
        value = getattr(arguments, field.name)
        if wrong := wrong_number(field.name, value):
            raise CaptureError(f"{type(arguments).__name__}: {wrong}")
        if field.name in TRANSLATED or field.name in HARMLESS:
            continue
        allowed, remedy = REFUSED.get(
            field.name, ((_default(field),), "it is not known here; leave it at its default")
        )
        if value not in allowed and not _is_empty(value):
            raise CaptureError(
                f"{type(arguments).__name__}({field.name}={value!r}) has no counterpart: {remedy}"
            )
    if arguments.n_gpu > 1:
        raise CaptureError(
            f"the trainer would share {arguments.n_gpu} devices in one process; start it with torchrun, or run it on "
            "one device with gradient_accumulation_steps that give the same batch"
        )
    if arguments.world_size > 1 and not torch.distributed.is_initialized():
        raise CaptureError(
            f"the trainer would run as {arguments.world_size} processes that torch.distributed does not know; start it "
            "with torchrun"
        )


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _is_empty(value: Any) -> bool:
    """Return whether an option that is a dictionary holds only empty values, as TrainingArguments fill them in."""
    return isinstance(value, Mapping) and not any(value.values())
