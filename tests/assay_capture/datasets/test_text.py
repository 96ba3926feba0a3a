"""Text as windows of tokens: bytes, a tokenizer trained on it, a given one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from assay_capture.datasets import Dataset, Tokens, read_text
from assay_capture.datasets import text as text_module
from referee_py.errors import InvalidEncoding, InvalidInput

TEXT = "".join(
    f"In year {1900 + k} the river rose {k % 7} feet, and the täler flooded.\n\n" for k in range(90)
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "river.txt"
    path.write_text(TEXT)
    return path


def stream(rows: np.ndarray) -> list[int]:
    """Return the tokens of windows without overlap, joined again."""
    return [int(rows[0, 0]), *rows[:, 1:].reshape(-1).tolist()]


def test_windows_overlap_in_one_token() -> None:
    tokens = Tokens(np.arange(10), 10)
    assert tokens.windows(3).tolist() == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]
    assert tokens.windows(3, 5).tolist() == [[0, 1, 2, 3], [5, 6, 7, 8]]
    assert tokens.windows(9).shape == (1, 10)
    for window, stride in ((10, None), (0, None), (3, 0)):
        with pytest.raises(InvalidInput, match="window"):
            tokens.windows(window, stride)


def test_bytes_are_tokens(file: Path) -> None:
    data = read_text(file, 32)
    rows = data.tensors["tokens"]
    assert rows.shape[1] == 33
    assert bytes(stream(rows)) == TEXT.encode()[: 32 * len(rows) + 1]
    assert data.origin["sha256"] == hashlib.sha256(TEXT.encode()).hexdigest()
    assert (data.origin["vocabulary"], data.extras) == (256, {})


def test_a_trained_tokenizer_decodes_to_the_text_and_is_kept(file: Path, tmp_path: Path) -> None:
    data = read_text(file, 8, vocabulary=300)
    folder = data.write(tmp_path / "set")
    again = Dataset.read(folder)
    model = tokenizers.Tokenizer.from_str(again.extras["tokenizer.json"].decode())
    decoded = model.decode(stream(again.tensors["tokens"]))
    assert decoded
    assert TEXT.startswith(decoded)
    assert 256 <= model.get_vocab_size() <= 300
    assert again.tensors["tokens"].max() < again.origin["vocabulary"]
    assert again.origin["tokenizer"] == hashlib.sha256(again.extras["tokenizer.json"]).hexdigest()


def test_training_a_tokenizer_gives_the_same_file_each_time(file: Path) -> None:
    assert read_text(file, 8, vocabulary=400).root() == read_text(file, 8, vocabulary=400).root()
    files = {text_module.train_tokenizer(TEXT.encode(), 400) for _ in range(4)}
    assert len(files) == 1


def test_a_given_tokenizer_gives_the_same_tokens(file: Path, tmp_path: Path) -> None:
    trained = read_text(file, 8, vocabulary=300)
    given = tmp_path / "given.json"
    given.write_bytes(trained.extras["tokenizer.json"])
    again = read_text(file, 8, tokenizer=given)
    assert again.root() == trained.root()
    assert again.origin["tokenizer"] == trained.origin["tokenizer"]
    with pytest.raises(InvalidInput, match="either given or trained"):
        read_text(file, 8, tokenizer=given, vocabulary=300)


def test_a_tokenizer_does_not_cut_or_pad(file: Path, tmp_path: Path) -> None:
    """Truncation in a tokenizer.json would shorten the text silently."""
    trained = read_text(file, 8, vocabulary=300)
    model = tokenizers.Tokenizer.from_str(trained.extras["tokenizer.json"].decode())
    model.enable_truncation(5)
    (tmp_path / "cut.json").write_text(model.to_str())
    assert read_text(file, 8, tokenizer=tmp_path / "cut.json").root() == trained.root()


def test_pairs_are_the_same_rows_shifted_by_one(file: Path) -> None:
    rows, pairs = read_text(file, 8), read_text(file, 8, pairs=True)
    np.testing.assert_array_equal(pairs.tensors["x"], rows.tensors["tokens"][:, :-1])
    np.testing.assert_array_equal(pairs.tensors["y"], rows.tensors["tokens"][:, 1:])


def test_bytes_need_not_be_text_but_a_tokenizer_does(tmp_path: Path) -> None:
    path = tmp_path / "binary"
    path.write_bytes(b"abc\xff" * 20)
    assert read_text(path, 4).tensors["tokens"].max() == 255
    with pytest.raises(InvalidInput, match="not UTF-8 at byte 3"):
        read_text(path, 4, vocabulary=300)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"model": 1}', "\xff", json.dumps({"version": "9"})])
def test_a_file_that_is_no_tokenizer_is_refused(content: str, file: Path, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(content.encode("latin-1"))
    with pytest.raises((InvalidEncoding, InvalidInput)):
        read_text(file, 4, tokenizer=tmp_path / "t.json")


def test_limits(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for vocabulary in (255, 1 << 21):
        with pytest.raises(InvalidInput, match="a vocabulary of"):
            read_text(file, 4, vocabulary=vocabulary)
    monkeypatch.setattr(text_module, "MAX_TEXT_BYTES", 100)
    with pytest.raises(InvalidInput, match="more than 100 bytes"):
        read_text(file, 4)
