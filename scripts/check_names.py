"""Check that no retired name is used: docs/glossary.md lists them, `make lint` runs this.

A name in lower case is retired as a word of a text and as a part of an identifier (`_oldNameOf` has the part `name`);
any other name, as a whole identifier or file name. Prints each place and exits with status 1 if there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = "docs/glossary.md"
LEFT_OUT = {GLOSSARY, "CHANGELOG.md", "package-lock.json", "trainer_node/settings/retired.py"}
"""Files that may use old names, or do not use our names at all."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def retired() -> tuple[set[str], set[str]]:
    """Return the retired words in lower case and the retired whole names. Raise ValueError without a glossary table."""
    table = (ROOT / GLOSSARY).read_text().partition("## Retired names")[2]
    names = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(.+?)`", row)
    }
    if not names:
        raise ValueError(f"{GLOSSARY} has no table of retired names")
    words = {name for name in names if re.fullmatch("[a-z]+", name)}
    return words, names - words


def found(text: str, words: set[str], names: set[str]) -> Iterator[tuple[int, str]]:
    """Yield line numbers and retired names, in the order of the text."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from ((number, part.lower()) for part in _PARTS.findall(line) if part.lower() in words)
        yield from (
            (number, name) for name in re.findall(r"\w+(?:\.(?:py|sol|c|h)\b)?", line) if name in names
        )


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    words, names = retired()
    places = []
    for path in sorted(set(listed.split("\0")) - LEFT_OUT - {""}):
        places += [(path, 0, name) for _, name in found(path, words, names)]
        try:
            text = (ROOT / path).read_text()
        except (
            UnicodeDecodeError,
            FileNotFoundError,
        ):  # NOTE: pictures, and deleted files that are not committed yet
            continue
        places += [(path, number, name) for number, name in found(text, words, names)]
    for path, number, name in places:
        print(f"{path}:{number}: {name!r} is retired; {GLOSSARY} says what it is called now")
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main())
