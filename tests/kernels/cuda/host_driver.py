"""A fake GPU: the parts of torch and of the driver that repops.cuda uses, with kernels run on the host."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from repops.cuda import device as device_module
from repops.cuda import executor
from repops.cuda.device import TENSOR_MAP_BYTES
from repops.torch_arrays import from_numpy, to_numpy

from .emulation import library, tensor_map

GPU = SimpleNamespace(index=0, type="cuda")


class OnGpu(torch.Tensor):
    """A tensor in host memory that claims to be on a GPU."""

    is_cuda = True
    device = GPU  # type: ignore[assignment]  # claimed


class Enumeration(str):
    """A name of the driver's: of an enumeration, or of a function that returns it."""

    def __getattr__(self, name):
        return name

    def __call__(self, *_):
        return 0, str(self)


class HostDriver:
    """The part of cuda.bindings.driver that repops.cuda.device uses."""

    def __init__(self):
        self.contexts, self.modules, self.launched = [], [], []
        self.library = library()
        self.allowed = {}  # bytes of shared memory, by kernel

    def cuCtxPushCurrent(self, context):  # noqa: N802
        self.contexts.append(context)
        return (0,)

    def cuCtxPopCurrent(self):  # noqa: N802
        return 0, self.contexts.pop()

    def cuModuleLoadData(self, code):  # noqa: N802
        self.modules.append(code)
        return 0, code

    def cuModuleGetFunction(self, module, name):  # noqa: N802
        return 0, (module, name.decode())

    def cuFuncSetAttribute(self, kernel, _attribute, value):  # noqa: N802
        self.allowed[kernel[1]] = value
        return (0,)

    def cuTensorMapEncodeTiled(self, _dtype, rank, start, sizes, steps, box, strides, *_):  # noqa: N802
        """As emulation/hopper.h has it."""
        assert (rank, strides, start % 16) == (3, [1, 1, 1], 0)
        found = ctypes.create_string_buffer(tensor_map(start, (*sizes, *steps, *box[:2])), TENSOR_MAP_BYTES)
        return 0, SimpleNamespace(getPtr=lambda: ctypes.addressof(found), kept=found)

    def cuuint64_t(self, number):
        return number

    cuuint32_t = cuuint64_t

    def __getattr__(self, name):
        """Enumerations are names; other functions succeed."""
        return Enumeration(name)

    def cuGetErrorString(self, _status):  # noqa: N802
        return 0, b"no such thing"

    def cuLaunchKernel(self, kernel, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra):  # noqa: N802
        assert (gy, gz, by, bz, extra) == (1, 1, 1, 1, 0)
        assert self.contexts
        _, name = kernel
        assert shared == self.allowed.get(name, 0)
        place = ctypes.cast(arguments, ctypes.POINTER(ctypes.c_void_p))[0]
        words = ctypes.string_at(place, ctypes.c_int.in_dll(self.library, f"{name}_bytes").value)
        assert self.library.emulate_launch(getattr(self.library, name), words, bx, gx, 0, shared) is None
        self.launched.append((name, stream))
        return (0,)


def put(array):
    return from_numpy(np.array(array)).as_subclass(OnGpu)


def get(tensor):
    return to_numpy(tensor.as_subclass(torch.Tensor))


@pytest.fixture
def driver(monkeypatch):
    """Replace the GPU and its driver by this machine."""
    host = HostDriver()
    cuda = SimpleNamespace(
        get_device_properties=lambda _: SimpleNamespace(
            name="host", major=9, minor=0, multi_processor_count=4
        ),
        current_stream=lambda _: SimpleNamespace(cuda_stream=77),
        current_device=lambda: 0,
    )

    def empty(shape, dtype, device):
        assert device == 0
        return torch.empty(shape, dtype=dtype).as_subclass(OnGpu)

    names = ("Tensor", "strided", "uint8", "float32", "int64", "bool", "bfloat16")
    fake = SimpleNamespace(
        cuda=cuda,
        empty=empty,
        **{name: getattr(torch, name) for name in names},
    )
    for module in (device_module, executor):
        monkeypatch.setattr(module, "torch_with_cuda", lambda: fake)
    monkeypatch.setattr(device_module, "driver", lambda: host)
    monkeypatch.setattr(device_module, "machine_code", lambda source, arch: f"{source} for {arch}")
    caches = (device_module.device, executor._dtypes, executor._torch_dtype)
    for cached in caches:
        cached.cache_clear()
    yield host
    for cached in caches:
        cached.cache_clear()
