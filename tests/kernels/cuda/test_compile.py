"""The sources compile without a GPU for several architectures, and the code rounds as specified."""

import ctypes
import re
from functools import cache
from pathlib import Path

import pytest
from repops.cuda import compiler
from repops.cuda.sources import FOR_WARPGROUPS, SOURCES, architecture_of, directories, text_of

from .emulation import library, needs_gcc

ARCHITECTURES = [
    pytest.param("sm_80", marks=pytest.mark.slow),
    "sm_90",
    pytest.param("sm_100", marks=pytest.mark.slow),
]
LARGE = {
    "conv",
    "conv_bf16",
    "exact_conv",
    "exact_conv_bf16",
    "exact_matmul",
    "exact_matmul_bf16",
    "matmul_bf16",
    "pointwise",
    "tc16_conv",
    "tc16_warpgroup",
}
"""Sources that take long: in the quick tests only the emulation compiles them, for the host."""
SOURCES_BY_SIZE = [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in SOURCES]
BY_THE_RULE = {
    name: pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name
    for name in ("tc16_matmul", "tc16_conv")
}
"""Sources for tensor cores of sm_90. NOTE: for others they compute the rule itself, which takes eight times as long."""
KEPT = Path(__file__).parents[3] / ".build" / "cuda"
FUSED = {"matmul", "matmul_bf16", "conv", "conv_bf16"}  # sources whose arithmetic is fma
TENSOR_CORES = {
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",  # the mode exact needs only a bound of its error
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",  # exact
}
BLOCKS = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"  # the rule of the mode tc16, from sm_90 on
OF_WARPGROUPS = {
    f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16" for n in (128, 192)
}  # the same rule
GROUPS_OF_PRODUCTS = {f"wgmma.{what}.sync.aligned" for what in ("fence", "commit_group", "wait_group")}


@cache
def assembly_of(source, architecture):
    """Return the assembly of a source. A large one takes seconds, and two tests read the same."""
    return compiler.compile_text(text_of(source), source, architecture, "PTX").decode()


def kernels_of(assembly):
    """Return the text of each kernel by name."""
    parts = re.split(r"\.entry (\w+)\(", assembly)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_source_is_listed():
    assert {path.stem for path in directories()[0].glob("*.cu")} == set(SOURCES)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("source", SOURCES_BY_SIZE)
def test_compiles(source, architecture, monkeypatch):
    if source in FOR_WARPGROUPS and architecture != "sm_90":
        pytest.skip("the source is for sm_90a alone")
    monkeypatch.setenv("REPOPS_CACHE", str(KEPT))  # half a minute, once
    assert compiler.machine_code(source, architecture_of(source, architecture))[:4] == b"\x7fELF"


@needs_gcc
@pytest.mark.parametrize("source", SOURCES_BY_SIZE)
def test_assembly(source):
    architecture = "sm_90a" if source in FOR_WARPGROUPS else "sm_89" if source in BY_THE_RULE else "sm_80"
    assembly = assembly_of(source, architecture)
    nothing_is_approximate_or_flushed(assembly)
    structs_have_the_size_that_the_host_sees(assembly)
    kernels = kernels_of(assembly)
    if (
        source not in FUSED
    ):  # no product and sum are contracted: a single rounding for both only where fma is written
        assert not re.search(r"fma\.rn\.f32|mad\S*f32", assembly)
    if source == "pointwise":
        for name in ("add", "sub", "mul", "div"):
            assert f"{name}.rn.f32" in kernels[f"{name}_f32"]
            assert "fma" not in kernels[f"{name}_f32"]
    if source == "matmul":
        assert "fma.rn.f32" in kernels["matmul_large"]
        for wide in ("ld.shared.v4.f32", "cp.async.cg.shared.global"):
            assert wide in kernels["matmul_large"]


@pytest.mark.parametrize("source", BY_THE_RULE.values())
def test_only_tensor_cores_that_keep_the_rule_are_used(source):
    """Those of an A100, for which the other tests compile, add 8 terms with 24 bits."""
    before, after = assembly_of(source, "sm_89"), assembly_of(source, "sm_90")
    assert "mma" not in before
    for kernel, text in kernels_of(after).items():
        assert (BLOCKS in text) == (not kernel.endswith(("_again", "_pad"))), kernel
    assert set(re.findall(r"\w*mma\.\S*", after)) == {BLOCKS}


