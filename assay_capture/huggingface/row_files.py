"""Files of rows: what is in them, and whether each row has the columns of its task. Needs no library of models.

    .jsonl .csv .parquet, folder of `datasets` ──> rows (dictionaries)

| task | columns |
| causal-lm | text; or messages, by the tokenizer's chat template; or prompt and completion: only the latter counts |
| masked-lm | text |
| seq2seq-lm | source, target |
| sequence-classification | text, and text_pair if there is one; label |
| token-classification | tokens, tags |

Files are untrusted: sizes are bounded, nothing is unpickled, and no library downloads or caches anything.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from referee_py.errors import InvalidEncoding, InvalidInput
from trainer_node.errors import PIP, ConfigError

MAX_FILE_BYTES = 4 << 30
_BATCH = 256
"""Rows of a Parquet file that are unpacked at once."""
Row = dict[str, Any]


def read_rows(paths: Sequence[Path], task: str) -> list[Row]:
    """Return the rows of all files, in order. Raises InvalidInput, InvalidEncoding or ConfigError."""
    rows: list[Row] = []
    for path in paths:
        for number, row in enumerate(_read(path), 1):
            _check(row, task, f"{path}, row {number}")
            rows.append(row)
    if not rows:
        raise InvalidInput(
            f"no rows in {', '.join(map(str, paths))}; name files with at least one row between them"
        )
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
    if not path.is_file():
        raise InvalidInput(f"{path} does not exist; name a file of rows")
    size = path.stat().st_size
    if not size:
        raise InvalidInput(f"{path} is empty (0 bytes); name a file with at least one row")
    if size > MAX_FILE_BYTES:
        raise InvalidInput(f"{path} has {size} bytes; the limit is {MAX_FILE_BYTES}: split it")
    return readers[path.suffix](path)


def _check_encoding(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(4)
    # NOTE: no text in UTF-8 has a zero byte; in UTF-16 and UTF-32, every Latin letter has one.
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in start:
        raise InvalidEncoding(f"{path} is text in UTF-16 or UTF-32, or no text; save it as UTF-8")


def _jsonl(path: Path) -> Iterator[Row]:
    _check_encoding(path)
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            text = line.removeprefix(codecs.BOM_UTF8).strip() if number == 1 else line.strip()
            if not text:
                continue
            try:
                # SAFETY: this parser limits nesting; json.loads overflows the C stack on a file of brackets.
                row = from_json(text)
            except ValueError as error:
                reason = re.sub(r" at line 1 column (\d+)$", r" at character \1", str(error))
                raise InvalidEncoding(
                    f"{path}, line {number} is not JSON: {reason}; write one whole object {{...}} in each line"
                ) from error
            if not isinstance(row, dict):
                raise InvalidEncoding(
                    f"{path}, line {number} is not an object; write one {{...}} in each line"
                )
            yield row


def _csv(path: Path) -> Iterator[Row]:
    _check_encoding(path)
    csv.field_size_limit(MAX_FILE_BYTES)  # NOTE: 131,072 characters otherwise, less than an article may have
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            names = reader.fieldnames or ()
            if twice := [name for name in names if names.count(name) > 1]:
                raise InvalidEncoding(
                    f"{path} has {names.count(twice[0])} columns {twice[0][:80]!r}; leave out those that do not count"
                )
            for row in reader:
                if None in row:
                    raise InvalidEncoding(
                        f"{path}, line {reader.line_num} has more cells than the {len(reader.fieldnames or ())} of the "
                        'first line, which names the columns; put text with a comma in double quotes "..."'
                    )
                yield row
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidEncoding(
                f"{path}, line {reader.line_num} is not CSV in UTF-8: {error}; put text with commas, quotes or line "
                'breaks in double quotes "...", and double each quote in it'
            ) from error


def _parquet(path: Path) -> Iterator[Row]:
    arrow = _arrow()
    try:
        yield from _unpacked(arrow.parquet.ParquetFile(path).iter_batches(_BATCH), path)
    except arrow.ArrowException as error:
        raise InvalidEncoding(f"{path} is not a Parquet file: {error}") from error


def _unpacked(batches: Iterable[Any], path: Path) -> Iterator[Row]:
    """Yield the rows of Arrow's batches. SAFETY: a small file may hold one long text a million times."""
    total = 0
    for batch in batches:
        total += batch.nbytes
        if total > MAX_FILE_BYTES:
            raise InvalidInput(
                f"{path} holds more than {MAX_FILE_BYTES} bytes when it is unpacked, the limit: split it"
            )
        yield from batch.to_pylist()


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
                yield from _unpacked(stream, path)
    except InvalidInput:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, arrow.ArrowException) as error:
        raise InvalidEncoding(f"{path} is not a folder written by Dataset.save_to_disk: {error}") from error


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(
            f"these files need pyarrow; install it with `{PIP} install 'assay-referee[huggingface]'`"
        ) from error
    return pyarrow


