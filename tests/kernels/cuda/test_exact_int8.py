"""Products of bf16 in the mode exact by products of bytes, run on the host from the same sources."""

from functools import cache

import numpy as np
import pytest
from repops import reference
from repops.cuda import contraction, exact_int8
from repops.cuda.plan import Target
from repops.cuda.plans import plan_of
from repops.host import cpu
from repops.sums import SumMode
from repops.tensors import canonical, check

from .calls import contractions, hard_products, normal, rounded, spread
from .emulation import Guarded, execute, needs_gcc, run

pytestmark = needs_gcc

ALWAYS, NEVER = 1, 1 << 62
FORWARDS, BACKWARDS = 0, 3
OPEN = 0x7F81
FACTS = ("largest", "squares", "low", "rest", "rest_squares")


def target(multiprocessors=4, least=ALWAYS):
    return Target(multiprocessors, least)


def kernels(inputs, where):
    name = "mm" if inputs[0].ndim == 2 else "bmm"
    plan = plan_of(check(name, inputs, {}), where, sums=SumMode.EXACT)
    return [launch.kernel.partition(".")[2] for launch in plan.launches]


def same(name, inputs, want, **options):
    (got,) = execute(name, inputs, {}, sums=SumMode.EXACT, **options)
    context = (name, [array.shape for array in inputs], options)
    assert canonical(got).tobytes() == canonical(want).tobytes(), context
    return got.size


def test_random_products_agree_with_the_reference():
    rng = np.random.default_rng(7)
    for seed in range(60):
        m, n, k, batches = rng.integers(1, [9, 9, 40, 4]).tolist()
        low = int(rng.integers(-133, 100))
        high = low + int(rng.integers(1, 27))
        a, b = spread(batches, m, k, low=low, high=high, seed=seed), normal(batches, k, n, seed=seed)
        b[rng.random(b.shape) < 0.1] = 0
        inputs = rounded(a, b)
        (want,) = reference.execute_exact("bmm", inputs, {})
        same("bmm", inputs, want, target=target())
        same("bmm", inputs, want, target=target(), order=BACKWARDS, shift=1)


def test_hard_products_agree_with_the_reference():
    for name, inputs, attrs in hard_products():
        if inputs[0].shape[-1] > 200:
            want = cpu.execute(name, inputs, attrs, sums=SumMode.EXACT)
        else:
            want = reference.execute_exact(name, inputs, attrs)
        same(name, inputs, want[0], target=target())


@pytest.mark.parametrize("multiprocessors", [1, pytest.param(132, marks=pytest.mark.slow)])
def test_the_cut_of_the_work_changes_no_bit(multiprocessors):
    """Several tiles, chunks and splits, and tails of all of them."""
    for name, inputs, _ in contractions():
        factors = rounded(*inputs)
        (want,) = cpu.execute(name, factors, {}, sums=SumMode.EXACT)
        same(name, factors, want, target=target(multiprocessors))
        same(name, factors, want, target=target(multiprocessors), order=BACKWARDS, shift=1)


def test_a_tie_that_a_term_decides_which_f64_does_not_hold():
    """8224 is half-way between 8192 and 8256; the bytes leave out the last term, 2^-42."""
    for last, want in ((2.0**-21, 8256), (-(2.0**-21), 8192)):
        a = np.ones((1, 8225), np.float32)
        a[0, -1] = last
        factors = rounded(a, np.abs(a.T).copy())
        (got,) = execute("mm", factors, {}, sums=SumMode.EXACT, target=target())
        assert got.tolist() == [[want]]


# ------------------------------------------------------------------------------------------------ where it applies


def test_only_products_for_which_32_bits_are_enough_go_this_way():
    a, b = rounded(np.ones((64, exact_int8.MAX_K + 1), np.float32), np.ones((1, 64), np.float32))
    within = [a[:, :-1], np.broadcast_to(b, (exact_int8.MAX_K, 64))]
    beyond = [a, np.broadcast_to(b, (exact_int8.MAX_K + 1, 64))]
    assert "exact_int8_multiply" in kernels([np.ascontiguousarray(x) for x in within], Target(4))
    assert "exact_int8_multiply" not in kernels([np.ascontiguousarray(x) for x in beyond], Target(4))


def test_small_products_and_other_dtypes_go_by_sums_of_f64():
    assert "exact_int8_multiply" in kernels(rounded(normal(64, 9), normal(9, 64)), Target(4))
    assert "exact_int8_multiply" not in kernels(rounded(normal(63, 9), normal(9, 64)), Target(4))
    assert "exact_int8_multiply" not in kernels(rounded(normal(64, 9), normal(9, 63)), Target(4))
    assert "exact_int8_multiply" not in kernels([normal(64, 9), normal(9, 64)], Target(4))
    assert "exact_int8_multiply" not in kernels(rounded(normal(64, 9), normal(9, 64)), target(least=NEVER))


def test_factors_too_large_for_a_workspace_go_by_sums_of_f64(monkeypatch):
    factors = rounded(normal(64, 9), normal(9, 64))
    monkeypatch.setattr(exact_int8, "MAX_PLANES", 3 * 128 * 32 - 1)
    assert "exact_int8_multiply" not in kernels(factors, Target(4))
    monkeypatch.setattr(exact_int8, "MAX_PLANES", 3 * 128 * 32)
    assert "exact_int8_multiply" in kernels(factors, Target(4))


def longest(k):
    """Return factors whose sums of bytes are the largest: 255 * 2^7 is 2^16 - 128 * 2^8 - 128."""
    a = np.full((2, k), 255 * 2.0**-7, np.float32)
    a[1] *= -1
    a[:, 0] = 255  # the line's largest
    return rounded(a, np.ascontiguousarray(a.T))


