"""Choice of how many variants of each test stay quick, from a measured run: `python -m tests.choose RUN >TABLE`.

RUN is what pytest wrote of a run of the quick tests, with the durations of all of them. The table is that of
variants.toml with lower numbers where the variants of a test took more than `SECONDS`; what takes more than `LONG`
alone stands at the end as a comment, for somebody to mark it or to make it faster.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from .variants import TABLE, few

SECONDS = 1.0
"""Of all variants of a test."""
LONG = 5.0
"""Seconds of one test without variants."""
_LINE = re.compile(r"^\s*([\d.]+)s (?:call|setup|teardown)\s+tests/(\S+?\.py::.+?)\s*$", re.M)


def measured(text: str) -> dict[str, dict[str, float]]:
    """Return the seconds of each variant of each test, by the test's id without its parameters."""
    found = defaultdict[str, dict[str, float]](lambda: defaultdict(float))
    for seconds, name in _LINE.findall(text):
        found["tests/" + name.partition("[")[0]][name] += float(seconds)
    return found


def chosen(found: dict[str, dict[str, float]], table: dict[str, int]) -> dict[str, int]:
    """Return the new table: as many variants as fit into `SECONDS`, one at least, and no more than before."""
    new = dict(table)
    for test, variants in found.items():
        each = sum(variants.values()) / len(variants)
        fit = max(1, int(SECONDS / each))
        if fit < min(len(variants), table.get(test, len(variants))):
            new[test] = fit
    return new


def text_of(table: dict[str, int]) -> str:
    """Return a table as it stands in the file, by files and names."""
    files = defaultdict[str, list[str]](list)
    for test, count in sorted(table.items()):
        file, _, name = test.removeprefix("tests/").partition("::")
        key = name if re.fullmatch(r"\w+", name) else f'"{name}"'
        files[file].append(f"{key} = {count}")
    return "\n\n".join(f'["{file}"]\n' + "\n".join(rows) for file, rows in files.items())


def main() -> None:
    found = measured(Path(sys.argv[1]).read_text())
    head = TABLE.read_text().partition("\n\n")[0]
    print(f"{head}\n\n{text_of(chosen(found, few()))}")
    for test, variants in sorted(found.items()):
        if len(variants) == 1 and sum(variants.values()) > LONG:
            print(f"# {test}: {sum(variants.values()):.0f} s")


if __name__ == "__main__":
    main()
