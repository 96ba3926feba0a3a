"""The match as rungs: from the run roots down to one operator, and the referee's decision."""

from __future__ import annotations

from typing import Any

from referee_py.game.state import Phase
from referee_py.program.terms import leaf_count
from referee_py.walk.reason import Reason
from referee_py.walk.sides import sides
from trainer_node.client.dispute_words import case_words
from trainer_node.ids import side_of

from .rung_maker import RungMaker
from .rungs import Found, Rung, Strip
from .text import plural, several


class MatchRungs(RungMaker):
    """Takes the referee's events."""

    def _on_opened(self, args: dict[str, Any]) -> None:
        first, second = (
            f"{self._name(who)} ({side_of(k)})" for k, who in enumerate(args["matchTerms"].players)
        )
        steps = self._terms.steps
        if self._case.refuter is None:
            lead = f"Two results of the same {several(steps, 'training step')} are claimed. They differ."
        else:
            lead = (
                f"A result of {plural(steps, 'training step')} is claimed, and one checkpoint of it refuted."
            )
        rung = self._rung(Rung("run", "Run", lead))
        rung.pairs.append(("run root", *self._roots))
        self._say(rung, f"the referee opens the dispute: {first} against {second}")

    def _on_entered(self, args: dict[str, Any]) -> None:
        start, end, level = args["start"], args["end"], args["level"]
        strides = self._terms.strides
        if args["phase"] == Phase.REFINE:
            self.rungs[-1].lead = (
                f"The first difference is in steps {start + 1} to {end}; before them both sides agree. "
                "Both have to commit to these steps more finely."
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
        rung.facts.append(("checkpoints", f"{count}, one {each}" if count > 1 else f"1, after step {end}"))
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
            f"Step {step} is the first step that differs. It consists of {plural(count, 'operator')}, "
            f"{'each ' if count > 1 else ''}with a record of its inputs and outputs."
        )
        self._roots = self._nodes
        self.found = Found(step=step)

    def _enter_operator(self, args: dict[str, Any]) -> None:
        node = self.rungs[-1].strip.lo if self.rungs[-1].strip else 0
        self.found = Found(step=args["end"], node=node)
        rung = self._rung(Rung("operator", f"Operator {node}", page="operator"))
        rung.pairs.append(("record", *self._nodes))
        rung.lead = f"Operator {node} is the first one whose record differs. Each side has to open its own."

    def _on_revealed(self, _: dict[str, Any]) -> None:
        self._say(self.rungs[-1])

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
        self._say(self.rungs[-1])

    def _on_record_opened(self, args: dict[str, Any]) -> None:
        self._say(self.rungs[-1])
        self._records[args["side"]] = args["record"]
        self._compare_records(self.rungs[-1])

    def _on_decided(self, args: dict[str, Any]) -> None:
        self.reason, self.losers = Reason(args["reason"]), tuple(sides(args["losers"]))
        if self.rungs[-1].kind == "operator":
            self._compare_records(self.rungs[-1])
        word, what = case_words(self.reason, self.losers)
        rung = self._rung(Rung("decision", f"Decision · {word}", f"{what[0].upper()}{what[1:]}."))
        for side in (0, 1):
            who = self._name(self._case.match.terms.players[side])
            rung.facts.append((f"{side_of(side)}, {who}", "loses" if side in self.losers else "wins"))
        self._say(rung, "the referee decides")
