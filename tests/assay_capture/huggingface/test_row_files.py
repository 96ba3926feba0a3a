"""Rows of files: every kind of file gives the same, and what is wrong with one is said with its name and row."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet
import pytest

from assay_capture.huggingface.row_files import read_rows
from referee_py.errors import InvalidEncoding, InvalidInput


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_same_rows_from_every_kind_of_file(tmp_path: Path) -> None:
    rows = [{"text": "a b"}, {"text": 'c, "d"\ne'}]
    jsonl(tmp_path / "a.jsonl", rows)
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["text"])
        writer.writeheader()
        writer.writerows(rows)
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "folder")
    for name in ("a.jsonl", "a.csv", "a.parquet", "folder"):
        assert read_rows([tmp_path / name], "masked-lm") == rows
    assert read_rows([tmp_path / "a.jsonl", tmp_path / "a.csv"], "masked-lm") == rows + rows


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.txt", b"a", "rows are read from .jsonl"),
        ("x.jsonl", b"[1]\n", "line 1 is not an object"),
        (
            "x.jsonl",
            b'{"text": "a"}\n{"text\n',
            "line 2 is not JSON: EOF while parsing a string at character 6; write",
        ),
        ("x.jsonl", '{"text": "a"}'.encode("utf-16"), "UTF-16 or UTF-32.*save it as UTF-8"),
        ("x.jsonl", '{"text": "a"}'.encode("utf-16-le"), "UTF-16 or UTF-32.*save it as UTF-8"),
        ("x.jsonl", b"", "is empty .0 bytes.; name a file"),
        ("x.csv", b"text\n", "no rows in .*x.csv; name files"),
        ("x.csv", b"text\na,b\n", "line 2 has more cells than the 1"),
        ("x.jsonl", b"[" * 100_000, "line 1"),
        ("x.jsonl", b"\n", "no rows in"),
        ("x.csv", b"text\n\xff\xfe\n", "is not CSV in UTF-8"),
        ("x.parquet", b"PAR1", "not a Parquet file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises((InvalidInput, InvalidEncoding), match=words):
        read_rows([tmp_path / name], "masked-lm")


@pytest.mark.parametrize(
    ("task", "row", "words"),
    [
        (
            "masked-lm",
            {"text": None},
            "the column 'text' is empty .null.; give it a text, or leave out the row",
        ),
        ("masked-lm", {"txt": "a"}, "has no column 'text'; it has txt"),
        ("masked-lm", {"text": 3}, "the column 'text' holds a number; give a text"),
        ("causal-lm", {"prompt": "a", "completion": None}, "'completion' is empty"),
        ("causal-lm", {"messages": "a"}, "'messages' holds a text; give a list such as"),
        ("causal-lm", {"messages": None}, "'messages' holds nothing .null.; give a list such as"),
        ("causal-lm", {"messages": []}, "the list of messages is empty; give"),
        ("causal-lm", {"messages": ["a"]}, "message 1 is a text; give"),
        ("causal-lm", {"messages": [{"content": "a"}]}, "message 1 has no role; give"),
        ("seq2seq-lm", {"source": "a"}, "has no column 'target'; it has source"),
        ("sequence-classification", {"text": "a"}, "has no column 'label'"),
        ("sequence-classification", {"text": "a", "label": [1, 0]}, "the label is a list; give one"),
        ("token-classification", {"tokens": "a", "tags": []}, "'tokens' holds a text; give a list"),
        ("token-classification", {"tokens": ["a"], "tags": []}, "tokens: 1, tags: 0; give at least one"),
        ("token-classification", {"tokens": ["a", None], "tags": [0, 1]}, "among the tokens is nothing"),
        ("token-classification", {"tokens": ["a"], "tags": [None]}, "among the tags is nothing"),
    ],
)
def test_a_row_without_what_its_task_needs_is_refused(
    task: str, row: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=rf"x\.jsonl, row 1.*{words}"):
        read_rows([jsonl(tmp_path / "x.jsonl", [row])], task)


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv"])
def test_a_byte_order_mark_is_left_out(name: str, tmp_path: Path) -> None:
    text = '{"text": "a"}\n' if name == "x.jsonl" else "text\na\n"
    (tmp_path / name).write_bytes(text.encode("utf-8-sig"))
    assert read_rows([tmp_path / name], "masked-lm") == [{"text": "a"}]


@pytest.mark.parametrize("name", ["../a.arrow", "/a.arrow", 3])
def test_a_folder_that_names_files_elsewhere_is_refused(name: Any, tmp_path: Path) -> None:
    datasets.Dataset.from_list([{"text": "a"}]).save_to_disk(tmp_path / "folder")
    state = tmp_path / "folder" / "state.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"_data_files": [{"filename": name}]}))
    with pytest.raises(InvalidEncoding, match="not a folder written by"):
        read_rows([tmp_path / "folder"], "masked-lm")
