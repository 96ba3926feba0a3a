"""Rows as the examples of a task: what a tokenizer makes of texts, conversations, pairs and tags.

The rows have the columns of their task; row_files.py has checked them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from referee_py.errors import InvalidInput

from .row_files import Row
from .rows import IGNORED

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_UNNAMED = re.compile(r"LABEL_\d+")
"""The names that the library gives to classes without one."""


@dataclass(frozen=True)
class Examples:
    """Examples of a task, and the names of its classes if it has any."""

    rows: list[Row]
    classes: list[str] = field(default_factory=list)


def examples(
    task: str, rows: Sequence[Row], tokenizer: Any, length: int, packing: bool, own: Sequence[str] = ()
) -> Examples:
    """Return what the tokenizer makes of the rows. Longer ones are cut to `length` tokens. Raises InvalidInput.

    own   the classes that the model has already, in their order
    """
    if task == "causal-lm":
        found = [_causal(row, number, tokenizer) for number, row in enumerate(rows, 1)]
        return Examples(_packed(found, length) if packing else [_cut(row, length) for row in found])
    if task == "masked-lm":
        return Examples([_encoded(tokenizer, length, row["text"]) for row in rows])
    if task == "seq2seq-lm":
        return Examples([_translation(row, tokenizer, length) for row in rows])
    if task == "sequence-classification":
        return _classified(rows, tokenizer, length, own)
    return _tagged(rows, tokenizer, length, own)


def _encoded(tokenizer: Any, length: int, *texts: str) -> Row:
    return dict(tokenizer(*texts, truncation=True, max_length=length))


def _causal(row: Row, number: int, tokenizer: Any) -> Row:
    """Return tokens, and labels that leave out a prompt."""
    if "messages" in row:
        try:
            text = tokenizer.apply_chat_template(row["messages"], tokenize=False)
        except Exception as error:  # NOTE: a template is a program of its own, with errors of its own
            raise InvalidInput(
                f"row {number}: the tokenizer's chat template refuses its messages: {error}"
            ) from error
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        return {"input_ids": ids, "labels": list(ids)}
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    if "prompt" in row:
        prompt = tokenizer(row["prompt"])["input_ids"]
        rest = tokenizer(row["completion"], add_special_tokens=False)["input_ids"] + end
        return {"input_ids": prompt + rest, "labels": [IGNORED] * len(prompt) + rest}
    ids = tokenizer(row["text"])["input_ids"]
    ids = ids if ids[-1:] == end else ids + end
    return {"input_ids": ids, "labels": list(ids)}


def _cut(row: Row, length: int) -> Row:
    return {name: values[:length] for name, values in row.items()}


def _packed(rows: Sequence[Row], length: int) -> list[Row]:
    """Return all tokens one after the other, in rows of `length`. Tokens after the last whole row are left out."""
    whole = {name: [v for row in rows for v in row[name]] for name in ("input_ids", "labels")}
    count = len(whole["input_ids"]) // length
    if not count:
        raise InvalidInput(
            f"{len(whole['input_ids'])} tokens give no row of {length}; choose a shorter --max-length"
        )
    return [
        {name: values[k * length : (k + 1) * length] for name, values in whole.items()} for k in range(count)
    ]


def _translation(row: Row, tokenizer: Any, length: int) -> Row:
    target = tokenizer(text_target=row["target"], truncation=True, max_length=length)
    return {**_encoded(tokenizer, length, row["source"]), "labels": target["input_ids"]}


def _classified(rows: Sequence[Row], tokenizer: Any, length: int, own: Sequence[str]) -> Examples:
    classes, numbers = numbered([row["label"] for row in rows], own)
    found = []
    for row in rows:
        texts = [row[name] for name in ("text", "text_pair") if name in row]
        found.append({**_encoded(tokenizer, length, *texts), "labels": numbers[str(row["label"])]})
    return Examples(found, classes)


def _tagged(rows: Sequence[Row], tokenizer: Any, length: int, own: Sequence[str]) -> Examples:
    """Return words with tags. A word of several tokens has its tag at the first one."""
    classes, numbers = numbered([tag for row in rows for tag in row["tags"]], own)
    found = []
    for row in rows:
        encoded = tokenizer(row["tokens"], is_split_into_words=True, truncation=True, max_length=length)
        words = encoded.word_ids()
        labels = [
            IGNORED if word is None or (k and words[k - 1] == word) else numbers[str(row["tags"][word])]
            for k, word in enumerate(words)
        ]
        found.append({**encoded, "labels": labels})
    return Examples(found, classes)


def numbered(labels: Sequence[Any], own: Sequence[str] = ()) -> tuple[list[str], dict[str, int]]:
    """Return the names of the classes, and the number of each label that occurs.

    A model that knows these names, or has as many classes as the labels count, keeps its classes and their order: its
    head was trained for them. Otherwise numbers stand in their order, and names in alphabetical order.
    """
    names = {str(label) for label in labels}
    if own and names <= set(own):
        return list(own), {name: own.index(name) for name in names}
    if all(name.isascii() and name.isdigit() for name in names):
        largest = max(map(int, names))
        if largest < len(own):
            return list(own), {name: int(name) for name in names}
        if largest >= 10 * len(names) + 100:
            raise InvalidInput(f"a class {largest}, of {len(names)} that occur; number them from 0")
        return [str(k) for k in range(largest + 1)], {name: int(name) for name in names}
    if all(map(_NUMBER.fullmatch, names)) and any(float(name) % 1 for name in names):
        broken = next(name for name in sorted(names) if float(name) % 1)
        raise InvalidInput(
            f"the labels are numbers such as {broken[:80]}, and no classes; regression has no "
            "task here: use Recipe.from_trainer"
        )
    classes = sorted(names)
    if len(classes) == len(own) and not all(map(_UNNAMED.fullmatch, own)):
        warnings.warn(
            f"the model has the classes {_listed(own)}, the data {_listed(classes)}: its head begins with the "
            "weights of the former, in this order. Where they are the same, give the data the model's names",
            stacklevel=5,
        )
    return classes, {name: k for k, name in enumerate(classes)}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name[:40] for name in names[:4]) + (", ..." if len(names) > 4 else "")