@pytest.mark.slow
def test_the_longest_sums_fit_in_32_bits(monkeypatch):
    """The emulation refuses sums that do not, as those of one more term."""
    monkeypatch.setattr(contraction, "MAX_WORKSPACE", 0)  # in one run
    factors = longest(exact_int8.MAX_K)
    (want,) = cpu.execute("mm", factors, {}, sums=SumMode.EXACT)
    same("mm", factors, want, target=Target(1, ALWAYS))
    monkeypatch.setattr(exact_int8, "MAX_K", exact_int8.MAX_K + 3)
    with pytest.raises(AssertionError, match="does not fit in 32 bits"):
        execute("mm", longest(exact_int8.MAX_K), {}, sums=SumMode.EXACT, target=Target(1, ALWAYS))


# ----------------------------------------------------------------------------------------------------- the radius


class Steps:
    """A product, launch by launch."""

    def __init__(self, inputs):
        self.call = check("mm", inputs, {})
        self.plan = plan_of(self.call, Target(1, ALWAYS), sums=SumMode.EXACT)
        assert len(self.plan.launches) == 6  # clear, measure, cut, multiply, again, resolve
        self.lines = [inputs[0].shape[0], inputs[1].shape[1]]
        self.out = Guarded(2 * int(np.prod(self.lines)))
        factors = [Guarded(array.nbytes, array.tobytes()) for array in inputs]
        self.works = [Guarded(size) for size in self.plan.workspaces]
        self.buffers = [*factors, self.out, *self.works]

    def run(self, first, end):
        part = self.plan._replace(launches=self.plan.launches[first:end], workspaces=())
        run(part, self.buffers)
        return self

    def facts(self):
        lines = sum(self.lines)  # the open elements of each tile follow
        return self.works[1].view.view(np.uint64)[: lines * len(FACTS)].reshape(lines, len(FACTS))

    def bits(self):
        return self.out.view.view(np.uint16).reshape(self.lines)


def open_share(inputs):
    return (Steps(inputs).run(0, 4).bits() == OPEN).mean()


def test_the_radius_leaves_few_elements_open():
    assert open_share(rounded(normal(128, 1024, seed=1), normal(1024, 128, seed=2))) < 1e-3
    assert open_share(rounded(normal(64, 64, seed=1), normal(64, 64, seed=2) ** 3)) < 1e-2
    # Sums of elements close together are exact, and often midpoints.
    few = np.random.default_rng(0).integers(-99, 100, (2, 64, 64)).astype(np.float32)
    assert open_share(rounded(*few)) == 0


def test_tiles_with_many_open_elements_are_multiplied_again():
    """The second tile only: what matters in its columns is far below the largest element, or one is infinite."""
    a, far, infinite = normal(64, 90, seed=1), normal(90, 128, seed=2), normal(90, 128, seed=2)
    far[:, 64:] *= 2.0**-18
    a[:, 5], far[5, 64:] = 2.0**-20, 1
    infinite[5, 64:] = np.inf
    for b in (far, infinite):
        steps = Steps(rounded(a, b)).run(0, 4)
        first = steps.bits()[:, :64].copy()
        assert (first == OPEN).mean() < 0.01
        assert (steps.bits()[:, 64:] == OPEN).mean() > 0.1
        steps.run(4, 5)
        assert (steps.bits()[:, :64] == first).all()
        assert (steps.bits()[:, 64:] == OPEN).mean() < 0.001
        (want,) = cpu.execute("mm", rounded(a, b), {}, sums=SumMode.EXACT)
        assert (steps.run(5, 6).bits() == canonical(want).view(np.uint16)).all()


@cache
def cancelling(of_a, of_b):
    """Return factors with exponents from these to 0, whose sums cancel but for the last bits of a few terms."""
    a, b = spread(20, 60, low=of_a, high=1, seed=1), spread(60, 20, low=of_b, high=1, seed=2)
    a[:, 30:], b[30:] = a[:, :30], -b[:30]
    b[:8] *= np.float32(1 + 2.0**-7)
    return rounded(a, b)


def test_facts_are_those_of_the_lines():
    """Recompute them with other arithmetic."""
    factors = cancelling(-30, -30)
    facts = Steps(factors).run(0, 3).facts()
    lines = [*factors[0].astype(np.float64), *factors[1].astype(np.float64).T]
    for line, found in zip(lines, facts.tolist(), strict=True):
        top = np.abs(line).max()
        unit = 2.0 ** (np.floor(np.log2(top)) - 7 - 14)
        whole = np.sign(line) * np.floor(np.abs(line) / unit + 0.5)
        low, rest = (whole + 128) % 256 - 128, np.ceil(np.abs(line / unit - whole) * 2**16)
        sums = [(whole**2).sum(), (low**2).sum(), rest.sum(), (rest**2).sum()]
        assert found == [np.float32(top).view(np.uint32) >> 16, *map(int, sums)]


@pytest.mark.parametrize(
    ("exponents", "part"), [((-6, -30), "rest"), ((-6, -30), "rest_squares"), ((-14, -14), "low")]
)
def test_without_a_part_of_the_radius_bits_are_wrong(exponents, part):
    """A control: what the bytes leave out decides results, and the bound of each part is needed."""
    factors = cancelling(*exponents)
    (want,) = cpu.execute("mm", list(factors), {}, sums=SumMode.EXACT)
    right = Steps(factors).run(0, 6)
    assert (right.bits() == want.view(np.uint16)).all()
    wrong = Steps(factors).run(0, 3)
    wrong.facts()[:, FACTS.index(part)] = 0
    assert (wrong.run(3, 6).bits() != want.view(np.uint16)).any()
