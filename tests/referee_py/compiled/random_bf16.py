"""Random programs in bf16 and f32: casts both ways, views before and after them, products of what they give."""

from __future__ import annotations

from typing import Any

from repops.opset import BF16, F32, Shape

from referee_py.commit.tensor import Array
from tests.kernels.fuse.fused import SPECIAL

from .random_program import RandomProgram, Value


class RandomBf16(RandomProgram):
    """A RandomProgram of two precisions, with special values."""

    def _tensor(self, dtype: Any, shape: Shape) -> Array:
        values = super()._tensor(dtype, shape)
        if dtype == F32 and values.size and self.draw.random() < 0.3:
            count = max(1, values.size // 10)
            values.reshape(-1)[self.draw.integers(0, values.size, count)] = self.draw.choice(SPECIAL, count)
        return values

    def _grow(self) -> None:
        kind = self.draw.random()
        narrow = self.pick(BF16)
        if narrow is None or kind < 0.15:
            self._cast(self.pick(F32), BF16)
        elif kind < 0.3:
            self._cast(self._view(narrow), F32)
        elif kind < 0.4:
            self._view(narrow)
        elif kind < 0.6:
            self._product(narrow)
        else:
            super()._grow()

    def _cast(self, x: Value | None, dtype: object) -> Value | None:
        return self.add("cast", x, dtype=dtype) if x is not None else None

    def _view(self, x: Value) -> Value:
        """Return the value, or a view of it."""
        shape = x[1][1]
        match int(self.draw.integers(4)):
            case 0:
                return (
                    self.add("permute", x, dims=tuple(int(d) for d in self.draw.permutation(len(shape)))) or x
                )
            case 1:
                return self.add("reshape", x, shape=self._other(shape)) or x
            case 2 if shape:
                dim = int(self.draw.integers(len(shape)))
                start = int(self.draw.integers(2))
                return self.add("slice", x, dim=dim, start=start, stop=shape[dim], step=1) or x
        return x

    def _product(self, x: Value) -> None:
        """Multiply widened matrices, or a widened one and one of f32, or matrices of bf16."""
        rank = len(x[1][1])
        if rank not in (2, 3):
            return
        order = (*range(rank - 2), rank - 1, rank - 2)
        turned = self.add("permute", x, dims=order)
        match int(self.draw.integers(4)):
            case 0:
                a, b = self._cast(x, F32), self._cast(turned, F32)
            case 1:
                a = self._cast(x, F32)
                b = a and self.add("permute", a, dims=order)
            case 2:
                a, wide = self._cast(x, F32), self._cast(turned, F32)
                b = wide and self.add("mul", wide, self.full(0.5))
            case _:
                a, b = x, turned
        if a and b:
            self.add("mm" if rank == 2 else "bmm", *((a, b) if self.draw.random() < 0.5 else (b, a)))
