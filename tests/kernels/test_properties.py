"""Ten thousand calls of each family of operators, a fifth of them quick: the reference, and every instruction set on
some threads.

Most calls are tiny, because the reference is slow; tests/kernels/test_executors.py and the self-test go further.
repops/random_calls.py chooses the values (subnormals, -0, NaNs, all exponents, small integers).
"""

import numpy as np
import pytest
from repops import reference
from repops.host import cpu
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.opset import OPS
from repops.random_calls import Source, random_call
from repops.tensors import canonical

CASES, SHARDS = 10_000, 5
USUAL, LONG = 50, 1000  # one call in this many has that scale
ELEMENTARY_IDS = {9, 10, *range(12, 20)}

# Families by the ranges of ids in docs/opset.md, so that a new operator belongs to one.
FAMILIES = {
    "arithmetic": set(range(1, 20)) - ELEMENTARY_IDS,
    "elementary": ELEMENTARY_IDS,
    "comparison": range(20, 40),
    "reduction": range(40, 50),
    "product": range(50, 52),
    "convolution": range(52, 55),
    "pooling": range(55, 60),
    "rows": range(60, 70),
    "layout": range(70, 80),
    "source": range(80, 90),
}


def members(family):
    return [op.name for op in OPS if op.id in FAMILIES[family]]


def scale_of(case):
    return "long" if case % LONG == LONG - 1 else "usual" if case % USUAL == USUAL - 1 else "tiny"


def same_bits(got, want):
    return all(
        (a.dtype, a.shape) == (b.dtype, b.shape) and canonical(a).tobytes() == canonical(b).tobytes()
        for a, b in zip(got, want, strict=True)
    )


def test_every_operator_belongs_to_one_family():
    assert sorted(name for family in FAMILIES for name in members(family)) == sorted(op.name for op in OPS)


@pytest.mark.parametrize(
    "shard", [0, *(pytest.param(shard, marks=pytest.mark.slow) for shard in range(1, SHARDS))]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_any_call_has_the_reference_bits(family, shard):
    names = members(family)
    threads = Source(f"threads/{family}/{shard}")
    for case in range(shard, CASES, SHARDS):
        # The quotient selects the operator, so that each operator meets every scale.
        name, scale = names[(case // SHARDS) % len(names)], scale_of(case // SHARDS // len(names))
        inputs, attrs = random_call(name, f"property/{case}", scale)
        want = reference.execute(name, inputs, attrs)
        for isa in range(BEST_ISA + 1):
            count = threads.between(1, 4)
            got = cpu.execute(name, inputs, attrs, threads=count, isa=isa)
            assert same_bits(got, want), (name, case, scale, ISA_NAMES[isa], count)


def test_the_cases_are_of_every_kind():
    """The calls above contain the kinds of data that they are meant to contain."""
    values, sizes = [], set()
    for case in range(2000):
        for array in random_call("add", f"property/{case}", "tiny")[0]:
            sizes |= set(array.shape)
            if array.dtype == np.float32:
                values.append(array.ravel())
    bits = np.concatenate(values).view(np.uint32)
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    assert ((exponent == 0) & (fraction != 0)).any(), "subnormals"
    assert (bits == 0x80000000).any(), "-0"
    assert len(set(bits[(exponent == 255) & (fraction != 0)].tolist())) > 100, "payloads of NaN"
    assert {0, 1, 128, 254, 255} <= set(exponent.tolist()), "exponents"
    assert {0, 1, 2, 3, 9} <= sizes
