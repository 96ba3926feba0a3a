"""Products and copies of views equal those of contiguous arrays, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from repops.host import cpu
from repops.host.library import BEST_ISA
from repops.host.memory import address_of
from repops.host.strided import Matrices, copy, product
from repops.opset import BF16, F32, Dtype, DtypeError, ShapeError
from repops.random_calls import SPECIAL_F32
from repops.sums import SumMode
from repops.tensors import NUMPY_DTYPE, canonical


def _strides(array: np.ndarray) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


@pytest.mark.parametrize(
    "dtypes",
    [
        *((F32, F32, F32), (BF16, BF16, BF16)),
        *((BF16, BF16, F32), (BF16, F32, F32), (F32, BF16, F32), (F32, BF16, BF16)),
    ],
    ids=lambda dtypes: "-".join(dtype.name for dtype in dtypes),
)
@pytest.mark.parametrize("seed", range(40))
def test_product_of_views_equals_bmm_of_copies(seed: int, dtypes: tuple[Dtype, Dtype, Dtype]) -> None:
    draw = np.random.default_rng(seed)
    batch = tuple(draw.integers(1, 4, draw.integers(0, 4)).tolist())
    m, k, n = draw.integers(1, 40, 3).tolist() if seed % 4 else draw.integers(1, 600, 3).tolist()

    def view(rows: int, columns: int, dtype: Dtype) -> np.ndarray:
        """Return a view of a larger array, with dimensions in any order."""
        shape = (*batch, rows, columns)
        order = draw.permutation(len(shape))
        whole = draw.standard_normal([shape[d] + 2 for d in order], np.float32).astype(NUMPY_DTYPE[dtype])
        inside = whole[tuple(slice(1, 1 + shape[d]) for d in order)]
        return inside.transpose(np.argsort(order))

    a, b = view(m, k, dtypes[0]), view(k, n, dtypes[1])
    out = np.full((*batch, m, n), np.nan, NUMPY_DTYPE[dtypes[2]])
    lies = zip(map(_strides, (a, b, out)), dtypes, strict=True)
    operands = [Matrices(s[:-2], s[-2], s[-1], dtype) for s, dtype in lies]
    addresses = [array.__array_interface__["data"][0] for array in (a, b, out)]
    product(batch, m, k, n, operands, addresses)(int(draw.integers(1, 4)), cpu.get_isa())
    copies = [np.ascontiguousarray(x, np.float32).reshape(-1, *x.shape[-2:]) for x in (a, b)]
    expected = cpu.execute("bmm", copies, {})[0].astype(NUMPY_DTYPE[dtypes[2]])
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("isa", range(BEST_ISA + 1))
@pytest.mark.parametrize("n", [2, 15, 16, 17, 33, 80, 5000])
def test_sums_that_are_stored_as_bf16_are_rounded_as_a_cast_does(n: int, isa: int) -> None:
    """Midpoints, values beside them, subnormals, overflow, NaNs of both signs: each alone in its sum."""
    draw = np.random.default_rng(n)
    near = draw.integers(0, 1 << 16, 5000, dtype=np.uint32) << 16 | 0x8000 + draw.integers(-1, 2, 5000)
    bits = np.concatenate([SPECIAL_F32, near, draw.integers(0, 1 << 32, 5000)]).astype(np.uint32)
    one = np.ones((7, 1), np.float32)
    for at in range(0, min(bits.size - n, 40 * n) + 1, n):
        row = bits[at : at + n].view(np.float32).reshape(1, n)
        out = np.zeros((7, n), NUMPY_DTYPE[BF16])
        operands = [Matrices((), x.shape[1], 1, kind) for x, kind in ((one, F32), (row, F32), (out, BF16))]
        product((), 7, 1, n, operands, [address_of(x) for x in (one, row, out)])(1, isa)
        (wanted,) = cpu.execute("cast", cpu.execute("mm", [one, row], {}), {"dtype": BF16})
        assert canonical(out).tobytes() == canonical(wanted).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
@pytest.mark.parametrize("seed", range(10))
def test_copy_of_a_view(seed: int, dtype: type[np.generic]) -> None:
    draw = np.random.default_rng(seed)
    whole = draw.integers(0, 2, (7, 5, 33, 40)).astype(dtype)
    x = whole[1:6, :, :: int(draw.integers(1, 4)), 3:].transpose(draw.permutation(4))
    if seed % 2:
        x = np.broadcast_to(x[:, :1], x.shape)
    out = np.empty(x.shape, dtype)
    copy(x.shape, _strides(x), x.itemsize, [x.__array_interface__["data"][0], address_of(out)])(2, 0)
    np.testing.assert_array_equal(out, x)


def test_limits() -> None:
    plain = Matrices((1,) * 6, 1, 1, F32)
    with pytest.raises(ShapeError, match="loops"):
        product((1,) * 6, 1, 1, 1, [plain] * 3, [0, 0, 0])
    with pytest.raises(DtypeError, match="several dtypes"):
        product(
            (), 1, 1, 1, [Matrices((), 1, 1, dtype) for dtype in (F32, BF16, F32)], [0, 0, 0], SumMode.EXACT
        )
    with pytest.raises(ShapeError, match="dimensions"):
        copy((1,) * 9, (1,) * 9, 4, [0, 0])