# ---------------------------------------------------------------------------------------------------- columns


def _check(row: Row, task: str, where: str) -> None:
    """Raise InvalidInput unless the row has what the task needs. `where` names its file and number."""
    texts: list[str] = []
    match task:
        case "causal-lm" if "messages" in row:
            _check_messages(row["messages"], where)
        case "causal-lm" if "prompt" in row:
            texts = ["prompt", "completion"]
        case "seq2seq-lm":
            texts = ["source", "target"]
        case "token-classification":
            _check_tags(row, where)
        case "sequence-classification" if "text_pair" in row:
            texts = ["text", "text_pair"]
        case _:
            texts = ["text"]
    if task == "sequence-classification":
        label = _value(row, "label", "label", where)
        if isinstance(label, list | dict):
            raise InvalidInput(f"{where}: the label is {_kind(label)}; give one name or number")
        row["label"] = _class(label, f"{where}: the label is")
    for column in texts:
        value = _value(row, column, "text", where)
        if not isinstance(value, str):
            raise InvalidInput(f"{where}: the column {column!r} holds {_kind(value)}; give a text")


def _value(row: Row, column: str, what: str, where: str) -> Any:
    if column not in row:
        raise InvalidInput(f"{where} has no column {column!r}; it has {', '.join(map(str, row))[:200]}")
    if row[column] is None:
        raise InvalidInput(
            f"{where}: the column {column!r} is empty (null); give it a {what}, or leave out the row"
        )
    return row[column]


def _class(label: Any, what: str) -> Any:
    """Return a class by name or number. Raises InvalidInput for a number that is none, which would become a class."""
    if isinstance(label, float):  # NOTE: a column of whole numbers in which one is missing
        if not label.is_integer():
            raise InvalidInput(
                f"{what} {label}; number classes from 0. Regression has no task here: use Recipe.from_trainer"
            )
        label = int(label)
    if isinstance(label, int) and label < 0:
        raise InvalidInput(f"{what} {label}; number classes from 0, and leave out rows without a class")
    if isinstance(label, str) and not label.strip():
        raise InvalidInput(f"{what} empty; name a class, or leave out the row")
    return label


def _kind(value: Any) -> str:
    """Say what JSON calls a value."""
    names = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}
    return "nothing (null)" if value is None else names.get(type(value), "an object")


def _check_messages(messages: Any, where: str) -> None:
    remedy = 'give a list such as [{"role": "user", "content": "..."}]'
    if not isinstance(messages, list):
        raise InvalidInput(f"{where}: the column 'messages' holds {_kind(messages)}; {remedy}")
    if not messages:
        raise InvalidInput(f"{where}: the list of messages is empty; {remedy}, or leave out the row")
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict):
            raise InvalidInput(f"{where}: message {number} is {_kind(message)}; {remedy}")
        if not isinstance(message.get("role"), str):
            raise InvalidInput(f"{where}: message {number} has no role; {remedy}")


def _check_tags(row: Row, where: str) -> None:
    words, tags = (_value(row, column, "list", where) for column in ("tokens", "tags"))
    for column, value in (("tokens", words), ("tags", tags)):
        if not isinstance(value, list):
            raise InvalidInput(f"{where}: the column {column!r} holds {_kind(value)}; give a list")
    if not words or len(words) != len(tags):
        raise InvalidInput(
            f"{where}: tokens: {len(words)}, tags: {len(tags)}; give at least one token, and a tag for each"
        )
    if wrong := [word for word in words if not isinstance(word, str)]:
        raise InvalidInput(f"{where}: among the tokens is {_kind(wrong[0])}; give texts")
    if wrong := [tag for tag in tags if not isinstance(tag, str | int)]:
        raise InvalidInput(f"{where}: among the tags is {_kind(wrong[0])}; give names or whole numbers")
    for tag in tags:
        _class(tag, f"{where}: among the tags is")
