"""Docstrings: what one names must exist, how it may begin, and phrases that are refused in prose."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from scripts.check_docstrings import problems, project

SOURCES: Mapping[str, str | None] = {
    "node/run/replay.py": "class Replay:\n    def state(self, step): ...\n\nOPTION = '--keep DAYS'\n",
    "contracts/Jobs.sol": "contract Jobs { function post() external {} } // function neverWritten()\n",
    "docs/protocol.md": None,
    "docs/a.png": None,
}


def said(text: str, path: str = "node/run/other.py") -> str:
    return "\n".join(f"{line}: {sentence}" for line, sentence in problems(path, text, project(SOURCES)))


@pytest.mark.parametrize(
    ("named", "missing"),
    [
        ("node/run/replay.py", None),
        ("replay.py", None),
        ("run/replay.py, Jobs.sol and docs/protocol.md", None),
        ("play/replay.py", "there is no file play/replay.py"),
        ("rules.py", "there is no file rules.py"),
        ("Court.sol", "there is no file Court.sol"),
        ("section 5 of docs/contract.md.", "there is no file docs/contract.md"),
        ("`Replay`, `Replay.state`, `state(step)`, `replay`, `post`", None),
        ("`Replay.end`", "there is no Replay.end"),
        ("`gone`", "there is no gone"),
        ("`gone(step)`", "there is no gone"),
        ("`neverWritten`", "there is no neverWritten"),
        ("``gone``, an argument", None),
        ("`a formula + 1`", None),
        ("--keep 3, --help", None),
        ("--keep-all", "there is no option --keep-all"),
        ("a -- b, x--y, ----", None),
    ],
)
@pytest.mark.parametrize(
    ("shape", "line"),
    [
        ('"""A module: {}"""\n', 1),
        ('class A:\n    """A class.\n\n    See {}\n    """\n', 2),
        ('def f():\n    """Return {}"""\n', 2),
        ('A = 1\n"""A value of {}"""\n', 2),
        ('class A:\n    def __init__(self):\n        self.a = 1\n        """A value of {}"""\n', 4),
    ],
)
@pytest.mark.parametrize("path", ["node/run/other.py", "tests/test_other.py"])
def test_what_a_docstring_names_exists(
    named: str, missing: str | None, shape: str, line: int, path: str
) -> None:
    assert said(shape.format(named), path) == (f"{line}: {missing}" if missing else "")


def test_strings_and_comments_may_name_anything() -> None:
    assert said('print("gone.py, `gone` and --gone")  # gone.py, `gone` and --gone\n') == ""


def test_a_docstring_does_not_make_a_name_exist() -> None:
    assert said('"""`first` and --first"""\ndef f():\n    """`first`"""\n').count("there is no first") == 2


@pytest.mark.parametrize(
    "word", ["What", "Whether", "Where", "Which", "How", "Who", "Whose", "When", "If", "That"]
)
def test_a_noun_or_a_verb_is_first(word: str) -> None:
    begins = f"begins with {word!r}, not with a noun or a verb"
    assert said(f'"""{word} it is."""\n') == f"1: docstring of a module {begins}"
    assert said(f'class A:\n    """{word} it is."""\n') == f"2: docstring of a class {begins}"
    assert said(f'a = 1\n"""{word} it is."""\n') == f"2: docstring of an attribute {begins}"
    assert (
        said(f'class A:\n    a: int\n    """\n    {word} it is."""\n')
        == f"3: docstring of an attribute {begins}"
    )
    assert said(f'def f():\n    """{word} it is."""\n') == ""
    assert said(f'"""{word}ever it is, {word}."""\n') == ""
    assert said(f'"""{word} it is."""\n', "tests/test_a.py") == ""


@pytest.mark.parametrize("path", ["a.py", "a.sol", "a.c", "a.cu", "docs/a.md"])
@pytest.mark.parametrize("phrase", ["of late", "Without a word", "of\n{}elsewhere"])
def test_calques_are_refused_in_prose(path: str, phrase: str) -> None:
    comment = {".py": "# ", ".md": ""}.get(path[path.index(".") :], "// ")
    text = f"\n{comment}It was {phrase.format(comment)}.\n"
    assert said(text, path).startswith(f"2: {phrase.format('').replace(chr(10), ' ')!r} is not plain English")
    assert said(text, f"tests/{path}") == ""
    if path.endswith(".py"):
        assert said(f'def f():\n    """It was\n    {phrase.format("    ")}."""\n', path).startswith("3: ")
        assert said(f"x = {phrase.format('')!r}\n", path) == ""
    elif path != "docs/a.md":
        assert said(f"int a;\n/**\n * {phrase.format(' * ')} */\n", path).startswith("3: ")


def test_a_docstring_describes_something() -> None:
    """Two in a row, or one after a statement that assigns nothing, have lost what they were written for."""
    orphan = "docstring of nothing: it stands after another one, or after a statement"
    assert said('A = 1\nB = 2\n"""Of B."""\n"""Of A."""\n') == f"4: {orphan}"
    assert said('class A:\n    """A."""\n\n    def f(self): ...\n\n    """Of f."""\n') == f"6: {orphan}"
    assert said('A = 1\n"""Of A."""\nB = 2\n"""Of B."""\n') == ""


def test_a_heading_names_files_that_exist() -> None:
    page = "docs/page.md"
    assert said("# Replays (`replay.py`, `rules.py`)\n", page) == "1: there is no file rules.py"
    assert said("Save this as `rules.py`.\n", page) == ""
