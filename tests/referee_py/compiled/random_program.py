"""Random programs: every operator that the compiler treats specially, connected at random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from repops.opset import BOOL, F32, I64, OpError, Shape, Spec, lookup

from referee_py.commit.tensor import Array
from referee_py.program import (
    Kind,
    Operand,
    Program,
    SlotSource,
    Structure,
    TensorDescriptor,
    TensorType,
)

Value = tuple[Operand, Spec]

BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "pow")
UNARY = ("neg", "exp", "tanh", "erf", "sqrt", "rsqrt", "log", "log1p", "sin", "cos")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


class RandomProgram:
    """`program`, `constants` and `initial` of a program with about `size` nodes; the same for the same seed."""

    def __init__(self, seed: int, size: int) -> None:
        self.draw = np.random.default_rng(seed)
        base, indices = self._shapes(seed)
        self.initial = [self._tensor(F32, base[int(k)]) for k in self.draw.integers(0, len(base), 5)]
        self.initial += [self.initial[0].copy(), self._tensor(I64, (indices,)), *self._more_slots()]
        self.constants = [self._tensor(F32, shape) for shape in base[:4]] + [self._tensor(BOOL, base[0])]
        self.nodes: list[Structure] = []
        self.pool: list[Value] = [(Operand(Kind.STEP), (I64, ()))]
        for kind, tensors in ((Kind.SLOT, self.initial), (Kind.CONSTANT, self.constants)):
            types = [TensorType.of(tensor) for tensor in tensors]
            self.pool += [(Operand(kind, i), (t.dtype, t.shape)) for i, t in enumerate(types)]
        while len(self.nodes) < size:
            self._grow()
        slots = tuple(self._update(slot) for slot in range(len(self.initial)))
        constants, initial = (tuple(map(TensorDescriptor.of, t)) for t in (self.constants, self.initial))
        self.program = Program(tuple(self.nodes), slots, constants, initial)

    def _more_slots(self) -> list[Array]:
        return []

    def _shapes(self, seed: int) -> tuple[list[Shape], int]:
        """Return the shapes of slots and constants, and the number of indices."""
        rows, columns, heads = (int(d) for d in self.draw.integers(1, 9, 3))
        base = [
            (rows, columns * heads),
            (heads, rows, columns),
            (columns * heads,),
            (columns * heads, rows),
            (),
        ]
        base += [(rows, heads, columns), (rows * heads, columns)]
        if seed % 4 == 1:
            base += [(3, 70), (3, 70), (70,), (3, 1)]  # more than a block of a vectorised function
        if seed % 3 == 0:
            base += [(3, 1500), (1500,)]
        if seed % 5 == 0:
            base.append((0, columns))
        return base, rows

    def _tensor(self, dtype: Any, shape: Shape) -> Array:
        if dtype == F32:
            return self.draw.standard_normal(shape, dtype=np.float32).reshape(shape)
        high = 2 if dtype == BOOL else 5
        return np.asarray(self.draw.integers(0, high, shape)).astype(np.bool_ if dtype == BOOL else np.int64)

    # ------------------------------------------------------------------------------------------------ nodes

    def add(self, name: str, *inputs: Value, **attrs: Any) -> Value | None:
        """Append a node; None if the operator refuses the inputs."""
        try:
            outputs = lookup(name).infer([spec for _, spec in inputs], attrs)
        except OpError:
            return None
        if any(math.prod(shape) > 20000 for _, shape in outputs):
            return None
        types = [TensorType(*spec) for spec in outputs]
        self.nodes.append(Structure.make(name, [operand for operand, _ in inputs], types, **attrs))
        made = [(Operand(Kind.NODE, len(self.nodes) - 1, k), spec) for k, spec in enumerate(outputs)]
        self.pool += made
        return made[0]

    def made(self, name: str, *inputs: Value, **attrs: Any) -> Value:
        """Append a node that the operator accepts, in a program made on purpose."""
        value = self.add(name, *inputs, **attrs)
        assert value is not None
        return value

    def pick(self, dtype: Any = None, rank: int = 0) -> Value | None:
        """Return a value, preferring late ones."""
        fits = [x for x in self.pool if (dtype is None or x[1][0] == dtype) and len(x[1][1]) >= rank]
        if not fits:
            return None
        return fits[-1 - min(int(self.draw.exponential(6)), len(fits) - 1)]

    def _grow(self) -> None:
        kinds = (
            ["binary"] * 8 + ["unary"] * 4 + ["where"] * 2 + ["reduce"] * 4 + ["rows"] * 3 + ["reshape"] * 3
        )
        kinds += ["permute"] * 2 + [
            "expand",
            "slice",
            "cat",
            "mm",
            "mm",
            "bmm",
            "take",
            "full",
            "cast",
            "argmax",
        ]
        x = self.pick(F32)
        assert x is not None
        shape = x[1][1]
        match str(self.draw.choice(kinds)):
            case "binary":
                self.add(str(self.draw.choice(BINARY)), x, self._partner(x))
            case "unary":
                self.add(str(self.draw.choice(UNARY)), x)
            case "where":
                y = self._partner(x)
                chosen = self.add(str(self.draw.choice(COMPARISONS)), x, y)
                if chosen:
                    self.add("where", chosen, x, self.full(0.5))
            case "reduce":
                dims = tuple(d for d in range(len(shape)) if self.draw.random() < 0.5)
                if self.draw.random() < 0.6 and shape:
                    dims = tuple(range(int(self.draw.integers(0, len(shape))), len(shape)))
                self.add(
                    str(self.draw.choice(["sum", "amax"])), x, dims=dims, keepdim=int(self.draw.integers(2))
                )
            case "rows":
                self._rows(x)
            case "reshape":
                self.add("reshape", x, shape=self._other(shape))
            case "permute":
                self.add("permute", x, dims=tuple(int(d) for d in self.draw.permutation(len(shape))))
            case "expand":
                self.add("expand", x, shape=(int(self.draw.integers(1, 4)), *shape))
            case "slice":
                if shape:
                    dim = int(self.draw.integers(len(shape)))
                    start, stop = sorted(int(k) for k in self.draw.integers(0, shape[dim] + 1, 2))
                    self.add("slice", x, dim=dim, start=start, stop=stop, step=int(self.draw.integers(1, 3)))
            case "cat":
                self.add("cat", x, self._same(x), dim=int(self.draw.integers(max(len(shape), 1))))
            case "mm" | "bmm" as name:
                rank = 2 if name == "mm" else 3
                a = self.pick(F32, rank)
                if a and len(a[1][1]) == rank:
                    turned = self.add("permute", a, dims=(*range(rank - 2), rank - 1, rank - 2))
                    if turned:
                        self.add(name, *((a, turned) if self.draw.random() < 0.5 else (turned, a)))
            case "take":
                index = self.pick(I64)
                if index:
                    self.add("take", x, index)
            case "full":
                self.full(float(self.draw.standard_normal()), self._other(shape))
            case "cast":
                self.add("cast", self.pick() or x, dtype=F32)
            case "argmax":
                if shape:
                    self.add("argmax", x, dim=len(shape) - 1, keepdim=0)

    def full(self, value: float, shape: Shape = ()) -> Value:
        made = self.add("full", shape=shape, dtype=F32, bits=int(np.float32(value).view(np.uint32)))
        assert made
        return made

    def _partner(self, x: Value) -> Value:
        """Return a value that broadcasts with x, if there is one."""
        for _ in range(6):
            y = self.pick(F32)
            if y and self._broadcasts(x[1][1], y[1][1]):
                return y
        return self.full(1.5)

    @staticmethod
    def _broadcasts(a: Shape, b: Shape) -> bool:
        pairs = zip(reversed(a), reversed(b), strict=False)
        return all(x == y or 1 in (x, y) for x, y in pairs)

    def _same(self, x: Value) -> Value:
        same = [y for y in self.pool if y[1] == x[1]]
        return same[int(self.draw.integers(len(same)))]

    def _rows(self, x: Value) -> None:
        """Normalise rows, like softmax and layer norm."""
        shape = x[1][1]
        if not shape:
            return
        keepdim = int(self.draw.integers(2))
        if self.draw.random() < 0.3:
            x = self.add(str(self.draw.choice(UNARY)), x) or x
        total = self.add(str(self.draw.choice(["sum", "amax"])), x, dims=(len(shape) - 1,), keepdim=keepdim)
        if total and not keepdim:
            total = self.add("reshape", total, shape=(*shape[:-1], 1))
        if total and self.draw.random() < 0.3:
            self.add(str(self.draw.choice(BINARY)), *((x, total) if self.draw.random() < 0.5 else (total, x)))
            return
        scaled = total and self.add("mul", total, self.full(0.25))
        centred = scaled and self.add("sub", x, scaled)
        if centred:
            self.add("exp", centred)

    def _other(self, shape: Shape) -> Shape:
        """Return other dimensions for as many elements."""
        flat = math.prod(shape)
        if flat == 0:
            return (0, 3)
        divisors = [d for d in range(1, flat + 1) if flat % d == 0][:40]
        first = int(self.draw.choice(divisors))
        second = int(self.draw.choice([d for d in divisors if (flat // first) % d == 0]))
        shapes: list[Shape] = [
            (flat,),
            (first, flat // first),
            (first, second, flat // first // second),
            (1, flat, 1),
        ]
        return shapes[int(self.draw.integers(len(shapes)))]

    # ------------------------------------------------------------------------------------------------ slots

    def _update(self, slot: int) -> SlotSource:
        """Update a slot with a value of its type: an update of it, another slot's old value, or its own."""
        spec = TensorType.of(self.initial[slot])
        own = (Operand(Kind.SLOT, slot), (spec.dtype, spec.shape))
        fits = [x for x in self.pool if x[1] == own[1] and x[0].kind == Kind.NODE]
        choice = self.draw.random()
        if fits and choice < 0.5:
            made: tuple[Operand, Spec] | None = fits[int(self.draw.integers(len(fits)))]
        elif choice < 0.7:
            made = self.add("reshape", self._same(own), shape=spec.shape)
        else:
            half = self.full(0.5) if spec.dtype == F32 else None
            made = self.add("mul", own, half) if half else self.add("add", own, own)
        assert made
        return SlotSource(made[0].index, made[0].output)
