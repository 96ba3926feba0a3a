"""What executes a program in the mode rounded-f64, node by node: takes the place of `repops.backend(...)`.

moved        as in repops-f32
single       one operation in binary64, then rounded; at 32 bits that is repops-f32's own result, because rounding
             twice is innocuous from 53 bits to 24 (Figueroa 1995: 53 >= 2 * 24 + 2)
functions    at 32 bits repops' own, which are correctly rounded and need no log
all else     in binary64 by whatever library the evaluator has, then rounded as the step's log says; if the source
             has no log of the step it is written now

Values lie where the evaluator has them: in arrays, or in tensors on its device, between one node and the next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, overload

from repops import cpu

from ..commit import NO_LOG
from ..commit.tensor import Array
from .environment import sound
from .evaluate import Kind, has_log, kind
from .follow import follow, write
from .log_source import LogSource
from .mode import Bounds, Form, Rounding
from .primitives import FIXED_TAU, MAX_BITS
from .rounded_output import Evaluated
from .step_log import NodeLog, StepLog
from .thresholds import Thresholds, fixed, terms_by_shape

if TYPE_CHECKING:
    from ..execute.values import Device

Attrs = Mapping[str, Any]
OnForged = Callable[[int, int, int], None]
"""Told step, node, and the first element whose entry no honest trainer has written."""


class Evaluator(Protocol):
    """A library that computes in binary64, within the bounds of docs/rounding-logs.md.

    With a device, operands and results are its tensors; else they are arrays. An evaluation is good until the next one
    is asked for. It is asked inside `sound`, so the calling thread computes as IEEE-754 says.
    """

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> Device | None: ...

    def check(self) -> None:
        """Raises Disturbed if a thread of its own computes otherwise than IEEE-754."""
        ...

    def evaluate(self, name: str, inputs: Sequence[Any], attrs: Attrs, bounds: Bounds) -> Evaluated:
        """One evaluation of an operator that has a log. Raises InvalidInput for any other."""
        ...

    def product(self, a: Any, b: Any, bounds: Bounds) -> Evaluated:
        """[..., M, K] times [..., K, N], f32 matrices with contiguous rows or columns, as `mm` and `bmm` do it."""
        ...

    def single(self, name: str, inputs: Sequence[Any], bits: int) -> Any:
        """One IEEE-754 operation in binary64, rounded: f32."""
        ...


class Rounded:
    """Executes the nodes of one step after another, and keeps their logs. Not for two threads at once."""

    name = "rounded-f64"

    def __init__(
        self,
        rounding: Rounding,
        log_source: LogSource,
        evaluator: Evaluator,
        on_forged: OnForged | None = None,
        thresholds: Thresholds = fixed,
    ) -> None:
        self.rounding = rounding
        self.log_source = log_source
        self.evaluator = evaluator
        self.device = evaluator.device
        self.corrections = 0
        """Elements, of all steps, that the log rounded otherwise than our own value (the paper's `rev`)."""
        self._on_forged = on_forged
        self._thresholds = thresholds
        self._asked = threading.local()
        self._step = 0
        self._given: StepLog | None = None
        self._written: dict[int, NodeLog] = {}

    def begin(self, step: int) -> None:
        """Raises Unavailable if the step's log is to be followed and cannot be had, Disturbed as `Evaluator.check`."""
        # NOTE: a library's threads have the registers of the thread that started them, as they were then. Ours starts
        # them inside `sound`, if they were not there before; so they are asked once, and if something was set since.
        with sound(f"the evaluator {self.evaluator.name}") as inside:
            if not inside.found or not hasattr(self._asked, "once"):
                self._check()
                self._asked.once = True
        self._step, self._given, self._written = step, self.log_source.get(step), {}

    def _check(self) -> None:
        self.evaluator.check()

    def execute(self, node: int, name: str, inputs: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
        """The outputs of a node of the step that was begun, from arrays, or from tensors of the device."""
        bits = self.rounding.bits
        if has_log(name, inputs, attrs, bits):
            return [self.round(node, name, inputs, attrs, self.evaluate(name, inputs, attrs))]
        if (bits < MAX_BITS or name == "cast") and kind(name, inputs, attrs) is Kind.SINGLE:
            with sound(f"the evaluator {self.evaluator.name}"):
                return [self.evaluator.single(name, inputs, bits)]
        return (self.device or cpu).execute(name, inputs, attrs)

    def evaluate(self, name: str, inputs: Sequence[Any], attrs: Attrs) -> Evaluated:
        """By the evaluator, of an operator that has a log; to be rounded at once. Raises Disturbed."""
        with sound(f"the evaluator {self.evaluator.name}"):
            return self.evaluator.evaluate(name, inputs, attrs, self.rounding.bounds)

    def product(self, a: Array, b: Array) -> Evaluated:
        """The same of matrices with contiguous rows or columns."""
        with sound(f"the evaluator {self.evaluator.name}"):
            return self.evaluator.product(a, b, self.rounding.bounds)

    def round(
        self,
        node: int,
        name: str,
        inputs: Sequence[Any],
        attrs: Attrs,
        evaluation: Evaluated,
        out: Array | None = None,
    ) -> Any:
        """What the evaluation of a node is rounded to: in `out`, if it is given, which only arrays may be."""
        with sound("rounding"):
            return self._round(node, name, inputs, attrs, evaluation, out)

    def _round(
        self,
        node: int,
        name: str,
        inputs: Sequence[Any],
        attrs: Attrs,
        evaluation: Evaluated,
        out: Array | None,
    ) -> Any:
        device = self.device
        if self._given is None:
            tau = self._tau(name, inputs, attrs)
            # NOTE: operands on a device stay there; a log may have entries that nobody needs.
            at_hand = inputs if device is None else None
            values, log = write(name, at_hand, attrs, evaluation, self.rounding, out, tau)
            if log.count:
                self._written[node] = NodeLog.of(log, self.rounding.form)
            return values
        log = self._given.entries(node, evaluation.elements)
        operands = inputs if device is None else Operands([partial(device.read, tensor) for tensor in inputs])
        followed = follow(name, operands, attrs, evaluation, log, self.rounding, out)
        self.corrections += followed.corrections
        if followed.forged is not None and self._on_forged:
            self._on_forged(self._step, node, followed.forged)
        return followed.values

    def _tau(self, name: str, inputs: Sequence[Any], attrs: Attrs) -> float:
        if self.rounding.form == Form.SPARSE:
            return FIXED_TAU  # and not used
        return self._thresholds(self.rounding.bits, name, terms_by_shape(name, inputs, attrs))

    def log(self, node: int) -> bytes:
        """The log hash of a node that was executed: of what was committed to, whatever it says."""
        if self._given is not None:
            return self._given.digest(node)
        written = self._written.get(node)
        return NO_LOG if written is None else written.digest

    def end(self) -> None:
        """All nodes were executed: what was written is kept."""
        if self._given is None:
            self.log_source.put(self._step, StepLog(dict(sorted(self._written.items()))))


class Operands(Sequence[Array]):
    """Operands that are made when they are looked at: what is decided exactly looks at them, and it seldom is."""

    def __init__(self, make: Sequence[Callable[[], Array]]) -> None:
        self._make = make
        self._made: dict[int, Array] = {}

    def __len__(self) -> int:
        return len(self._make)

    @overload
    def __getitem__(self, index: int) -> Array: ...

    @overload
    def __getitem__(self, index: slice) -> list[Array]: ...

    def __getitem__(self, index: int | slice) -> Array | list[Array]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index not in self._made:
            self._made[index] = self._make[index]()
        return self._made[index]