@pytest.mark.parametrize("architecture", ["sm_90a", pytest.param("sm_80", marks=pytest.mark.slow)])
@pytest.mark.parametrize("source", BY_THE_RULE.values())
def test_kernels_for_tensor_cores_keep_their_sums_in_registers(source, architecture, capsys):
    found = compiler.resources(text_of(source), source, architecture)
    assert set(found) == set(kernels_of(assembly_of(source, "sm_90")))
    with capsys.disabled():
        print(f"\n{architecture}: registers, bytes spilled, bytes of shared memory")
        for kernel, used in sorted(found.items()):
            print(f"  {kernel:32} {used.registers:4} {used.spilled:4} {used.shared:6}")
    for kernel, used in found.items():
        assert used.spilled == 0, kernel
        assert used.shared <= 48 << 10, kernel


@pytest.mark.slow
def test_warpgroups_multiply_by_the_rule_and_keep_their_sums_in_registers(capsys):
    for kernel, assembly in kernels_of(assembly_of("tc16_warpgroup", "sm_90a")).items():
        products = set(re.findall(r"wgmma\.mma_async\S*", assembly))
        assert len(products) == 1, kernel
        assert products < OF_WARPGROUPS, kernel
        assert "cp.async.bulk.tensor.3d" in assembly, kernel
    found = compiler.resources(text_of("tc16_warpgroup"), "tc16_warpgroup", "sm_90a")
    assert len(found) == 8
    with capsys.disabled():
        for kernel, used in sorted(found.items()):
            print(f"\n  {kernel:32} {used.registers:4} {used.spilled:4} {used.shared:6}", end="")
    for kernel, used in found.items():
        assert (used.registers, used.spilled) == (168, 0), kernel  # of 65,536 for 384 threads


def nothing_is_approximate_or_flushed(assembly):
    no = (r"\.ftz", r"\.approx", r"\.full\.", r"\bex2\.", r"\blg2\.", r"\b(atom|red)\.\S*f(32|64)")
    assert set(re.findall(r"\w*mma\.[\w.]*", assembly)) <= TENSOR_CORES | OF_WARPGROUPS | GROUPS_OF_PRODUCTS
    for forbidden in no:
        assert not re.search(forbidden, assembly), forbidden
    rounding = r"^\s*((?:add|sub|mul|div|sqrt|fma|mad)\.\S*f(?:32|64))\s"
    for operation in re.findall(rounding, assembly, re.MULTILINE):
        assert ".rn." in operation, operation


def structs_have_the_size_that_the_host_sees(assembly):
    """Check that the GPU's compiler lays out the structs as the emulation does, which checks the plans' packing."""
    for name, text in kernels_of(assembly).items():
        (size,) = re.findall(rf"\.param \.align (?:8|64) \.b8 {name}_param_0\[(\d+)\]", text)
        assert int(size) == ctypes.c_int.in_dll(library(), f"{name}_bytes").value, name


def test_an_error_shows_the_log():
    with pytest.raises(compiler.CompileError, match="nonsense"):
        compiler.compile_text("nonsense nonsense;", "broken", "sm_80")


def test_code_is_kept_and_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("REPOPS_CACHE", str(tmp_path))
    text = 'extern "C" __global__ void one(int *x) { *x = 1; }'
    code = compiler.cached(text, "one", "sm_80")
    (kept,) = tmp_path.iterdir()
    monkeypatch.setattr(compiler, "compile_text", lambda *_: b"compiled anew")
    assert compiler.cached(text, "one", "sm_80") == code
    assert compiler.cached(text + "\n", "one", "sm_80") == b"compiled anew"
    kept.write_bytes(kept.read_bytes()[:-1])
    assert compiler.cached(text, "one", "sm_80") == b"compiled anew"
    assert compiler.cached(text, "one", "sm_80") == b"compiled anew"  # and kept again


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("REPOPS_CACHE", str(tmp_path / "file" / "folder"))
    text = 'extern "C" __global__ void one(int *x) { *x = 1; }'
    assert compiler.cached(text, "one", "sm_80")[:4] == b"\x7fELF"
