"""What docs/security.md and the audits name exists: files, tests, contracts, mutants."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from scripts.coverage import GAME

ROOT = Path(__file__).resolve().parent.parent
TABLE = (ROOT / "docs/security.md").read_text()
SHORT = {"C/": "contracts/", "R/": "referee_py/", "N/": "trainer_node/"}


def names_of(path: Path) -> set[str]:
    return set(re.findall(r"(?:def|function) (test_\w+)\(", path.read_text()))


def expanded(pattern: str) -> list[str]:
    """Return the patterns that `a{b,c}d` stands for."""
    found = re.fullmatch(r"(.*)\{(.*)\}(.*)", pattern)
    return [found[1] + part + found[3] for part in found[2].split(",")] if found else [pattern]


def test_every_test_that_the_table_names_exists() -> None:
    """A name without a file belongs to the file named last in its row."""
    named, missing = 0, []
    for row in (line for line in TABLE.splitlines() if line.startswith("|")):
        file = ""
        for path, test in re.findall(r"([\w/.]+\.(?:t\.sol|py))?(?:::(test_\w+))?", row):
            file = path or file
            if not path and not test:
                continue
            start = file[:2]
            where = ROOT / "tests" / (SHORT[start] + file[2:] if start in SHORT else file)
            named += 1
            if not where.is_file() or (test and test not in names_of(where)):
                missing.append(f"{file}::{test}")
    assert named > 100
    assert not missing


def test_every_place_of_a_finding_of_slither_is_in_a_contract() -> None:
    ledger = TABLE.split("### Findings of slither")[1].split("\n### ")[0]
    rows = [line.split("|")[2] for line in ledger.splitlines() if line.startswith("| `")]
    text = "\n".join(path.read_text() for path in (ROOT / "contracts").rglob("*.sol"))
    names = set(re.findall(r"(?:contract|library|interface) (\w+)", text))
    for place in (place for row in rows for place in re.findall(r"`([\w.*]+)`", row)):
        contract, _, function = place.partition(".")
        assert contract in names, place
        if function and function not in ("*", "constructor"):
            assert re.search(rf"\b{function}\b", text), place
    assert len(rows) > 20


def test_every_mutant_applies_and_names_tests() -> None:
    for mutant in tomllib.loads((ROOT / "tests/contracts/mutants.toml").read_text())["mutant"]:
        assert (ROOT / mutant["file"]).read_text().count(mutant["old"]) == 1, mutant["name"]
        for path in expanded(mutant["tests"]):
            assert list(ROOT.glob(path)), (mutant["name"], path)


def test_coverage_looks_at_files() -> None:
    assert all(list(ROOT.glob(pattern)) for pattern in GAME)
