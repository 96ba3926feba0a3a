"""One GPU: loads its kernels on first use, and launches plans on torch's current stream.

Nothing here waits for the GPU. A call that has run once (so that its kernels are loaded) can be captured in a CUDA
graph: a launch copies its arguments, and workspaces come from torch's allocator.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from functools import cache
from typing import Any

from .compiler import cached, machine_code
from .errors import PIP, CudaUnavailable, LaunchError
from .plan import BOX_WIDTH, Boxes, Launch, LaunchPlan, Target
from .sources import architecture_of

_lock = threading.Lock()


def torch_with_cuda() -> Any:
    """Return the torch module if it sees a GPU. Raise CudaUnavailable."""
    try:
        import torch
    except ImportError as error:
        raise CudaUnavailable(
            "PyTorch is not installed: the cuda backend needs a build of it with CUDA"
        ) from error
    if not torch.cuda.is_available():
        built = torch.version.cuda
        reason = f"(built for CUDA {built}) finds no GPU" if built else "is a build without CUDA"
        raise CudaUnavailable(f"no CUDA device: PyTorch {torch.__version__} {reason}")
    return torch


@cache
def driver() -> Any:
    """Return cuda.bindings.driver, initialised. Raise CudaUnavailable."""
    try:
        from cuda.bindings import driver as bindings
    except ImportError as error:
        raise CudaUnavailable(
            f"cuda-bindings is not installed; install it with `{PIP} install 'assay-referee[cuda]'`"
        ) from error
    call(bindings.cuInit(0), bindings)
    return bindings


def call(answer: tuple[Any, ...], bindings: Any = None) -> Any:
    """Return the value of a driver call. Raise LaunchError."""
    status, *values = answer
    if int(status) != 0:
        text = (bindings or driver()).cuGetErrorString(status)[1]
        raise LaunchError(f"CUDA driver: {text.decode() if text else status}")
    return values[0] if values else None


class Device:
    """A GPU by torch's index. Plans depend on `target`."""

    def __init__(self, index: int):
        self.torch = torch_with_cuda()
        self.index = index
        properties = self.torch.cuda.get_device_properties(index)
        self.name = properties.name
        self.architecture = f"sm_{properties.major}{properties.minor}"
        warpgroups = self.architecture == "sm_90"
        self.target = Target(properties.multi_processor_count, warpgroups=warpgroups)
        # NOTE: the primary context is torch's own, pushed for every call, because a thread may have none, or another.
        self.context = call(driver().cuDevicePrimaryCtxRetain(call(driver().cuDeviceGet(index))))
        self._kernels: dict[str, Any] = {}
        self._modules: dict[str, Any] = {}
        self._shared: dict[str, int] = {}  # the most bytes that a kernel has been allowed

    def kernel(self, name: str) -> Any:
        """Return a loaded kernel by its name in plans, "source.kernel". The context must be current."""
        found = self._kernels.get(name)
        if found is None:
            with _lock:
                found = self._kernels[name] = self._load(name)
        return found

    def _load(self, name: str) -> Any:
        source, _, kernel = name.partition(".")
        if source not in self._modules:
            self._add_module(source, machine_code(source, architecture_of(source, self.architecture)))
        return call(driver().cuModuleGetFunction(self._modules[source], kernel.encode()))

    def load_text(self, source: str, text: str) -> None:
        """Compile a text and make its kernels known to plans as "source.kernel"."""
        with _lock:
            if source not in self._modules:
                self._add_module(source, cached(text, source, self.architecture))

    def _add_module(self, source: str, code: bytes) -> None:
        call(driver().cuCtxPushCurrent(self.context))
        try:
            self._modules[source] = call(driver().cuModuleLoadData(code))
        finally:
            call(driver().cuCtxPopCurrent())

    def run(self, plan: LaunchPlan, addresses: list[int]) -> None:
        """Launch a plan on torch's current stream; `addresses` are those of its inputs and outputs."""
        torch = self.torch
        works = [torch.empty(size, dtype=torch.uint8, device=self.index) for size in plan.workspaces]
        addresses = [*addresses, *[work.data_ptr() for work in works]]
        stream = torch.cuda.current_stream(self.index).cuda_stream
        call(driver().cuCtxPushCurrent(self.context))
        try:
            for launch in plan.launches:
                self._launch(launch, addresses, stream)
        finally:
            call(driver().cuCtxPopCurrent())

    def _launch(self, launch: Launch, addresses: list[int], stream: int) -> None:
        words = bytearray(launch.words)
        for at, ref in launch.refs:
            struct.pack_into("<Q", words, at, addresses[ref.buffer] + ref.offset)
        for at, boxes in launch.boxes:
            words[at : at + TENSOR_MAP_BYTES] = tensor_map(
                boxes, addresses[boxes.start.buffer] + boxes.start.offset
            )
        # SAFETY: the driver copies the struct before it returns; `words` and `arguments` live until then.
        struct_ = (ctypes.c_char * len(words)).from_buffer(words)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(struct_))
        kernel, grid, block = self.kernel(launch.kernel), (launch.blocks, 1, 1), (launch.threads, 1, 1)
        if launch.shared > self._shared.get(launch.kernel, 0):
            most = driver().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call(driver().cuFuncSetAttribute(kernel, most, launch.shared))
            self._shared[launch.kernel] = launch.shared
        call(
            driver().cuLaunchKernel(
                kernel, *grid, *block, launch.shared, stream, ctypes.addressof(arguments), 0
            )
        )


TENSOR_MAP_BYTES = 128


def tensor_map(boxes: Boxes, start: int) -> bytes:
    """Return the driver's description of a tensor at an address: numbers outside it are zeros, and the pieces of a
    box's rows are exchanged as kernels/cuda/hopper.cuh says. Raise LaunchError."""
    cuda = driver()
    found = call(
        cuda.cuTensorMapEncodeTiled(
            cuda.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            len(boxes.sizes),
            start,
            [cuda.cuuint64_t(size) for size in boxes.sizes],
            [cuda.cuuint64_t(step) for step in boxes.steps],
            [cuda.cuuint32_t(size) for size in (BOX_WIDTH, boxes.rows, 1)],
            [cuda.cuuint32_t(1)] * len(boxes.sizes),
            cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            cuda.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )
    return ctypes.string_at(int(found.getPtr()), TENSOR_MAP_BYTES)


@cache
def device(index: int) -> Device:
    return Device(index)
