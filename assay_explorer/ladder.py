"""A dispute as a ladder: one rung for each tree that is walked, from the run roots down to one step of one element.

Everything to the left of a rung's first difference is equal on both sides, which the descent has proven. What lies to
the right of it does not matter: both sides computed it from different states.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from referee_py.element import Entry
from referee_py.errors import InvalidEncoding
from referee_py.game.state import Phase
from referee_py.program import Structure
from referee_py.program.terms import leaf_count
from referee_py.trial.rules import leaf_count as data_leaves
from referee_py.walk.reason import Reason
from referee_py.walk.sides import sides
from trainer_node.chain.events import Event
from trainer_node.ids import short

from .chain import Case
from .history import Moment
from .index import Sent
from .text import ether, moment, plural

SIDES = "A", "B"
CASES = {
    Reason.TIMEOUT: ("timeout", "a side did not answer before its clock ran out"),
    Reason.PADDING: ("padding", "a side has claimed a checkpoint beyond the end of the run"),
    Reason.STRUCTURE: ("case 1", "a record names another operator than the program's"),
    Reason.INPUT_CHECKPOINT: ("case 2, checkpoint", "an input is not what the checkpoint before holds"),
    Reason.INPUT_NODE: ("case 2, node", "an input is not what the earlier operator gave"),
    Reason.INPUT_CONSTANT: ("case 2, constant", "an input is not the data that the job commits to"),
    Reason.INPUT_STEP: ("case 2, step number", "an input is not the number of the step"),
    Reason.LOG: ("case 3", "a rounding log is not the one that the trainer has committed to"),
    Reason.OPERATOR: ("case 4", "the inputs are equal, and the operator does not give this output"),
}
_CAPITAL = re.compile(r"(?<!^)([A-Z])")
Pair = tuple[bytes, bytes]
Names = Callable[[str], str]
"""Name of an account on the page."""


@dataclass
class Moves:
    """A transaction's part in a rung. ``shared``: an earlier rung has shown it, with its gas."""

    sent: Sent
    since: int
    shared: bool
    lines: list[str] = field(default_factory=list)


@dataclass
class Strip:
    """The leaves of a tree. Those before ``lo`` are equal, the first difference is one of ``lo..hi``, both included."""

    count: int
    lo: int
    hi: int
    unit: str
    first: int
    """Number that the first leaf is called by."""
    every: int = 1
    end: int = 0
    """With ``every``: leaf k is called ``min(first + k * every, end)``."""

    @property
    def found(self) -> bool:
        return self.lo == self.hi

    def name(self, leaf: int) -> str:
        number = self.first + leaf * self.every
        return f"{self.unit}{min(number, self.end) if self.end else number}"


@dataclass
class Rung:
    """One rung. ``pairs`` are hashes of both sides by what they are of; equal or not is seen from the hashes."""

    kind: str
    title: str
    lead: str = ""
    pairs: list[tuple[str, bytes, bytes]] = field(default_factory=list)
    strip: Strip | None = None
    moves: list[Moves] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    page: str = ""
    """Another page about it: operator or element."""

    @property
    def funnel(self) -> bool:
        """Whether the first difference leads to the rung below."""
        return self.strip is not None and self.strip.found

    @property
    def gas(self) -> int:
        return sum(part.sent.gas for part in self.moves if not part.shared)

    @property
    def seconds(self) -> int:
        return sum(part.since for part in self.moves if not part.shared)


@dataclass(frozen=True)
class Found:
    """The first difference, as far as it is known: the disputed step (after which both differ), node and element."""

    step: int | None = None
    node: int | None = None
    output: int | None = None
    element: int | None = None
    values: tuple[int, int] | None = None
    entry: Entry | None = None
    lo: int | None = None
    hi: int | None = None
    steps: int | None = None


@dataclass(frozen=True)
class Ladder:
    rungs: list[Rung]
    found: Found
    losers: tuple[int, ...] | None
    """The sides that lost, once that is decided."""
    reason: Reason | None
    transactions: int
    gas: int
    seconds: int


