"""The executor of a program in the mode rounded-f64, node by node; it replaces `repops.backend(...)`.

moved        as in repops-f32
single       one operation in binary64, then rounded; at 32 bits this is the result of repops-f32, because rounding
             twice is innocuous from 53 bits to 24 (Figueroa 1995: 53 >= 2 * 24 + 2)
functions    at 32 bits those of repops, which are correctly rounded and need no log
all others   in binary64 by the evaluator's library, then rounded as the step's log says; if the source has no log of
             the step, this run writes it

Between nodes, values stay in the evaluator's memory: in arrays, or in tensors on its device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, overload

from repops.host import cpu
from repops.opset import Arithmetic

from ..commit import NO_LOG
from ..commit.tensor import Array
from ..device import Device
from ..params import MAX_BITS
from ..program.mode import Bounds, Form, Rounding
from .environment import sound
from .evaluate import arithmetic, has_log
from .follow import follow, write
from .log_source import LogSource
from .narrow import as_bf16, as_f32, is_bf16
from .primitives import FIXED_TAU
from .rounded_output import Evaluated
from .step_log import NodeLog, StepLog
from .thresholds import Thresholds, fixed, terms_by_shape

Attrs = Mapping[str, Any]
OnForged = Callable[[int, int, int], None]
"""Called with step, node, and the first element whose entry no honest trainer has written."""


class Evaluator(Protocol):
    """A library that computes in binary64, within the bounds of docs/rounding-logs.md.

    With a device, operands and results are tensors on it; else they are arrays. An evaluation is valid until the next
    one. Every call is made inside `sound`, so the calling thread follows IEEE-754.
    """

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> Device | None: ...

    def check(self) -> None:
        """Raise Disturbed if one of the evaluator's own threads deviates from IEEE-754."""
        ...

    def evaluate(self, name: str, inputs: Sequence[Any], attrs: Attrs, bounds: Bounds) -> Evaluated:
        """Evaluate an operator that has a log. Raises InvalidInput for any other."""
        ...

    def product(self, a: Any, b: Any, bounds: Bounds) -> Evaluated:
        """Multiply [..., M, K] and [..., K, N], f32 with contiguous rows or columns, like `mm` and `bmm`."""
        ...

    def single(self, name: str, inputs: Sequence[Any], bits: int) -> Any:
        """Compute one IEEE-754 operation in binary64, rounded to f32 on the grid."""
        ...


class Rounded:
    """Executes the nodes of one step after another, and keeps their logs. Two threads must not use one object."""

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
        """Elements, in all steps, that the log rounds otherwise than the own value (`rev` in the paper)."""
        self._on_forged = on_forged
        self._thresholds = thresholds
        self._asked = threading.local()
        self._step = 0
        self._given: StepLog | None = None
        self._written: dict[int, NodeLog] = {}

    def begin(self, step: int) -> None:
        """Begin a step. Raises Unavailable if it must follow a log that is missing, Disturbed as `Evaluator.check`."""
        # NOTE: a library's threads inherit the starting thread's registers, as they are then. Threads started inside
        # `sound` are right. So the evaluator is checked once, and again if this thread's registers had changed.
        with sound(f"the evaluator {self.evaluator.name}") as inside:
            if not inside.found or not hasattr(self._asked, "once"):
                self._check()
                self._asked.once = True
        self._step, self._given, self._written = step, self.log_source.get(step), {}

    def _check(self) -> None:
        self.evaluator.check()

    def execute(self, node: int, name: str, inputs: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
        """Return the outputs of a node of the current step, from arrays or from tensors of the device."""
        bits = self.rounding.bits
        if has_log(name, inputs, attrs, bits):
            given = list(map(as_f32, inputs))
            evaluation = self.evaluate(name, given, attrs)
            if not any(map(is_bf16, inputs)):
                return [self.round(node, name, given, attrs, evaluation)]
            return [as_bf16(self.round(node, name, given, attrs, evaluation, rounding=self.rounding.of_bf16))]
        if (bits < MAX_BITS or name == "cast") and arithmetic(name, inputs, attrs) is Arithmetic.SINGLE:
            with sound(f"the evaluator {self.evaluator.name}"):
                return [self.evaluator.single(name, inputs, bits)]
        return (self.device or cpu).execute(name, inputs, attrs)

    def evaluate(self, name: str, inputs: Sequence[Any], attrs: Attrs) -> Evaluated:
        """Evaluate an operator that has a log. The caller must round the result at once. Raises Disturbed."""
        with sound(f"the evaluator {self.evaluator.name}"):
            return self.evaluator.evaluate(name, inputs, attrs, self.rounding.bounds)

    def product(self, a: Array, b: Array) -> Evaluated:
        """Evaluate a product of matrices with contiguous rows or columns, under the same conditions."""
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
        rounding: Rounding | None = None,
    ) -> Any:
        """Return the rounded evaluation of a node, f32; in `out` if given, which only arrays permit. `rounding` is
        another one than the program's."""
        with sound("rounding"):
            return self._round(node, name, inputs, attrs, evaluation, out, rounding or self.rounding)

    def _round(
        self,
        node: int,
        name: str,
        inputs: Sequence[Any],
        attrs: Attrs,
        evaluation: Evaluated,
        out: Array | None,
        rounding: Rounding,
    ) -> Any:
        device = self.device
        if self._given is None:
            tau = self._tau(name, inputs, attrs)
            # NOTE: operands on a device stay there; a log may then have entries that nobody needs.
            at_hand = inputs if device is None else None
            values, log = write(name, at_hand, attrs, evaluation, rounding, out, tau)
            if log.count:
                self._written[node] = NodeLog.of(log, self.rounding.form)
            return values
        log = self._given.entries(node, evaluation.elements)
        operands = inputs if device is None else Operands([partial(device.read, tensor) for tensor in inputs])
        followed = follow(name, operands, attrs, evaluation, log, rounding, out)
        self.corrections += followed.corrections
        if followed.forged is not None and self._on_forged:
            self._on_forged(self._step, node, followed.forged)
        return followed.values

    def _tau(self, name: str, inputs: Sequence[Any], attrs: Attrs) -> float:
        if self.rounding.form == Form.SPARSE:
            return FIXED_TAU  # not used
        return self._thresholds(self.rounding.bits, name, terms_by_shape(name, inputs, attrs))

    def log(self, node: int) -> bytes:
        """Return the log hash of an executed node: of the given log, even if it is ignored, or of the written one."""
        if self._given is not None:
            return self._given.digest(node)
        written = self._written.get(node)
        return NO_LOG if written is None else written.digest

    def end(self) -> None:
        """End the step after all nodes: a log that was written is put into the source."""
        if self._given is None:
            self.log_source.put(self._step, StepLog(dict(sorted(self._written.items()))))


class Operands(Sequence[Array]):
    """Operands that are made on access. Only exact decisions access them, which are rare."""

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
