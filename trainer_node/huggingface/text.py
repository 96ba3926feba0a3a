"""Rows of files as the examples of a task: what a tokenizer makes of texts, conversations, pairs and tags.

    .jsonl .csv .parquet, folder of `datasets` ──> rows (dictionaries) ──> examples + collator

| task | columns |
| causal-lm | text; or messages, by the tokenizer's chat template; or prompt and completion: only the latter counts |
| masked-lm | text |
| seq2seq-lm | source, target |
| sequence-classification | text, and text_pair if there is one; label |
| token-classification | tokens, tags |

Files are untrusted: sizes are bounded, nothing is unpickled, and no library downloads or caches anything.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from referee_py.errors import InvalidEncoding, InvalidInput

from ..errors import ConfigError
from .rows import IGNORED

MAX_FILE_BYTES = 4 << 30
Row = dict[str, Any]


@dataclass(frozen=True)
class Examples:
    """Examples of a task, and the names of its classes if it has any."""

    rows: list[Row]
    classes: list[str] = field(default_factory=list)


# ------------------------------------------------------------------------------------------------------ files


def read_rows(paths: Sequence[Path]) -> list[Row]:
    """Return the rows of all files, in order. Raises InvalidInput, InvalidEncoding or ConfigError."""
    rows = list(itertools.chain.from_iterable(map(_read, paths)))
    if not rows:
        raise InvalidInput(f"{', '.join(map(str, paths))} hold no rows; name files with at least one")
    return rows


def _read(path: Path) -> Iterator[Row]:
    if path.is_dir():
        return _folder(path)
    readers: dict[str, Callable[[Path], Iterator[Row]]] = {
        ".jsonl": _jsonl,
        ".csv": _csv,
        ".parquet": _parquet,
    }
    if path.suffix not in readers:
        raise InvalidInput(
            f"{path} ends in {path.suffix!r}; rows are read from {', '.join(readers)} and folders"
        )
    if path.stat().st_size > MAX_FILE_BYTES:
        raise InvalidInput(f"{path} has more than {MAX_FILE_BYTES} bytes, the limit; split it")
    return readers[path.suffix](path)


def _jsonl(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                # SAFETY: this parser limits nesting; json.loads overflows the C stack on a file of brackets.
                row = from_json(line)
            except ValueError as error:
                raise InvalidEncoding(f"{path}, line {number}: {error}") from error
            if not isinstance(row, dict):
                raise InvalidEncoding(f"{path}, line {number} is no object; write one {{...}} in each line")
            yield row


def _csv(path: Path) -> Iterator[Row]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            yield from csv.DictReader(file, strict=True)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidEncoding(f"{path} is no CSV file in UTF-8: {error}") from error


def _parquet(path: Path) -> Iterator[Row]:
    arrow = _arrow()
    try:
        for batch in arrow.parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except arrow.ArrowException as error:
        raise InvalidEncoding(f"{path} is no Parquet file: {error}") from error


def _folder(path: Path) -> Iterator[Row]:
    """Yield the rows of a folder that `datasets` has saved. SAFETY: its index names files; plain names only."""
    arrow = _arrow()
    try:
        index = from_json((path / "state.json").read_bytes())
        names = [entry["filename"] for entry in index["_data_files"]]
        if index.get("_indices_data_files") or any(Path(name).name != name for name in names):
            raise ValueError("it selects rows of other files; save it again after flatten_indices()")
        for name in names:
            with arrow.ipc.open_stream(path / name) as stream:
                for batch in stream:
                    yield from batch.to_pylist()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, arrow.ArrowException) as error:
        raise InvalidEncoding(f"{path} is no folder written by Dataset.save_to_disk: {error}") from error


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(
            "these files need pyarrow; install it with: pip install 'assay-referee[huggingface]'"
        ) from error
    return pyarrow


# --------------------------------------------------------------------------------------------------- examples


def examples(task: str, rows: Sequence[Row], tokenizer: Any, length: int, packing: bool) -> Examples:
    """Return what the tokenizer makes of the rows. Longer ones are cut to `length` tokens. Raises InvalidInput."""
    if packing and task != "causal-lm":
        raise InvalidInput(f"--packing is for causal-lm; leave it out for {task}")
    if task == "causal-lm":
        found = [_causal(row, number, tokenizer) for number, row in enumerate(rows, 1)]
        return Examples(_packed(found, length) if packing else [_cut(row, length) for row in found])
    if task == "masked-lm":
        return Examples([_encoded(tokenizer, length, _text(row, n, "text")) for n, row in enumerate(rows, 1)])
    if task == "seq2seq-lm":
        return Examples([_translation(row, number, tokenizer, length) for number, row in enumerate(rows, 1)])
    if task == "sequence-classification":
        return _classified(rows, tokenizer, length)
    return _tagged(rows, tokenizer, length)


def _text(row: Row, number: int, column: str) -> str:
    if not isinstance(text := row.get(column), str):
        raise InvalidInput(
            f"row {number} has no text in the column {column!r}; it has {', '.join(map(str, row))[:200]}"
        )
    return text


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
        prompt = tokenizer(_text(row, number, "prompt"))["input_ids"]
        rest = tokenizer(_text(row, number, "completion"), add_special_tokens=False)["input_ids"] + end
        return {"input_ids": prompt + rest, "labels": [IGNORED] * len(prompt) + rest}
    ids = tokenizer(_text(row, number, "text"))["input_ids"]
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


def _translation(row: Row, number: int, tokenizer: Any, length: int) -> Row:
    target = tokenizer(text_target=_text(row, number, "target"), truncation=True, max_length=length)
    return {**_encoded(tokenizer, length, _text(row, number, "source")), "labels": target["input_ids"]}


def _classified(rows: Sequence[Row], tokenizer: Any, length: int) -> Examples:
    classes = _classes([row.get("label") for row in rows])
    numbers = {name: k for k, name in enumerate(classes)}
    found = []
    for number, row in enumerate(rows, 1):
        texts = [_text(row, number, name) for name in ("text", "text_pair") if name == "text" or name in row]
        found.append({**_encoded(tokenizer, length, *texts), "labels": numbers[str(row["label"])]})
    return Examples(found, classes)


def _tagged(rows: Sequence[Row], tokenizer: Any, length: int) -> Examples:
    """Return words with tags. A word of several tokens has its tag at the first one."""
    for number, row in enumerate(rows, 1):
        words, tags = row.get("tokens"), row.get("tags")
        if not isinstance(words, list) or not isinstance(tags, list) or len(words) != len(tags):
            raise InvalidInput(f"row {number} needs as many tags as tokens, in lists")
    classes = _classes([tag for row in rows for tag in row["tags"]])
    numbers = {name: k for k, name in enumerate(classes)}
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


def _classes(labels: Sequence[Any]) -> list[str]:
    """Return the names of the classes: numbers in their order, other names in alphabetical order."""
    if None in labels:
        raise InvalidInput(f"row {labels.index(None) + 1} has no label; give every row one")
    names = {str(label) for label in labels}
    if all(name.isascii() and name.isdigit() for name in names):
        largest = max(map(int, names))
        if largest >= 10 * len(names) + 100:
            raise InvalidInput(f"a class {largest}, of {len(names)} that occur; number them from 0")
        return [str(k) for k in range(largest + 1)]
    return sorted(names)
