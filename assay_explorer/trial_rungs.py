"""A trial as rungs: from an output's data down to one element, and to one step of its chain."""

from __future__ import annotations

from typing import Any

from referee_py.element import Entry
from referee_py.trial.rules import leaf_count as data_leaves
from referee_py.walk.sides import sides
from trainer_node.ids import side_of

from .rung_maker import RungMaker
from .rungs import Found, Rung, Strip
from .text import plural


class TrialRungs(RungMaker):
    """Takes the court's events; ``trial`` is the number of the trial in this dispute."""

    def _on_output_shown(self, args: dict[str, Any], trial: int) -> None:
        rung, side = self._trials[trial], args["side"]
        self._say(rung)
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

    def _on_nodes_revealed(self, _: dict[str, Any], trial: int) -> None:
        self._say(self._trials[trial])

    _on_leaf_shown = _on_nodes_revealed

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
        self._say(rung)
        entry = Entry(args["entry"].kind, args["entry"].written)
        known = self.found
        if trial == max(self._trials):
            self.found = Found(
                *(known.step, known.node, known.output, element, tuple(args["values"]), entry),
                0,
                steps,
                steps,
            )

    def _on_states_posted(self, _: dict[str, Any], trial: int) -> None:
        self._say(self._element[trial])

    def _on_state_answered(self, args: dict[str, Any], trial: int) -> None:
        rung, lo, hi = self._element[trial], args["lo"], args["hi"]
        assert rung.strip is not None
        rung.strip.lo, rung.strip.hi = lo, max(hi - 1, lo)
        self._say(rung)
        if trial == max(self._trials):
            known = self.found
            self.found = Found(
                *(known.step, known.node, known.output, known.element, known.values, known.entry),
                *(lo, hi, known.steps),
            )

    def _on_trial_decided(self, args: dict[str, Any], trial: int) -> None:
        rung = self._element.get(trial, self._trials[trial])
        lost = tuple(sides(args["losers"]))
        who = " and ".join(map(side_of, lost))
        strip = rung.strip
        judged = strip is not None and strip.found and rung.kind == "element"
        if judged and strip is not None:
            outcome = f"computes step {strip.lo + 1} itself: {who} {'is' if len(lost) == 1 else 'are'} wrong"
            rung.lead = (
                f"Of the {plural(strip.count, 'step')} of this number, the sides part at step {strip.lo + 1}. "
                "The contract computes this one step itself, with floating point in Solidity."
            )
        else:
            # NOTE: who was silent is not shown wrong, and the event does not say who was.
            outcome = f"decides: {who} {'loses' if len(lost) == 1 else 'lose'} the trial"
        rung.facts.append(("the court", outcome))
        self._say(rung, f"the court {outcome}")
