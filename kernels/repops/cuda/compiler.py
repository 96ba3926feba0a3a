"""Compiles CUDA sources to machine code by NVRTC, which needs no GPU. Results are kept in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from .errors import PIP, CompileError, CudaUnavailable
from .sources import text_of

# INVARIANT: operations round as written: no contraction, no flushing of subnormals, exact division and square root.
ARITHMETIC = ("-fmad=false", "-ftz=false", "-prec-div=true", "-prec-sqrt=true")
OPTIONS = (
    "-std=c++17",
    *ARITHMETIC,
    "-diag-suppress=177",
)  # 177: a source need not use every shared function


_USED = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?",
    re.DOTALL,
)


class Resources(NamedTuple):
    """Needs of a kernel: registers of a thread; bytes that a thread writes to and reads from memory for want of
    registers; bytes of shared memory of a block."""

    registers: int
    spilled: int
    shared: int


def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise CudaUnavailable(
            f"cuda-bindings is not installed; install it with `{PIP} install 'assay-referee[cuda]'`"
        ) from error
    return nvrtc


def _checked(nvrtc: Any, answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC: {nvrtc.nvrtcGetErrorString(status)[1].decode()}")
    return values[0] if values else None


def version() -> str:
    """Return NVRTC's version. Code of another version may differ in speed, not in bits."""
    nvrtc = _nvrtc()
    status, major, minor = nvrtc.nvrtcVersion()
    _checked(nvrtc, (status,))
    return f"{major}.{minor}"


def compile_text(text: str, name: str, architecture: str, form: str = "CUBIN") -> bytes:
    """Return machine code ("CUBIN") or assembly ("PTX") for an architecture such as "sm_90". Raise CompileError."""
    return _compiled(text, name, architecture, form)[0]


def resources(text: str, name: str, architecture: str) -> dict[str, Resources]:
    """Return what each kernel of a text takes on an architecture. Raise CompileError."""
    _, log = _compiled(text, name, architecture, "CUBIN", ("-Xptxas=-v",))
    found = re.findall(_USED, log)
    return {
        kernel: Resources(int(registers), int(stores) + int(loads), int(shared or 0))
        for kernel, stores, loads, registers, shared in found
    }


def _compiled(
    text: str, name: str, architecture: str, form: str, more: tuple[str, ...] = ()
) -> tuple[bytes, str]:
    """Return the code and the compilers' log."""
    nvrtc = _nvrtc()
    program = _checked(nvrtc, nvrtc.nvrtcCreateProgram(text.encode(), f"{name}.cu".encode(), 0, [], []))
    try:
        options = [option.encode() for option in (*OPTIONS, *more, f"-arch={architecture}")]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        buffer = bytearray(_checked(nvrtc, nvrtc.nvrtcGetProgramLogSize(program)))
        nvrtc.nvrtcGetProgramLog(program, buffer)
        log = buffer.decode(errors="replace")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(f"{name}.cu for {architecture}:\n{log}")
        code = bytearray(_checked(nvrtc, getattr(nvrtc, f"nvrtcGet{form}Size")(program)))
        _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{form}")(program, code))
        return bytes(code), log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def cache_folder() -> Path:
    own = os.environ.get("REPOPS_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "repops"


def machine_code(name: str, architecture: str) -> bytes:
    """Return the compiled source, from the cache if it is there intact."""
    return cached(text_of(name), name, architecture)


def cached(text: str, name: str, architecture: str) -> bytes:
    key = hashlib.sha256("\0".join([text, *OPTIONS, architecture, version()]).encode()).hexdigest()
    path = cache_folder() / f"{name}-{architecture}-{key[:32]}.cubin"
    found = _read(path)
    if found is None:
        found = compile_text(text, name, architecture)
        _write(path, found)
    return found


def _read(path: Path) -> bytes | None:
    """Return the code of a cached file that begins with the code's hash, or None: a damaged file is compiled again."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, code = content[:32], content[32:]
    return code if hashlib.sha256(code).digest() == digest else None


def _write(path: Path, code: bytes) -> None:
    """Write atomically, so that two processes may write at once. Without a cache folder the code is not kept."""
    new = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new.write_bytes(hashlib.sha256(code).digest() + code)
        new.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
