"""Every compiler, level of optimisation and processor gives the same bits: a C program replays recorded calls.

The slow tests use other options, other machines and the sanitizers. Compilers: gcc, and clang from the package ziglang,
which also has the C libraries of other machines.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from repops import reference
from repops.host import cpu
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.selftest import LONG_SEEDS, SEEDS

from tests.kernels.replay import recording

ROOT = Path(__file__).parents[2]
MACHINE = os.uname().machine
ZIG = (sys.executable, "-m", "ziglang", "cc")
GCC = ("gcc", "-fopenmp")
SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
EMULATED = Path(__file__).parent / "avx512"  # its immintrin.h has AVX-512 for a processor without it
SIMDE = Path("/usr/include/simde/x86/avx512.h")
AVX512_TESTS = (
    *("test_bf16", "test_exact", "test_properties", "test_tensor_core"),
    *("fuse/test_fusion", "fuse/test_fusion_bf16", "fuse/test_fusion_random", "host/test_strided"),
)

pytestmark = pytest.mark.timeout(900)  # the first build for another machine makes its C library
slow = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def compiler_cache():
    """Keep the C library that the first build for a machine makes in a minute; later builds find it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZIG_GLOBAL_CACHE_DIR", str(ROOT / ".build" / "zig"))
        patch.setenv("ZIG_LOCAL_CACHE_DIR", str(ROOT / ".build" / "zig"))
        yield


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "calls"
    assert recording.write_selftest(path) == (SEEDS + LONG_SEEDS) * len(recording.LINES)
    return path


def replay(program, calls, *emulator):
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run([*emulator, program, calls], capture_output=True, text=True, env=environment)


def assert_same_bits(done):
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.stdout.endswith("same bits\n")


# clang only compiles and gcc links, so no C library has to be made first.
CLANG = (*ZIG, "-target", f"{MACHINE}-linux-gnu")


def run_python(library, *arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "REPOPS_LIBRARY": str(library)},
    )


@slow
def test_selftest_of_a_library_built_by_clang(tmp_path):
    """Runs what a user of that build would run."""
    library = recording.build_library(tmp_path, CLANG, ["-O1"], link=["gcc"])
    for isa in ISA_NAMES[: BEST_ISA + 1]:
        done = run_python(library, "-m", "repops.selftest", "--isa", isa)
        assert done.returncode == 0, done.stderr


@slow
def test_clang(calls, tmp_path):
    assert_same_bits(replay(recording.build(tmp_path, CLANG, ["-O2"], link=["gcc"]), calls))


@slow
def test_fusion_by_clang(tmp_path):
    library = recording.build_library(tmp_path, CLANG, ["-O3"], link=["gcc"])
    cache = f"cache_dir={tmp_path}"
    done = run_python(
        library, "-m", "pytest", "-q", "-n", "0", "-o", cache, "tests/kernels/fuse/test_fusion.py"
    )
    assert done.returncode == 0, done.stdout[-4000:]


@slow
@pytest.mark.skipif(ISA_NAMES.index("portable") == BEST_ISA, reason="this processor has no AVX2")
def test_avx512_on_a_processor_without_it(tmp_path):
    """SIMDe computes what the kernels for AVX-512 say in their intrinsics; gcc takes the vectors of plain C apart."""
    if not SIMDE.exists():
        pytest.skip("SIMDe is not installed; on Debian: apt install libsimde-dev")
    kernels = tmp_path / "kernels"
    shutil.copytree(recording.SOURCES, kernels)
    target = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"
    for path, said, meant in [
        ("runtime/repops.h", f"{target},prefer-vector-width=512", "avx2,fma"),
        ("runtime/target_avx512.h", f"{target},prefer-vector-width=512", "avx2,fma"),
        ("runtime/runtime.c", "return (b & avx512) == avx512 && (saved & 0xE6) == 0xE6 ?", "return avx512 ?"),
    ]:
        text = (kernels / path).read_text()
        assert said in text
        (kernels / path).write_text(text.replace(said, meant))
    options = ["-O2", "-w", "-Wno-psabi", "-mavx2", "-mfma", f"-I{EMULATED}"]
    library = recording.build_library(tmp_path, GCC, options, kernels=sorted(kernels.glob("*/*.c")))
    done = run_python(library, "-m", "repops.selftest", "--isa", "avx512")
    assert done.returncode == 0, done.stderr
    tests = [f"tests/kernels/{name}.py" for name in AVX512_TESTS]
    done = run_python(library, "-m", "pytest", "-q", "-n", "0", "-o", f"cache_dir={tmp_path}", *tests)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " skipped" not in done.stdout


@slow
def test_without_optimisation(calls, tmp_path):
    """The control is the same program: one bit of the expected output is flipped."""
    program = recording.build(tmp_path, GCC, ["-O0"])
    assert_same_bits(replay(program, calls))
    generator = np.random.default_rng(0)
    inputs = [generator.standard_normal(shape, np.float32) for shape in ((13, 1051), (1051, 70))]
    (output,) = cpu.execute("mm", inputs, {})
    output.reshape(-1).view(np.uint32)[-1] ^= 1
    (tmp_path / "calls").write_bytes(recording.record("mm", inputs, {}, [output]))
    done = replay(program, tmp_path / "calls")
    assert done.returncode == 1
    assert done.stdout.startswith(f"mm: output 0, element {output.size - 1} is ")


BUILDS = {
    "gcc-O3-native": (GCC, ("-O3", "-march=native")),
    "gcc-every-item-apart": (GCC, ("-O2", "-DREPOPS_GRAIN=1")),
    "gcc-without-openmp": (("gcc", "-Wno-unknown-pragmas"), ("-O2",)),
    "clang-O0": ((*ZIG, "-target", f"{MACHINE}-linux-musl"), ("-O0", "-static", "-fno-sanitize=all")),
    "clang-O3-native": ((*ZIG, "-target", f"{MACHINE}-linux-musl", "-mcpu=native"), ("-O3", "-static")),
}


@slow
@pytest.mark.parametrize("build", BUILDS)
def test_other_options(build, calls, tmp_path):
    assert_same_bits(replay(recording.build(tmp_path, *BUILDS[build]), calls))


@slow
@pytest.mark.parametrize("machine", ["aarch64", "riscv64"])
def test_other_processors(machine, calls, tmp_path):
    emulators = (shutil.which(f"qemu-{machine}"), shutil.which(f"qemu-{machine}-static"))
    if not any(emulators):
        pytest.skip(f"qemu-{machine} is not installed; on Debian: apt install qemu-user")
    emulator = next(path for path in emulators if path)
    program = recording.build(tmp_path, (*ZIG, "-target", f"{machine}-linux-musl"), ["-O2", "-static"])
    assert_same_bits(replay(program, calls, emulator))


@slow
def test_no_kernel_leaves_its_arrays(calls, tmp_path):
    assert_same_bits(replay(recording.build(tmp_path, GCC, SANITIZE), calls))


@slow
@pytest.mark.parametrize(
    ("name", "report"), [("arange", "heap-buffer-overflow"), ("neg", "cannot be represented")]
)
def test_sanitizers_see_a_kernel_that_does(name, report, tmp_path):
    program = recording.build(tmp_path, GCC, SANITIZE, kernels=recording.OUTSIDE)
    inputs, attrs = ([], {"n": 1000}) if name == "arange" else ([np.array([np.iinfo(np.int64).min])], {})
    outputs = reference.execute(name, inputs, attrs)
    (tmp_path / "calls").write_bytes(recording.record(name, inputs, attrs, outputs))
    done = replay(program, tmp_path / "calls")
    assert done.returncode != 0
    assert report in done.stderr
