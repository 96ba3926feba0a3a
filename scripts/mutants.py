"""Check that the contract tests notice errors: each mutant of tests/contracts/mutants.toml must make its tests fail.

    scripts/mutants.py [part of a name ...]

Tries each mutant in a copy of contracts and tests. Exits with status 1 if one survives, or does not apply or compile.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("contracts", "tests/contracts", "tests/vectors", "scripts", "foundry.toml")
KEPT = ".build/forge"
"""Output of earlier compilations, so that only the files that a mutant affects are compiled again."""
LEFT_OUT = shutil.ignore_patterns("element", "float")
"""Tests of arithmetic, which tests/twins/float checks against the host's arithmetic."""


def copy(target: Path) -> None:
    for name in (*COPIED, KEPT, ".build/solc"):
        source = ROOT / name
        if source.is_dir():
            ignore = LEFT_OUT if name == "tests/contracts" else None
            shutil.copytree(source, target / name, symlinks=True, ignore=ignore)
        elif source.exists():
            shutil.copy2(source, target / name)
    (target / "node_modules").symlink_to(ROOT / "node_modules")


def survives(mutant: dict[str, str], tree: Path) -> str | None:
    """Return the reason why the mutant is not killed, or None if its tests fail."""
    path = tree / mutant["file"]
    source = path.read_text()
    if source.count(mutant["old"]) != 1:
        return f"{mutant['file']} has {source.count(mutant['old'])} places like {mutant['old']!r}, there must be one"
    path.write_text(source.replace(mutant["old"], mutant["new"]))
    try:
        command: list[str | Path] = [ROOT / ".venv/bin/forge", "test", "--match-path", mutant["tests"]]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    finally:
        path.write_text(source)
    told = done.stdout + done.stderr
    # NOTE: forge reports each failure twice, and without a total if the gas of a move has changed too.
    failing = len(set(re.findall(r"^\[FAIL.*", told, re.MULTILINE)))
    if done.returncode == 0:
        return "all tests pass"
    if not failing:
        return told[-2000:]
    print(f"killed by {failing} of {mutant['tests']}: {mutant['name']}", flush=True)
    return None


def main() -> int:
    mutants = tomllib.loads((ROOT / "tests/contracts/mutants.toml").read_text())["mutant"]
    wanted = [m for m in mutants if not sys.argv[1:] or any(part in m["name"] for part in sys.argv[1:])]
    alive = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        (tree / "tests").mkdir()
        (tree / ".build").mkdir()
        copy(tree)
        for mutant in wanted:
            reason = survives(mutant, tree)
            if reason is not None:
                alive += 1
                print(f"ALIVE: {mutant['name']}\n{reason}", flush=True)
    print(f"{len(wanted) - alive} of {len(wanted)} mutants killed")
    return 1 if alive or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
