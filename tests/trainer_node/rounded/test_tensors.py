"""The primitives and the search on tensors give the same bits as on arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from repops.f64.rounding import round_all, round_to_grid

from referee_py.errors import InvalidInput
from referee_py.rounding import FIXED_TAU, primitives, thresholds
from referee_py.rounding.primitives import F64
from trainer_node.rounded import tensors

from .places import PLACES

BITS = range(26, 33)
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 1e-310, 2.0**-1022, 2.0**1023, 1.7e308]

pytestmark = pytest.mark.parametrize("place", PLACES)


def hard(b: int, count: int) -> F64:
    """Return random bits; midpoints of grid(b) and their neighbours in all binades, including subnormals and overflow;
    the neighbours of powers of two; zeros, infinities, and NaN with and without payload.
    """
    rng = np.random.default_rng(b)
    bits = rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    odd = (2 * rng.integers(2 ** (b - 9), 2 ** (b - 8), count) + 1).astype(np.float64)
    few = (2 * rng.integers(0, 64, count) + 1).astype(np.float64)  # down towards zero
    midpoints = [np.ldexp(odd, rng.integers(-170, 110, count)), np.ldexp(few, -150 + (32 - b))]
    powers = np.ldexp(1.0, rng.integers(-1074, 1024, count))
    overflow = np.full(8, 2.0**128 - 2.0 ** (135 - b))
    ends = [2.0**128, 2.0**128 - 2.0 ** (136 - b), 2.0**-126, 2.0**-149, 2.0**-150]
    exact = np.concatenate([*midpoints, powers, overflow, ends])
    near = np.concatenate([exact, np.nextafter(exact, 0), np.nextafter(exact, np.inf)])
    nans = np.array([0x7FF0000000000001, 0xFFF8000000000123, 0xFFF4000000000000], np.uint64).view(np.float64)
    return np.concatenate([bits, near, -near, np.array(SPECIAL), nans])


def same_bits(a: np.ndarray, b: torch.Tensor) -> bool:
    found = b.cpu().numpy()
    return (a.dtype, a.shape) == (found.dtype, found.shape) and a.tobytes() == found.tobytes()


@pytest.mark.parametrize("b", BITS)
def test_primitives_have_the_bits_of_those_on_arrays(b: int, place: str) -> None:
    x = hard(b, 20_000)
    there = torch.from_numpy(x).to(place)
    assert same_bits(primitives.scale(x), tensors.scale(there))
    assert same_bits(primitives.quantum(x, b), tensors.quantum(there, b))
    assert same_bits(primitives.rnd(x, b), tensors.rnd(there, b))
    assert same_bits(round_all(x, b), tensors.as_f32(tensors.rnd(there, b)))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (2, 3)])
def test_any_shape_stays_what_it_is(shape: tuple[int, ...], place: str) -> None:
    x = np.full(shape, 1 + 2.0**-24)
    there = torch.from_numpy(x).to(place)
    assert same_bits(primitives.rnd(x, 32), tensors.rnd(there, 32))


def test_what_is_no_input_is_refused(place: str) -> None:
    x = torch.ones(2, dtype=torch.float64, device=place)
    narrow = x.float()
    for call, words in (
        (lambda: tensors.rnd(narrow, 32), "float32"),
        (lambda: tensors.rnd(x, 25), "25"),
    ):
        with pytest.raises(InvalidInput, match=words):
            call()


def radii(x: F64, b: int) -> F64:
    """Return radii: 0, tiny, about an eighth of a quantum, several quanta, and infinite."""
    rng = np.random.default_rng(b)
    with np.errstate(over="ignore", invalid="ignore"):
        quanta = primitives.quantum(np.where(np.isfinite(x), x, 1.0), b)
        choices = np.array([0.0, 2.0**-30, 2.0**-21, 0.125, 0.1, 0.5, 1.0, 7.0, np.inf])
        found = rng.choice(choices, x.shape) * quanta
    return np.where(np.isnan(found), 0.0, found)


@pytest.mark.parametrize("b", BITS)
@pytest.mark.parametrize("widen", [1.0, 1.25])
def test_the_band_is_the_kernels(b: int, widen: float, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "BLOCK", 10_007)
    x = hard(b, 10_000)
    r = radii(x, b)
    kernel = round_to_grid(x.reshape(1, -1), np.ones(1), r, b, widen)
    found = tensors.search(torch.from_numpy(x).to(place), torch.from_numpy(r).to(place), b, widen)
    assert same_bits(kernel.values.reshape(-1), found.values)
    assert same_bits(kernel.narrow, found.narrow)
    assert same_bits(kernel.wide, found.wide)
    assert kernel.narrow.size > 5000
    assert kernel.wide.size > 5000


@pytest.mark.parametrize("b", BITS)
def test_dense_logs_speak_of_the_same_elements(b: int, place: str) -> None:
    x = hard(b, 5000)
    r, values = radii(x, b), round_all(x, b) + np.float32(0)
    there, radius, rounded = (torch.from_numpy(v).to(place) for v in (x, r, values))
    for tau in (0.0, FIXED_TAU):
        found = tensors.directed(there, rounded, radius, b, tau)
        with np.errstate(over="ignore", invalid="ignore"):
            assert same_bits(thresholds.directed(x, values, r, b, tau), found)
        assert bool(found.any())
    up = np.random.default_rng(0).random(x.shape) < 0.5
    found = tensors.doubted(there, rounded, radius, torch.from_numpy(up).to(place), b)
    with np.errstate(over="ignore", invalid="ignore"):
        assert same_bits(thresholds.doubted(x, values, r, up, b), found)
    assert 0 < int(found.sum()) < found.numel()
