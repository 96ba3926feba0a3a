"""The text of an answer grows by what stays: no half letters, nothing of a stop; in pieces it is the same as whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from assay_serve.answer import Answer, End, Parameters, Piece, likeliest

SIZE = 400


class Bytes:
    """Tokens that are bytes."""

    def __init__(self) -> None:
        self.longest = 0

    def text_of(self, tokens: Sequence[int]) -> str:
        self.longest = max(self.longest, len(tokens))
        return bytes(token for token in tokens if token < 256).decode(errors="replace")


def written(text: bytes, stops: tuple[str, ...] = (), most: int = 1000) -> tuple[Answer, list[Piece], Bytes]:
    pieces: list[Piece] = []
    words = Bytes()
    answer = Answer(words, (1,), Parameters(0.0, 0, 1.0, 0), most, stops, frozenset([300]), pieces.append)
    for token in [*text, 300]:
        if answer.take(token, np.zeros(SIZE, np.float32)):
            break
    return answer, pieces, words


@pytest.mark.parametrize(
    "text", ["plain", "ä", "日本語のテキスト" * 20, "a\u0301 e\u0301", "👩‍👩‍👧‍👦 family", "x" * 500, ""]
)
def test_pieces_are_the_text_and_no_letter_is_cut(text: str) -> None:
    answer, pieces, words = written(text.encode())
    assert "".join(piece.text for piece in pieces) == answer.text == text
    assert answer.end is End.STOP
    assert all("\ufffd" not in piece.text for piece in pieces)
    assert [w for piece in pieces for w in piece.written] == answer.written
    assert words.longest < 64, "a token takes the same time wherever it stands"


def test_bytes_that_are_no_letter_are_shown_as_that_at_the_end() -> None:
    answer, pieces, _ = written(b"ab\xff\xffcd\xe6\x97")
    assert answer.text == "ab\ufffd\ufffdcd\ufffd"
    assert "".join(piece.text for piece in pieces) == answer.text


@pytest.mark.parametrize(
    ("stops", "wanted"),
    [
        (("STOP",), "one two "),
        (("two", "one two"), ""),
        (("e t",), "on"),
        (("zzz", "ee"), "one two STOP thr"),
        ((" three and more",), "one two STOP three"),
    ],
)
def test_nothing_of_a_stop_is_ever_told(stops: tuple[str, ...], wanted: str) -> None:
    answer, pieces, _ = written(b"one two STOP three", stops)
    assert answer.text == wanted
    assert "".join(piece.text for piece in pieces) == wanted


def test_a_stop_that_begins_inside_itself_is_found() -> None:
    answer, pieces, _ = written(b"aab aaab x", ("aaab",))
    assert answer.text == "aab "
    assert "".join(piece.text for piece in pieces) == "aab "


def test_an_answer_ends_at_its_most_tokens() -> None:
    answer, pieces, _ = written(b"abcdef", most=3)
    assert (answer.text, answer.end, len(answer.tokens)) == ("abc", End.LENGTH, 3)
    assert pieces[-1].end is End.LENGTH


def test_the_likeliest_tokens_come_in_order_and_ties_by_number() -> None:
    logprobs = np.array([-3, -1, -1, -2, -np.inf, -1], np.float32)
    assert likeliest(logprobs, 2) == ((1, -1.0), (2, -1.0))
    assert [token for token, _ in likeliest(logprobs, 4)] == [1, 2, 5, 3]
    assert len(likeliest(logprobs, 99)) == 6
    assert likeliest(logprobs, 0) == ()
