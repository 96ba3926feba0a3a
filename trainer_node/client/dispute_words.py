"""A dispute in words: its events in order, each as a line, for command line, demonstration and explorer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from referee_py.game.state import Phase
from referee_py.program.terms import Terms
from referee_py.walk.reason import Reason
from referee_py.walk.sides import sides

from ..chain.codec.base import known
from ..chain.codec.hearing import HearingInfo
from ..chain.events import Event
from ..chain.fees import in_ether
from ..chain.snapshot import Snapshot
from ..ids import short, side_of

CASES = {
    Reason.TIMEOUT: ("timeout", "a side did not answer before its clock ran out"),
    Reason.PADDING: ("past the end", "a side has claimed a checkpoint beyond the end of the run"),
    Reason.STRUCTURE: (
        "wrong operator",
        "a record names another operator than the program's, or a rounding log where there is none",
    ),
    Reason.INPUT_CHECKPOINT: (
        "wrong input, from a checkpoint",
        "an input is not what the checkpoint before holds",
    ),
    Reason.INPUT_NODE: ("wrong input, from an operator", "an input is not what the earlier operator gave"),
    Reason.INPUT_CONSTANT: ("wrong input, from the data", "an input is not the data that the job commits to"),
    Reason.INPUT_STEP: ("wrong input, the step's number", "an input is not the number of the step"),
    Reason.LOG: ("wrong rounding log", "a rounding log is not the one that the trainer has committed to"),
    Reason.OPERATOR: ("wrong output", "the inputs are equal, and the operator does not give this output"),
}
"""Name and meaning of each reason for a decision."""


def case_words(reason: Reason, losers: tuple[int, ...]) -> tuple[str, str]:
    """Return name and meaning of a decision against these sides."""
    word, what = CASES[reason]
    both = reason is Reason.TIMEOUT and len(losers) > 1
    return word, "neither side answered before its clock ran out" if both else what


@dataclass(frozen=True)
class Told:
    """An event with the thing that it is about: match, hearing, or a trial by its number from 1."""

    event: Event
    of: str
    trial: int = 0


def told(snapshot: Snapshot, match_id: int, hearing: HearingInfo | None) -> list[Told]:
    """Return all events of a match, its hearing and its trials, in order. Raises RpcUnavailable or RpcCorrupt."""
    found = [Told(event, "match") for event in snapshot.events(match_id)]
    if hearing is not None:
        found += [Told(event, "hearing") for event in snapshot.hearing_events(hearing.id)]
        for number in range(1, hearing.state.trials + 1):
            found += [Told(event, "trial", number) for event in snapshot.trial_events(hearing.trial(number))]
    return sorted(found, key=lambda one: (one.event.block, one.event.index))


@dataclass(frozen=True)
class Words:
    """Lines about the events of a dispute about a program. The functions call a side of the walk, an account and a
    record, and say an instant (unix seconds)."""

    terms: Terms
    moment: Callable[[int], str]
    side: Callable[[int], str] = side_of
    name: Callable[[str], str] = short
    record: Callable[[bytes], str] = short

    def of(self, event: Event) -> str:
        """Return one line about an event; empty if it adds nothing."""
        args, strides = event.args, self.terms.strides
        match event.name:
            case "Entered":
                start, end, level = args["start"], args["end"], args["level"]
                if args["phase"] == Phase.REFINE:
                    return f"steps {start + 1} to {end} differ: both refine"
                if args["phase"] == Phase.OPEN:
                    return f"step {end}: one node differs: both open their record"
                if level == len(strides):
                    return f"step tree of step {end}: {self.terms.node_count} nodes"
                return f"run tree of steps {start + 1} to {end}, a checkpoint every {strides[level]}"
            case "Revealed" | "NodesRevealed":
                return f"{self.side(args['side'])} reveals {len(args['children'])} nodes {args['height']} levels up"
            case "Descended":
                index, height = args["index"], args["height"]
                place = f"leaf {index}" if height == 0 else f"node {index} at height {height}"
                return f"first difference: {place}: {short(args['node0'])} or {short(args['node1'])}"
            case "Refined":
                stride = strides[args["level"]]
                return f"{self.side(args['side'])} refines to stride {stride}: {short(args['root'])}"
            case "RecordOpened":
                record = args["record"]
                counts = f"{_count(record.inputs, 'input')}, {_count(record.outputs, 'output')}"
                return f"{self.side(args['side'])} opens its record: {counts}"
            case "Decided":
                reason = known(Reason, args["reason"], "event Decided")
                return f"decided, {': '.join(case_words(reason, tuple(sides(args['losers']))))}"
            case "Submitted":
                at, until = args["submission"], args["until"]
                judges = f"the panel; verifiers judge it until {self.moment(until)}" if until else "the court"
                return f"same inputs, other outputs: node {at.node} of step {at.step} is before {judges}"
            case "Attested":
                votes = f"{args['votes']} vote{'' if args['votes'] == 1 else 's'}"
                return f"{self.name(args['verifier'])} signs {self.record(args['record'])} ({votes})"
            case "VerdictReached":
                until = self.moment(args["until"])
                return f"verdict: {self.record(args['record'])} is right; it stands from {until}"
            case "Appealed":
                return f"{self.name(args['appellant'])} appeals, with a bond"
            case "Tried":
                return f"trial: {' against '.join(map(self.name, args['players']))}"
            case "Overruled":
                return f"overruled; its signers may stand by it until {self.moment(args['until'])}"
            case "Slashed":
                return f"{self.name(args['verifier'])} loses its bond of {in_ether(args['bond'])}"
            case "Stood":
                return f"{self.name(args['verifier'])} stands by the verdict"
            case "Cleared":
                return f"{self.name(args['verifier'])} stood by the verdict, and was right"
            case "OutputShown":
                root = short(args["root"])
                return f"output {args['output']} of {self.side(args['side'])} has data root {root}"
            case "NodesDescended":
                return f"first difference: node {args['index']} at height {args['height']}"
            case "LeafShown":
                return f"{self.side(args['side'])} shows its leaf of {len(args['leaf'])} bytes"
            case "ElementFound":
                first, second = args["values"]
                steps = f"{args['steps']} step{'' if args['steps'] == 1 else 's'}"
                return f"element {args['element']}: 0x{first:x} or 0x{second:x}, a chain of {steps}"
            case "StatesPosted":
                return f"{self.side(0)} posts its states between steps {args['lo']} and {args['hi']}"
            case "StateAnswered":
                return f"{self.side(1)} agrees after step {args['lo']}, not after step {args['hi']}"
            case "TrialDecided":
                return f"{' and '.join(map(self.side, sides(args['losers'])))} is wrong or late"
        return ""


def _count(found: Sequence[object], word: str) -> str:
    return f"{len(found)} {word}{'' if len(found) == 1 else 's'}"
