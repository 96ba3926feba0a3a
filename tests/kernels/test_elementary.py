"""The correctly rounded functions against MPFR and 80-bit arithmetic: a sample of every exponent, the hardest inputs,
exact and half-way powers; in the slow test all 2^32 inputs of each one-argument function.
"""

import runpy
import shutil
import subprocess
from pathlib import Path

import gmpy2
import numpy as np
import pytest
from repops import reference
from repops.host import cpu
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.random_calls import SPECIAL_F32, Source

HERE = Path(__file__).parent
KERNELS = HERE.parent.parent / "kernels"
BINARY32 = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True, round=gmpy2.RoundToNearest)
FUNCTIONS = ("exp", "log", "log1p", "tanh", "erf", "sin", "cos")
ODD, EVEN = ("tanh", "erf", "sin"), ("cos",)
STEP, PARTS, PIECES = 400, 64, 8  # of exhaustive_elementary.c: a sample of 10^7; the slow test in eighths


def f32(bits):
    return np.asarray(bits, np.uint32).view(np.float32)


def by_mpfr(name, *operands):
    function = gmpy2.mpfr.__pow__ if name == "pow" else getattr(gmpy2, name)
    rows = zip(*(operand.tolist() for operand in operands), strict=True)
    with BINARY32.copy():
        return np.array([float(function(*map(gmpy2.mpfr, row))) for row in rows], np.float32)


def assert_same(got, want, *context):
    nan = np.isnan(want)
    assert (np.isnan(got) == nan).all(), context
    assert (got.view(np.uint32) == want.view(np.uint32))[~nan].all(), context


def check(name, operands, want):
    for isa in range(BEST_ISA + 1):
        (got,) = cpu.execute(name, operands, {}, isa=isa)
        assert_same(got, want, name, ISA_NAMES[isa])


# ------------------------------------------------------------------------------------------------- one argument


