"""The hearing as rungs: votes, verdict, appeal, and what becomes of a verdict that was overruled."""

from __future__ import annotations

from typing import Any

from referee_py.errors import InvalidEncoding
from referee_py.program import Structure

from .rung_maker import RungMaker
from .rungs import Rung
from .text import moment


class HearingRungs(RungMaker):
    """Takes the panel's events."""

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
        rung = self._rung(Rung("hearing", "Hearing", page="element"))
        rung.pairs.append(("record", *args["submission"].records))
        if args["until"]:
            rung.lead = "The job's verifiers execute this one operator, and sign the right record."
            rung.facts.append(("votes until", moment(args["until"])))
        else:
            rung.lead = "The job names no verifiers: the court judges one step of one element."
        self._say(rung, f"the operator is before the {'panel' if args['until'] else 'court'}")

    def _hearing(self) -> Rung:
        return next(rung for rung in reversed(self.rungs) if rung.kind in ("hearing", "verdict", "appeal"))

    def _on_attested(self, args: dict[str, Any]) -> None:
        who = self._name(args["verifier"])
        rung = self._hearing()
        self._say(rung)
        rung.facts.append((who, f"signs {self._whose(args['record'])}"))

    def _on_verdict_reached(self, args: dict[str, Any]) -> None:
        rung = self._rung(Rung("verdict", "Verdict"))
        rung.lead = f"The verifiers say that {self._whose(args['record'])} is right."
        rung.facts.append(("stands, unless somebody appeals, from", moment(args["until"])))
        self._say(rung, f"verdict: {self._whose(args['record'])} is right")

    def _on_appealed(self, args: dict[str, Any]) -> None:
        rung = self._rung(Rung("appeal", "Appeal"))
        who = self._name(args["appellant"])
        rung.lead = (
            f"{who[0].upper()}{who[1:]} does not accept the verdict, and has the court judge, for a bond."
        )
        self._say(rung)

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

    def _on_slashed(self, _: dict[str, Any]) -> None:
        self._say(self.rungs[-1])

    _on_stood = _on_cleared = _on_slashed
