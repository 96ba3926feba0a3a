"""Write what a whole job costs under each schedule of gas, from what tests/contracts/Slots.t.sol has counted:

    tests/contracts/snapshots/slots.json   counts of each transaction, and its gas under Osaka (forge writes it)
    tests/contracts/schedules/NAME.json    gas of each transaction under a schedule: a diff shows what a change costs
    docs/measurements/storage.md           the table, between its marks

Run it after the snapshots were renewed. tests/referee_py/test_gas_schedule.py fails if a file is stale.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from referee_py.gas_schedule import SCHEDULES, Counts

ROOT = Path(__file__).resolve().parent.parent
COUNTED = ROOT / "tests/contracts/snapshots/slots.json"
PRICED = ROOT / "tests/contracts/schedules"
PAGE = ROOT / "docs/measurements/storage.md"
BEGIN, END = "<!-- storage -->\n", "<!-- /storage -->"


def transactions() -> dict[str, tuple[Counts, int]]:
    """Return the counts of each transaction of the job and its gas under Osaka, in the order of the job."""
    found: dict[str, dict[str, int]] = {}
    for key, value in json.loads(COUNTED.read_text()).items():
        name, what = key.rsplit(" | ", 1)
        found.setdefault(name, {})["calldata" if what == "bytes" else what] = int(value)
    return {name: (Counts.of(found[name]), found[name]["gas"]) for name in sorted(found)}


def priced() -> dict[str, dict[str, int]]:
    """Return the gas of each transaction, and of the whole job, by schedule."""
    job = transactions()
    tables = {
        s.name: {name[3:]: s.gas(gas, counts) for name, (counts, gas) in job.items()} for s in SCHEDULES
    }
    return {name: table | {"the whole job": sum(table.values())} for name, table in tables.items()}


def table() -> str:
    """Return the page's table."""
    job, gas = transactions(), priced()
    lines = [
        "| transaction | new | overwritten | cleared | bytes of code | bytes of calldata | "
        + " | ".join(f"gas, {name.capitalize()}" for name in gas)
        + " |",
        "|---|" + "---:|" * (5 + len(gas)),
    ]
    whole = Counts()
    rows = [(name[3:], counts) for name, (counts, _) in job.items()]
    for _, counts in rows:
        whole += counts
    for name, c in [*rows, ("the whole job", whole)]:
        numbers = [c.new, c.overwritten, c.cleared, c.code, c.calldata, *(gas[s][name] for s in gas)]
        lines.append(f"| {name} | " + " | ".join(f"{number:,}" for number in numbers) + " |")
    return "\n".join(lines) + "\n"


def files() -> dict[Path, str]:
    """Return the text of each file."""
    found = {PRICED / f"{name}.json": json.dumps(gas, indent=2) + "\n" for name, gas in priced().items()}
    page = PAGE.read_text()
    if BEGIN not in page or END not in page:
        sys.exit(f"{PAGE} lacks the marks of the table")
    found[PAGE] = re.sub(f"{BEGIN}.*?{END}", lambda _: BEGIN + table() + END, page, flags=re.DOTALL)
    return found


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