def samples():
    """Return every exponent and sign, special values, and usual values."""
    anything = np.frombuffer(Source("elementary").bytes(4 * 20000), "<u4").astype(np.uint32)
    ordinary = np.linspace(-104.5, 89.5, 20000, dtype=np.float32)
    near_one = f32(np.arange(0x3F7FF000, 0x3F801000, 7))
    x = np.concatenate([f32(anything), f32(SPECIAL_F32), ordinary, ordinary / 20, near_one])
    return x[~np.isnan(x)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_correctly_rounded(name):
    x = samples()
    want = by_mpfr(name, x)
    check(name, [x], want)
    (got,) = reference.execute(name, [x[::30].copy()], {})
    assert_same(got, want[::30])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hardest_inputs(name):
    rows = [line.split() for line in (HERE / "hard_cases.txt").read_text().splitlines() if line[0] != "#"]
    bits = np.array([[int(x, 16), int(y, 16)] for function, x, y in rows if function == name], np.uint32)
    x, want = f32(bits[:, 0].copy()), f32(bits[:, 1].copy())
    if name in ODD + EVEN:
        x, want = np.concatenate([x, -x]), np.concatenate([want, -want if name in ODD else want])
    assert_same(by_mpfr(name, x), want)
    check(name, [x], want)
    assert_same(reference.execute(name, [x], {})[0], want)


INF, NAN = np.inf, np.nan
ENDS = {  # at +0, -0, +inf, -inf
    "exp": (1, 1, INF, 0.0),
    "log": (-INF, -INF, INF, NAN),
    "log1p": (0.0, -0.0, INF, NAN),
    "tanh": (0.0, -0.0, 1, -1),
    "erf": (0.0, -0.0, 1, -1),
    "sin": (0.0, -0.0, NAN, NAN),
    "cos": (1, 1, NAN, NAN),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ends_and_nan(name):
    x = np.array([0.0, -0.0, INF, -INF, NAN] * 20, np.float32)  # long enough for the vector paths
    want = np.array([*ENDS[name], NAN] * 20, np.float32)
    check(name, [x], want)
    assert_same(reference.execute(name, [x], {})[0], want)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("length", [1, 15, 16, 17, 63, 64, 65, 200])
def test_lengths_around_a_vector(name, length):
    x = np.linspace(0.1, 3, length, dtype=np.float32)
    want = by_mpfr(name, x)
    check(name, [x], want)


def test_the_table_of_erf_is_what_the_script_writes():
    script = runpy.run_path(str(KERNELS.parent / "scripts/make_erf_table.py"))
    assert script["TARGET"].read_text() == script["text"]()


# -------------------------------------------------------------------------------------- one argument, in bulk


@pytest.fixture(scope="session")
def try_inputs(tmp_path_factory):
    """Run exhaustive_elementary.c on some of its parts; MPFR decides the inputs that it leaves open."""
    if shutil.which("gcc") is None:
        pytest.fail("needs gcc")
    program, library = tmp_path_factory.mktemp("elementary") / "exhaustive", KERNELS / "repops"
    options = ["-O2", "-std=c11", "-fopenmp", f"-L{library}", f"-Wl,-rpath,{library}"]
    source = HERE / "exhaustive_elementary.c"
    subprocess.run(["gcc", *options, source, "-o", program, "-lrepops", "-lm"], check=True)

    def run(name, step, first, last):
        words = [program, name, str(step), str(first), str(last)]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        for line in done.stdout.splitlines():
            x, y = (f32([int(word, 16)]) for word in line.split())
            assert_same(y, by_mpfr(name, x), name, line)

    return run


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ten_million_inputs_of_all_exponents(name, try_inputs):
    try_inputs(name, STEP, 0, PARTS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("piece", range(PIECES))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_inputs(name, piece, try_inputs):
    """In pieces, so that the list of tests shows the progress."""
    try_inputs(name, 1, PARTS // PIECES * piece, PARTS // PIECES * (piece + 1))


# ---------------------------------------------------------------------------------------------------------- pow


def pairs(count=100_000):
    """Return this many pairs of each kind, as binary64 arrays."""
    random = np.random.default_rng(17)
    normal, size = random.standard_normal(count), np.abs(random.standard_normal(count)) + 0.01
    bits = random.integers(0, 1 << 32, (2, count), dtype=np.uint32).view(np.float32)

    def integers(low, high):
        return random.integers(low, high, count).astype(float)

    root, two_power = integers(1, 1 << 6), integers(-8, 9)
    depth = integers(0, 4)  # base = (root 2^two_power)^(2^depth), exponent = n / 2^depth
    return {
        "any bits": (bits[0], bits[1]),
        "usual": (size, normal * 10),
        "squares of 13 bits": (integers(1, 1 << 13) * 2 ** integers(-20, 20), np.full(count, 2.0)),
        "negative cubes": (-integers(1, 1 << 9) * 2 ** integers(-40, 20), np.full(count, 3.0)),
        "small powers": (integers(-64, 64), integers(-16, 16)),
        "square roots": ((2 * integers(1, 1 << 11) + 1) ** 2 * 4 ** integers(-20, 20), np.full(count, 0.5)),
        "roots of powers": ((root * 2**two_power) ** (2**depth), integers(-6, 16) / 2**depth),
        "near one": (1 + integers(-2000, 2000) * 2**-23, normal * 2 ** integers(0, 32)),
        "powers of two": (2 ** integers(-149, 128), integers(-300, 300) / 2 ** integers(0, 8)),
        "overflow": (size, (128 * np.log(2) + normal * 1e-5) / np.log(size)),
        "underflow": (size, (-149 * np.log(2) + normal) / np.log(size)),
    }


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_pow_correctly_rounded(count):
    with np.errstate(all="ignore"):
        kinds = {
            kind: [operand.astype(np.float32) for operand in operands]
            for kind, operands in pairs(count).items()
        }
    for kind, (x, y) in kinds.items():
        want = by_mpfr("pow", x, y)
        for isa in range(BEST_ISA + 1):
            (got,) = cpu.execute("pow", [x, y], {}, isa=isa)
            assert_same(got, want, kind, ISA_NAMES[isa])
        few = [x[::200].copy(), y[::200].copy()]
        assert_same(reference.execute("pow", few, {})[0], want[::200], kind)


_SPECIAL = [0.0, 1, INF, 2, 0.5, 3, 1.5, 0.25, 4097, 2.0**23 + 1, 2.0**24, 1e38, 2.0**-149, 2.0**-126]
_SPECIAL += [1 + 2.0**-23, 1 - 2.0**-24, 2.0**31, 2.0**-24]
SPECIAL = np.array([NAN, *_SPECIAL, *(-x for x in _SPECIAL)], np.float32)


def test_pow_of_all_special_pairs():
    """Also with a base or an exponent that stands for a whole row."""
    x, y = (grid.ravel().copy() for grid in np.meshgrid(SPECIAL, SPECIAL))
    want = by_mpfr("pow", x, y)
    check("pow", [x, y], want)
    assert_same(reference.execute("pow", [x, y], {})[0], want)
    row = np.tile(SPECIAL, 5)
    for value in SPECIAL:
        standing = np.full((), value, np.float32)
        every = np.full(row.shape, value, np.float32)
        check("pow", [row, standing], by_mpfr("pow", row, every))
        check("pow", [standing, row], by_mpfr("pow", every, row))


def test_pow_ties_go_to_even():
    """4097^2 = 2^24 + 2^13 + 1 and 4099^2 are midpoints of two floats, 2^-150 and 9 2^-150 of two subnormal ones."""
    x = np.array([4097, 4099, 2.0**-75, 3 * 2.0**-75], np.float32)
    y = np.full(4, 2, np.float32)
    want = np.array([4097**2 - 1, 4099**2 - 1, 0, 4 * 2.0**-149], np.float32)
    check("pow", [x, y], want)
    assert_same(reference.execute("pow", [x, y], {})[0], want)
