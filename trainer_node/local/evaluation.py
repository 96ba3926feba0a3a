"""Evaluates the state of a run by another program: its slots take the tensors of the same names.

The program is fixed and the state has the same bits everywhere, so the result has, too.
"""

from __future__ import annotations

from referee_py.errors import InvalidInput
from referee_py.execute import Run, State
from referee_py.program import TensorType
from referee_py.program.modes import USUAL

from ..run.modes import backend_of
from .bundle import Bundle
from .local_run import scalars

PREFIX = "eval."


class Evaluation:
    """The program of ``bundle`` on states of ``training``. The labels of both name slots and constants."""

    def __init__(self, bundle: Bundle, training: Bundle, device: str = "cpu") -> None:
        """Raises InvalidInput if the programs have no slot in common, or tensors of other types under one name."""
        terms = bundle.terms
        if not terms.arithmetic.same_everywhere:
            raise InvalidInput(
                f"{bundle.name} is in {terms.arithmetic.name}, whose results depend on the machine; build it in "
                f"{USUAL.name}"
            )
        self._bundle = bundle
        slots = {name: place for place, name in enumerate(training.names.slots)}
        fixed = dict(zip(training.names.constants, training.constants, strict=False))
        self._start = list(bundle.initial)
        self._taken: list[tuple[int, int]] = []
        left: list[str] = []
        for place, name in enumerate(bundle.names.slots):
            given = training.initial[slots[name]] if name in slots else fixed.get(name)
            if given is None:
                left.append(name)
                continue
            if TensorType.of(given) != TensorType.of(self._start[place]):
                raise InvalidInput(
                    f"{name} is {TensorType.of(given)} in {training.name} and {TensorType.of(self._start[place])} in "
                    f"{bundle.name}; build both with the same module"
                )
            self._start[place] = given
            if name in slots:
                self._taken.append((place, slots[name]))
        if not self._taken:
            raise InvalidInput(
                f"no slot of {bundle.name} is named like one of {training.name}; build both with the same module"
            )
        for name in left:
            self._check_left(name, bundle, training)
        if not bundle.metrics:
            raise InvalidInput(
                f"{bundle.name} names no metric, so there is nothing to report; build it again"
            )
        self._run = Run.of(bundle, backend_of(device, terms.mode), metrics=bundle.metrics)

    @staticmethod
    def _check_left(name: str, bundle: Bundle, training: Bundle) -> None:
        """Raise InvalidInput for a tensor of the module that keeps its own value though training has others.

        NOTE: a frozen tensor that is equal to another, or not read, is not a constant of the training under its name.
        """
        kind, _, tensor = name.partition(".")
        trained = {other for other in training.names.slots if other.startswith(("param.", "buffer."))}
        if kind == "param" or (kind == "frozen" and f"param.{tensor}" in trained):
            raise InvalidInput(
                f"{name} of {bundle.name} is not trained by {training.name}, which would leave it as it was; build "
                "both with the same module, with the same parameters frozen"
            )

    def of(self, state: State) -> dict[str, float]:
        """Return the metrics of the program's last step when it starts from this state; names begin with `eval.`."""
        arrays, start = state.arrays, list(self._start)
        for place, source in self._taken:
            start[place] = arrays[source]
        self._run.advance(State.of(0, start), self._bundle.terms.steps)
        return {PREFIX + name: value for name, value in scalars(self._run.latest).items()}
