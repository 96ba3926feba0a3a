"""Random programs that are mostly views: long chains, of rank 8, over dimensions of 0 and 1, read everywhere."""

from __future__ import annotations

import math

from repops.opset import F32, MAX_RANK, Shape

from .random_program import UNARY, RandomProgram, Value

CHAIN = 60
FAN_OUT = 40


class RandomViews(RandomProgram):
    """A RandomProgram that is made to cause trouble."""

    def _shapes(self, seed: int) -> tuple[list[Shape], int]:
        base: list[Shape] = [
            (2,) * MAX_RANK,
            (2, 1, 2, 3, 1, 2, 2, 1),
            (1,) * MAX_RANK,
            (1,),
            (),
            (4,) * 5,
            (2, 4, 4, 4, 4, 2),
            (3, 2, 6, 4),
            (24, 6),
        ]
        if seed % 2:
            base.append((2, 0, 3))
        return base, 1 + seed % 4

    def _grow(self) -> None:
        x = self.pick(F32)
        assert x is not None
        kind = self.draw.random()
        if kind < 0.4:
            self._chain(x)
        elif kind < 0.5:
            for _ in range(int(self.draw.integers(1, FAN_OUT))):
                self.add(str(self.draw.choice(["add", "mul"])), x, self._partner(x))
        elif kind < 0.6:
            self.add(str(self.draw.choice(UNARY)), x)
        else:
            super()._grow()

    def _chain(self, x: Value) -> None:
        """Walk over views of a value, and read some of them on the way."""
        for _ in range(int(self.draw.integers(1, CHAIN))):
            moved = self._view(x)
            if moved is None:
                continue
            x = moved
            if self.draw.random() < 0.15:
                self.add("add", x, self._partner(x))

    def _view(self, x: Value) -> Value | None:
        shape = x[1][1]
        match str(self.draw.choice(["reshape"] * 4 + ["permute"] * 4 + ["split", "expand", "slice"])):
            case "reshape":
                return self.add("reshape", x, shape=self._other(shape))
            case "permute":
                return self.add("permute", x, dims=tuple(int(d) for d in self.draw.permutation(len(shape))))
            case "split":
                return self.add("reshape", x, shape=self._split(shape))
            case "expand":
                size = int(self.draw.integers(0 if self.draw.random() < 0.02 else 1, 3))
                return self.add("expand", x, shape=(size, *shape))
        if not shape:
            return None
        dim = int(self.draw.integers(len(shape)))
        start = int(self.draw.integers(shape[dim] + 1)) if self.draw.random() < 0.3 else 0
        step = int(self.draw.integers(1, 3)) if shape[dim] > 2 else 1
        return self.add("slice", x, dim=dim, start=start, stop=shape[dim], step=step)

    def _split(self, shape: Shape) -> Shape:
        """Return as many dimensions as permitted for the same number of elements."""
        dims: list[int] = []
        left = math.prod(shape)
        while len(dims) < MAX_RANK - 1 and left > 1:
            factor = next((d for d in (2, 3) if left % d == 0), left)
            dims.append(factor)
            left //= factor
        dims.append(left)
        return tuple(int(d) for d in self.draw.permutation(dims))
