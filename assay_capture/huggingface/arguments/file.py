"""TrainingArguments from a YAML file, by name. Most of it is checked before the library is loaded."""

from __future__ import annotations

import dataclasses
import difflib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from referee_py.errors import InvalidEncoding, InvalidInput

from .table import HARMLESS, NUMBERS, OPTIMIZERS, REFUSED, TRANSLATED, wrong_number

_MAX_FILE_BYTES = 1 << 20
_FLAGS = {"max_length": "--max-length", "packing": "--packing", "output_dir": "the last word of the command"}


def read_file(path: Path | None) -> dict[str, Any]:
    """Return the arguments that a file gives; none without one. Raises InvalidInput or InvalidEncoding."""
    if path is None:
        return {}
    given = _read(path)
    for name, value in given.items():
        if name in _FLAGS:
            raise InvalidInput(f"{path}: {name} is set by {_FLAGS[name]}; leave it out of the file")
        _check_name(path, name, TRANSLATED | HARMLESS | set(REFUSED))
        if isinstance(value, str) and name in NUMBERS:  # NOTE: to YAML, 5e-5 without a point is a text
            given[name] = _number(path, name, value)
        allowed, remedy = REFUSED.get(name, ((given[name],), ""))
        if wrong := wrong_number(name, given[name]):
            raise InvalidInput(f"{path}: {wrong}")
        if given[name] not in allowed:
            raise InvalidInput(f"{path}: {name}: {str(value)[:80]} has no counterpart: {remedy}")
    if (optimizer := given.get("optim", OPTIMIZERS[0])) not in OPTIMIZERS:
        raise InvalidInput(
            f"{path}: optim is {str(optimizer)[:80]!r}, which has no counterpart; use one of {', '.join(OPTIMIZERS)}"
        )
    return given


def training_arguments(
    given: Mapping[str, Any], path: Path | None, scratch: Path, steps: int | None, seed: int | None
) -> Any:
    """Return TrainingArguments; `steps` and `seed` replace those that are given. Raises InvalidInput."""
    import transformers

    for name in given:
        _check_name(path, name, {field.name for field in dataclasses.fields(transformers.TrainingArguments)})
    replaced = {"max_steps": steps, "seed": seed}
    chosen = {**given, **{name: value for name, value in replaced.items() if value is not None}}
    own = {"output_dir": str(scratch), "report_to": "none", "use_cpu": True, "dataloader_pin_memory": False}
    own["push_to_hub"] = False  # NOTE: a trainer makes the repository as soon as there is one
    try:
        return transformers.TrainingArguments(**{**chosen, **own})
    except Exception as error:  # NOTE: values of wrong types fail in every way
        raise InvalidInput(f"{path or 'the arguments'}: {type(error).__name__}: {error}") from error


def _check_name(path: Path | None, name: object, known: frozenset[str] | set[str]) -> None:
    if name not in known:
        near = difflib.get_close_matches(str(name), known, 1)
        raise InvalidInput(
            f"{path}: there is no argument {str(name)[:80]!r}; "
            + (f"perhaps {near[0]}" if near else "leave it out")
        )


def _read(path: Path) -> dict[Any, Any]:
    import yaml

    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise InvalidInput(f"{path} has more than {_MAX_FILE_BYTES} bytes, the limit")
        data = path.read_bytes()
        # SAFETY: the safe loader makes plain values only. Aliases of aliases would be printed as gigabytes.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(data, yaml.SafeLoader)):
            raise InvalidInput(f"{path} has an alias (*name); write its value where it is meant")
        root, found = yaml.compose(data, yaml.SafeLoader), yaml.safe_load(data)
    except FileNotFoundError as error:
        raise InvalidInput(f"{path} does not exist; name a YAML file of TrainingArguments") from error
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InvalidEncoding(
            f"{path} cannot be read as YAML: {' '.join(str(error).split())[:200]}"
        ) from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        kind = "a list" if isinstance(found, list) else "a single value"
        raise InvalidEncoding(
            f"{path} holds {kind}, not names with values; write lines such as learning_rate: 5e-5"
        )
    # NOTE: YAML forbids this, and its library silently keeps the last value.
    for node in (root, *(value for _, value in root.value if isinstance(value, yaml.MappingNode))):
        for name, count in Counter(str(key.value) for key, _ in node.value).items():
            if count > 1:
                raise InvalidEncoding(f"{path} gives {name[:80]!r} {count} times; keep one of the lines")
    return found


def _number(path: Path, name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{path}: {name} is {text[:80]!r}, no number") from None
