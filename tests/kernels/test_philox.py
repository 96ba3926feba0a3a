"""philox against the test vectors of its authors, and the layout of counters."""

import numpy as np
import pytest
import repops
from repops.opset import F32, I64, AttrError, DtypeError, ShapeError, lookup
from repops.reference.random import block

ONES = 0xFFFFFFFF
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # known answers of Random123 1.09, kat_vectors
        ((0,) * 4, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (*PI, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ],
)
def test_known_answers(counter, key, words):
    assert block(counter, key) == words


def draw(seed, step, shape, dtype=I64, site=0):
    scalars = [np.array(value, np.int64) for value in (seed, step)]
    return repops.philox(*scalars, shape=shape, dtype=dtype, site=site)


def test_known_answer_through_the_kernel():
    (_, _, low, high), (k0, k1) = PI
    seed, step = (
        int.from_bytes(a.to_bytes(4, "little") + b.to_bytes(4, "little"), "little", signed=True)
        for a, b in ((k0, k1), (low, high))
    )
    want = block((3, 7 << 8, low, high), (k0, k1))
    assert tuple(draw(seed, step, (4, 4), site=7)[3].tolist()) == want


def test_uniform_is_the_high_24_bits_of_the_word():
    words, uniform = draw(5, 6, (1001,)), draw(5, 6, (1001,), F32)
    assert np.array_equal(uniform, (words >> 8).astype(np.float32) / np.float32(2**24))
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(draw(5, 6, (100_000,), F32).mean() - 0.5) < 0.005


def test_seed_step_and_site_each_matter_and_shape_does_not():
    base = draw(1, 2, (64,), site=3)
    for other in (draw(2, 2, (64,), site=3), draw(1, 3, (64,), site=3), draw(1, 2, (64,), site=4)):
        assert not np.any(base == other)
    assert np.array_equal(base, draw(1, 2, (4, 16), site=3).ravel())
    assert np.array_equal(base[:37], draw(1, 2, (37,), site=3))


@pytest.mark.parametrize(
    ("error", "inputs", "attrs"),
    [
        (ShapeError, [(I64, (1,)), (I64, ())], {"shape": (), "dtype": F32, "site": 0}),
        (DtypeError, [(F32, ()), (I64, ())], {"shape": (), "dtype": F32, "site": 0}),
        (DtypeError, [(I64, ()), (I64, ())], {"shape": (), "dtype": 3, "site": 0}),
        (AttrError, [(I64, ()), (I64, ())], {"shape": (), "dtype": F32, "site": 1 << 24}),
    ],
)
def test_refusals(error, inputs, attrs):
    with pytest.raises(error):
        lookup("philox").infer(inputs, attrs)