def ladder(case: Case, moments: Sequence[Moment], name: Names) -> Ladder:
    """Return the dispute after these moments, the first of all or all of them. Raises RpcCorrupt."""
    made = _Maker(case, name)
    for moment_ in moments:
        made.begin(moment_)
        for told in moment_.told:
            made.take(told.event, told.trial)
    sent = [one.sent for one in moments]
    length = sent[-1].instant - sent[0].instant if sent else 0
    decided = made.losers is not None
    return Ladder(
        made.rungs,
        made.found,
        made.losers if decided else None,
        made.reason,
        len(sent),
        sum(one.gas for one in sent),
        length,
    )


class _Maker:
    def __init__(self, case: Case, name: Names) -> None:
        self._case, self._name = case, name
        self._terms = case.match.terms.program
        self.rungs: list[Rung] = []
        self.found = Found()
        self.losers: tuple[int, ...] | None = None
        self.reason: Reason | None = None
        self._moment: Moment | None = None
        self._used: set[bytes] = set()
        self._roots: Pair = case.match.terms.roots
        self._nodes: Pair = self._roots
        self._trials: dict[int, Rung] = {}
        self._element: dict[int, Rung] = {}
        self._structure: Structure | None = None
        self._records: dict[int, Any] = {}

    def begin(self, moment_: Moment) -> None:
        self._moment = moment_
        if moment_.records is not None and self.rungs and self.rungs[-1].kind in ("step", "operator"):
            self._records = dict(enumerate(moment_.records))

    def take(self, event: Event, trial: int) -> None:
        """Take one event; ones that add nothing are passed over."""
        name = _CAPITAL.sub(r"_\1", event.name).lower()
        method: Callable[..., None] | None = getattr(self, f"_on_{name}", None)
        if method is not None:
            method(event.args, trial) if trial else method(event.args)

    def _rung(self, rung: Rung) -> Rung:
        self.rungs.append(rung)
        return rung

    def _say(self, rung: Rung, line: str) -> None:
        """Add a line to the present transaction's part in a rung."""
        assert self._moment is not None
        sent = self._moment.sent
        part = next((part for part in rung.moves if part.sent.hash == sent.hash), None)
        if part is None:
            part = Moves(sent, self._moment.since, sent.hash in self._used)
            self._used.add(sent.hash)
            rung.moves.append(part)
        part.lines.append(line)

    @staticmethod
    def _side(side: int) -> str:
        return f"side {SIDES[side]}"

    # ------------------------------------------------------------------ the match

    def _on_opened(self, args: dict[str, Any]) -> None:
        first, second = (
            f"{self._name(who)} (side {SIDES[k]})" for k, who in enumerate(args["matchTerms"].players)
        )
        rung = self._rung(
            Rung(
                "run",
                "Run",
                f"Two results of the same {plural(self._terms.steps, 'training step')} are claimed. They differ.",
            )
        )
        rung.pairs.append(("run root", *self._roots))
        self._say(rung, f"the referee opens the dispute: {first} against {second}")

    def _on_entered(self, args: dict[str, Any]) -> None:
        start, end, level = args["start"], args["end"], args["level"]
        strides = self._terms.strides
        if args["phase"] == Phase.REFINE:
            self.rungs[-1].lead = (
                f"The first difference is in steps {start + 1} to {end}; before them both sides agree. "
                "Both commit to these steps more finely."
            )
        elif args["phase"] == Phase.OPEN:
            self._enter_operator(args)
        elif args["phase"] == Phase.WALK and level == len(strides):
            self._enter_step(end, args)
        elif args["phase"] == Phase.WALK:
            self._enter_run(start, end, strides[level], level)

    def _enter_run(self, start: int, end: int, every: int, level: int) -> None:
        count = leaf_count(start, end, every)
        strip = Strip(count, 0, count - 1, "C", start + every, every, end)
        if level == 0 and self.rungs:
            rung = self.rungs[-1]
        else:
            rung = self._rung(Rung("interval", "Interval"))
            rung.pairs += [(f"root of steps {start + 1} to {end}", *self._roots)]
        each = "every step" if every == 1 else f"every {every} steps"
        rung.title = f"{rung.title.split(' ·')[0]} · steps {start + 1} to {end}"
        rung.strip = strip
        rung.facts.append(("checkpoints", f"{count}, one {each}"))
        if not rung.lead:
            rung.lead = (
                f"Somewhere in steps {start + 1} to {end} the two runs part. There is a checkpoint {each}."
            )

    def _enter_step(self, step: int, args: dict[str, Any]) -> None:
        count = self._terms.node_count
        rung = self._rung(Rung("step", f"Step {step}"))
        rung.pairs += [("checkpoint before, agreed", args["agreed"], args["agreed"])]
        rung.pairs += [(f"checkpoint C{step}", *self._nodes)]
        rung.strip = Strip(count, 0, count - 1, "#", 0)
        rung.lead = (
            f"Step {step} is the first step that differs. It consists of {plural(count, 'operator')}, each with a "
            "record of its inputs and outputs."
        )
        self._roots = self._nodes
        self.found = Found(step=step)

    def _enter_operator(self, args: dict[str, Any]) -> None:
        node = self.rungs[-1].strip.lo if self.rungs[-1].strip else 0
        self.found = Found(step=args["end"], node=node)
        rung = self._rung(Rung("operator", f"Operator {node}", page="operator"))
        rung.pairs.append(("record", *self._nodes))
        rung.lead = f"Operator {node} is the first one whose record differs. Both sides open theirs."

    def _on_revealed(self, args: dict[str, Any]) -> None:
        count = len(args["children"])
        self._say(
            self.rungs[-1], f"{self._side(args['side'])} reveals {count} nodes {args['height']} levels up"
        )

    def _on_descended(self, args: dict[str, Any]) -> None:
        rung, height, index = self.rungs[-1], args["height"], args["index"]
        self._nodes = args["node0"], args["node1"]
        strip = rung.strip
        if strip is None:
            return
        strip.lo = index << height
        strip.hi = min(((index + 1) << height) - 1, max(strip.count - 1, strip.lo))
        if height:
            self._say(rung, f"first difference: among {strip.name(strip.lo)} to {strip.name(strip.hi)}")
            return
        self._say(rung, f"first difference: {strip.name(index)}")
        what = "record" if rung.kind == "step" else "checkpoint"
        rung.pairs.append((f"{what} {strip.name(index)}", *self._nodes))
        if rung.kind != "step" and not rung.lead.startswith("The first difference"):
            rung.lead = (
                f"{strip.name(index)} is the first checkpoint that differs. Everything before it is equal."
            )

    def _on_refined(self, args: dict[str, Any]) -> None:
        side, root = args["side"], args["root"]
        self._roots = (root, self._roots[1]) if side == 0 else (self._roots[0], root)
        every = self._terms.strides[args["level"]]
        each = "every step" if every == 1 else f"every {every} steps"
        self._say(self.rungs[-1], f"{self._side(side)} commits to {each}: {short(root)}")

    def _on_record_opened(self, args: dict[str, Any]) -> None:
        record, rung = args["record"], self.rungs[-1]
        counts = f"{plural(len(record.inputs), 'input')}, {plural(len(record.outputs), 'output')}"
        self._say(rung, f"{self._side(args['side'])} opens its record: {counts}")
        self._records[args["side"]] = record
        self._compare_records(rung)

    def _compare_records(self, rung: Rung) -> None:
        if len(self._records) < 2:
            return
        first, second = self._records[0], self._records[1]
        rung.pairs = rung.pairs[:1]
        rung.pairs.append(("structure", first.structure, second.structure))
        for what in ("inputs", "outputs"):
            one, other = getattr(first, what), getattr(second, what)
            for k in range(max(len(one), len(other))):
                pair = (one[k] if k < len(one) else b"", other[k] if k < len(other) else b"")
                rung.pairs.append((f"{what[:-1]} {k}", *pair))
        if any(first.log) or any(second.log):
            rung.pairs.append(("rounding log", first.log, second.log))
        differs = next((what for what, one, other in rung.pairs[1:] if one != other), "")
        rung.lead = {
            "structure": "One side names another operator. The program says which it is.",
            "rounding log": "The rounding logs differ. The trainer has committed to one of them.",
        }.get(
            differs,
            f"Structure and inputs are equal, but {differs} differs: somebody has to compute this one operator."
            if differs.startswith("output")
            else f"{differs.capitalize()} differs. Where it comes from decides who is right.",
        )

    def _on_decided(self, args: dict[str, Any]) -> None:
        self.reason, self.losers = Reason(args["reason"]), tuple(sides(args["losers"]))
        if self.rungs[-1].kind == "operator":
            self._compare_records(self.rungs[-1])
        word, what = CASES[self.reason]
        rung = self._rung(Rung("decision", f"Decision · {word}", f"{what[0].upper()}{what[1:]}."))
        for side in (0, 1):
            who = self._name(self._case.match.terms.players[side])
            rung.facts.append((f"side {SIDES[side]}, {who}", "loses" if side in self.losers else "wins"))
        self._say(rung, "the referee decides")

    # ------------------------------------------------------------------ the hearing

    def _on_submitted(self, args: dict[str, Any]) -> None:
        records = args["dispute"].records
        self._records = dict(enumerate(records))
        try:
            self._structure = Structure.decode(args["dispute"].structure)
        except InvalidEncoding:
            self._structure = None
        above = next((rung for rung in reversed(self.rungs) if rung.kind == "operator"), None)
        if above is not None:
            self._compare_records(above)
            if self._structure is not None:
                above.title = f"Operator {self.found.node} · {self._structure.name}"
                above.facts.append(("operator", self._structure.name))
                above.facts.append(("outputs", ", ".join(map(str, self._structure.outputs))))
        rung = self._rung(Rung("hearing", "Hearing"))
        rung.pairs.append(("record", *args["submission"].records))
        if args["until"]:
            rung.lead = "The job's verifiers execute this one operator, and sign the right record."
            rung.facts.append(("votes until", moment(args["until"])))
        else:
            rung.lead = "The job names no verifiers: the court judges one step of one element."
        self._say(rung, "the operator is before the panel")

    def _hearing(self) -> Rung:
        return next(rung for rung in reversed(self.rungs) if rung.kind in ("hearing", "verdict", "appeal"))

    def _on_attested(self, args: dict[str, Any]) -> None:
        who = self._name(args["verifier"])
        rung = self._hearing()
        self._say(rung, f"{who} signs {self._whose(args['record'])}")
        rung.facts.append((who, f"signs {self._whose(args['record'])}"))

    def _whose(self, record: bytes) -> str:
        hearing = self._case.hearing
        pair = hearing.terms.submission.records if hearing is not None else (b"", b"")
        for side in (0, 1):
            if pair[side] == record:
                return f"the record of side {SIDES[side]}"
        return f"another record, {short(record)}"

    def _on_verdict_reached(self, args: dict[str, Any]) -> None:
        rung = self._rung(Rung("verdict", "Verdict"))
        rung.lead = f"The verifiers say that {self._whose(args['record'])} is right."
        rung.facts.append(("stands, unless somebody appeals, from", moment(args["until"])))
        self._say(rung, f"verdict: {self._whose(args['record'])} is right")

    def _on_appealed(self, args: dict[str, Any]) -> None:
        rung = self._rung(Rung("appeal", "Appeal"))
        who = self._name(args["appellant"])
        rung.lead = f"{who} does not accept the verdict, and has the court judge, for a bond."
        self._say(rung, f"{who} appeals, with a bond")

    def _on_tried(self, args: dict[str, Any]) -> None:
        number = len(self._trials) + 1
        first, second = map(self._name, args["players"])
        rung = self._rung(Rung("trial", f"Trial {number}" if number > 1 else "Trial"))
        between = f"{first} against {second}"
        rung.lead = (
            f"The court narrows the operator down to one element, and to one step of its chain: {between}."
        )
        self._trials[number] = rung
        self._say(rung, f"a trial begins: {first} against {second}")

    def _on_overruled(self, args: dict[str, Any]) -> None:
        rung = self._rung(Rung("verdict", "Overruled"))
        rung.lead = (
            "The court does not confirm the verdict. Its signers may stand by it, or lose their bonds."
        )
        rung.facts.append(("they may stand by it until", moment(args["until"])))
        self._say(rung, f"{self._name(args['accuser'])} has been right: the verdict is overruled")

    def _on_slashed(self, args: dict[str, Any]) -> None:
        self._say(self.rungs[-1], f"{self._name(args['verifier'])} loses its bond of {ether(args['bond'])}")

    def _on_stood(self, args: dict[str, Any]) -> None:
        self._say(self.rungs[-1], f"{self._name(args['verifier'])} stands by the verdict")

    def _on_cleared(self, args: dict[str, Any]) -> None:
        self._say(self.rungs[-1], f"{self._name(args['verifier'])} stood by the verdict, and was right")

    # ------------------------------------------------------------------ trials

    def _on_output_shown(self, args: dict[str, Any], trial: int) -> None:
        rung, side = self._trials[trial], args["side"]
        self._say(
            rung, f"{self._side(side)} shows its output {args['output']}: data root {short(args['root'])}"
        )
        what = f"data of output {args['output']}"
        pair = next((pair for pair in rung.pairs if pair[0] == what), (what, b"", b""))
        pair = (what, args["root"], pair[2]) if side == 0 else (what, pair[1], args["root"])
        rung.pairs = [one for one in rung.pairs if one[0] != what] + [pair]
        if (
            rung.strip is None
            and self._structure is not None
            and args["output"] < len(self._structure.outputs)
        ):
            count = data_leaves(self._structure.outputs[args["output"]])
            rung.strip = Strip(count, 0, count - 1, "leaf ", 0)
        if trial == max(self._trials):
            self.found = Found(self.found.step, self.found.node, args["output"])

    def _on_nodes_revealed(self, args: dict[str, Any], trial: int) -> None:
        rung = self._trials[trial]
        count = len(args["children"])
        self._say(rung, f"{self._side(args['side'])} reveals {count} nodes {args['height']} levels up")

    def _on_nodes_descended(self, args: dict[str, Any], trial: int) -> None:
        rung, height, index = self._trials[trial], args["height"], args["index"]
        if rung.strip is not None:
            rung.strip.lo = index << height
            rung.strip.hi = min(((index + 1) << height) - 1, max(rung.strip.count - 1, rung.strip.lo))
            lo, hi = rung.strip.name(rung.strip.lo), rung.strip.name(rung.strip.hi)
            self._say(
                rung, f"first difference: {lo}" if height == 0 else f"first difference: among {lo} to {hi}"
            )
        if height == 0:
            rung.pairs.append((f"leaf {index}", args["node0"], args["node1"]))

    def _on_leaf_shown(self, args: dict[str, Any], trial: int) -> None:
        self._say(
            self._trials[trial], f"{self._side(args['side'])} shows its leaf of {len(args['leaf'])} bytes"
        )

    def _on_element_found(self, args: dict[str, Any], trial: int) -> None:
        element, steps = args["element"], args["steps"]
        rung = self._rung(Rung("element", f"Element {element}", page="element"))
        self._element[trial] = rung
        rung.lead = (
            f"Element {element} is the first number that differs. It is the result of {plural(steps, 'step')}: "
            "the court searches the first step on which the sides part."
        )
        rung.strip = Strip(steps, 0, steps - 1, "step ", 1)
        rung.facts.append(
            ("bits of side A, side B", " ≠ ".join(f"0x{value:08x}" for value in args["values"]))
        )
        self._say(rung, f"element {element}: a chain of {plural(steps, 'step')}")
        entry = Entry(args["entry"].kind, args["entry"].written)
        known = self.found
        if trial == max(self._trials):
            self.found = Found(
                *(known.step, known.node, known.output, element, tuple(args["values"]), entry),
                0,
                steps,
                steps,
            )

    def _on_states_posted(self, args: dict[str, Any], trial: int) -> None:
        self._say(
            self._element[trial], f"side A posts its states between steps {args['lo']} and {args['hi']}"
        )

    def _on_state_answered(self, args: dict[str, Any], trial: int) -> None:
        rung, lo, hi = self._element[trial], args["lo"], args["hi"]
        assert rung.strip is not None
        rung.strip.lo, rung.strip.hi = lo, max(hi - 1, lo)
        self._say(rung, f"side B agrees after step {lo}, not after step {hi}")
        if trial == max(self._trials):
            known = self.found
            self.found = Found(
                *(known.step, known.node, known.output, known.element, known.values, known.entry),
                *(lo, hi, known.steps),
            )

    def _on_trial_decided(self, args: dict[str, Any], trial: int) -> None:
        rung = self._element.get(trial, self._trials[trial])
        losers = " and ".join(f"side {SIDES[side]}" for side in sides(args["losers"]))
        strip = rung.strip
        judged = strip is not None and strip.found and rung.kind == "element"
        how = f"computes step {strip.lo + 1} itself" if judged and strip is not None else "decides"
        rung.facts.append(("the court", f"{how}: {losers} is wrong"))
        if judged and strip is not None:
            rung.lead = (
                f"Of the {plural(strip.count, 'step')} that make this number, the sides part at step {strip.lo + 1}. "
                "The contract computes this one step itself, with floating point in Solidity."
            )
        self._say(rung, f"the court {how}: {losers} is wrong")
