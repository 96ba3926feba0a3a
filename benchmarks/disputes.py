"""Cost of a dispute: from the demonstration with every lie, and from the contracts' own gas snapshots."""

from __future__ import annotations

import json
from pathlib import Path

from assay_lab.demo import Scenario, digits, middle, play
from assay_lab.faults import Fault, Lie, fits
from trainer_node.local.bundle import Bundle

from .report import ROOT, Table

SNAPSHOTS = ROOT / "tests/contracts/snapshots"
STEPS = 300


def measure(folder: Path) -> Table:
    """Play every lie of repops-f32 on a local chain. Raise RuntimeError if a dispute has the wrong outcome."""
    columns = ["lie", "decided by", "step", "operator", "transactions", "gas", "seconds, job and all"]
    table = Table("disputes", columns)
    bundle = Bundle.read(digits(folder, STEPS))
    for lie in Fault:
        if lie is Fault.NONE or not fits(lie, bundle.terms.arithmetic):
            continue
        result = play(Scenario.TRAINERS, Lie(lie, middle(STEPS)), bundle, folder)
        if not result.just:
            raise RuntimeError(f"the dispute about {lie} ended as it must not; see {folder}")
        for match in result.disputes:
            operator = "" if match.operator is None else str(match.operator)
            reason = match.reason.name.lower().replace("_", " ")
            numbers = (str(match.step), operator, str(match.transactions), f"{match.gas:,}")
            table.add(lie, reason, *numbers, f"{result.seconds:.0f}")
    return table


def moves() -> Table:
    """Return the gas of each move and of whole disputes, as the contracts' tests recorded it."""
    table = Table("gas", ["move", "where", "gas"])
    groups = {"match": "match", "worst match": "worst", "appealed verdict": "panel", "job": "jobs"}
    groups |= {"whole dispute": "dispute"}
    for where, group in groups.items():
        for move, gas in json.loads((SNAPSHOTS / f"{group}.json").read_text()).items():
            table.add(move, where, f"{int(gas):,}")
    return table


def delays() -> Table:
    """Return each attack's delay of a job's end, and its cost, as the contracts' tests recorded them."""
    columns = {
        "delay, s": "delay, s",
        "bound, s": "bound, s",
        "liars lose, 0.01 stakes": "liars lose, stakes",
        "honest stakes, 0.01": "honest stakes",
        "honest gains, 0.01 stakes": "honest gains, stakes",
    }
    table = Table("delay", ["attack", *columns.values()])
    found: dict[str, dict[str, int]] = {}
    for what, number in json.loads((SNAPSHOTS / "delay.json").read_text()).items():
        attack, _, column = what.rpartition(": ")
        if attack:
            found.setdefault(attack, {})[column] = int(number)
    for attack in sorted(
        found, key=lambda name: [int(word) if word.isdigit() else 999 for word in name.split()]
    ):
        row = found[attack]
        table.add(attack, *(f"{row[k]:,}" if k.endswith(", s") else f"{row[k] / 100:,.2f}" for k in columns))
    return table
