"""Convolutions of binary32 tensors in binary64, with the norms that bound their errors (csrc/conv.c, csrc/windows.c).

Patches are never written out, and no tap that is not there is multiplied, unless it is by zero.

NOTE: these are no operators: their sums have no order of their own, and their last bits differ between machines.

Letters: N images, G groups, C input channels and F filters of one group, (R, S) kernel, (H, W) input, (Y, X) output.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import cpu
from .f64 import Workspace, f64_squares
from .library import LIBRARY
from .memory import address_of
from .opset import Attrs, Spec
from .tensors import freeze, specs_of

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Pair = tuple[int, int]

LIBRARY.repops_window_norms.restype = ctypes.c_int
LIBRARY.repops_window_norms.argtypes = [
    *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
]


class Bounded(NamedTuple):
    """The magnitudes of each element's `terms` add up to `left` times `right`, which broadcast to x, or less, but for
    the roundings of these two.
    """

    x: F64
    terms: int
    left: F64
    right: F64


def conv(name: str, a: F32, b: F32, attrs: Attrs, space: Workspace) -> Bounded:
    """`conv2d`, `conv2d_input_grad` or `conv2d_weight_grad`, of plain arrays.

    Where the weights (of the last, the gradients) are not finite, so is `left`, and x may be NaN for the sake of taps
    that are not there. Raises an OpError that names the argument; MemoryError.
    """
    plan = _plan(name, specs_of(name, [a, b]), freeze(attrs, name))
    x = space.array(plan.outputs[0][0])
    data = plan.pack(address_of(a), address_of(b), address_of(x))
    if plan.kernel(plan.address, data, cpu.get_num_threads(), cpu.get_isa()):
        raise MemoryError(f"{name}: no memory for the kernel's working space")
    return _BOUNDS[name](x, a, b, attrs, space)


@lru_cache(maxsize=cpu.MAX_PLANS)
def _plan(name: str, inputs: tuple[Spec, ...], attrs: tuple[tuple[str, object], ...]) -> cpu.CpuCall:
    kernel = getattr(LIBRARY, f"repops_f64_{name}")
    kernel.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    return cpu.prepare(name, inputs, attrs)._replace(kernel=kernel)


# ------------------------------------------------------------------------------------------------------- norms


def _forward(y: F64, x: F32, w: F32, attrs: Attrs, space: Workspace) -> Bounded:
    """The norm of each filter, and of each window."""
    (images, _, *size), groups = x.shape, int(attrs["groups"])
    terms = math.prod(w.shape[1:])
    squares = f64_squares(x.reshape(images * groups, w.shape[1], math.prod(size)), space)
    plane = y.shape[2], y.shape[3]
    axes = _axes(size, plane, w.shape[2:], attrs["stride"], attrs["dilation"], attrs["padding"])
    windows = _window_norms(squares, axes, False, space).reshape(images, groups, *plane)
    filters = np.sqrt(f64_squares(w.reshape(w.shape[0], terms, 1), space)).reshape(w.shape[0], 1, 1)
    return Bounded(y, terms, filters, _each(windows, w.shape[0]))


def _input_grad(dx: F64, dy: F32, w: F32, attrs: Attrs, space: Workspace) -> Bounded:
    """The norm of w[:, c], and of what meets each position."""
    (images, _, *plane), groups, (filters, channels, *kernel) = dy.shape, int(attrs["groups"]), w.shape
    squares = f64_squares(dy.reshape(images * groups, filters // groups, math.prod(plane)), space)
    size = dx.shape[2], dx.shape[3]
    axes = _axes(size, plane, kernel, attrs["stride"], attrs["dilation"], attrs["padding"])
    windows = _window_norms(squares, axes, True, space).reshape(images, groups, *size)
    taps = math.prod(kernel)
    of_channels = f64_squares(w.reshape(groups, filters // groups, channels * taps), space)
    norms = np.sqrt(of_channels.reshape(groups * channels, taps).sum(-1)).reshape(-1, 1, 1)
    return Bounded(dx, filters // groups * taps, norms, _each(windows, groups * channels))


def _weight_grad(dw: F64, dy: F32, x: F32, attrs: Attrs, space: Workspace) -> Bounded:
    """The norm of dy[:, f], and of what of x[:, c] each tap reads."""
    (images, filters, *plane), (_, channels, *size), kernel = dy.shape, x.shape, (dw.shape[2], dw.shape[3])
    squares = f64_squares(dy.reshape(images * filters, math.prod(plane), 1), space)
    norms = np.sqrt(squares.reshape(images, filters).sum(0)).reshape(-1, 1, 1, 1)
    places = math.prod(size)
    planes = f64_squares(x.reshape(1, images, channels * places), space).reshape(channels, places)
    # A tap reads a window whose taps are the places of the output.
    axes = _axes(size, kernel, plane, attrs["dilation"], attrs["stride"], attrs["padding"])
    read = _window_norms(planes, axes, False, space).reshape(1, channels, *kernel)
    groups = int(attrs["groups"])
    if groups > 1:
        read = np.repeat(read.reshape(groups, channels // groups, *kernel), filters // groups, axis=0)
    return Bounded(dw, images * math.prod(plane), norms, read)


_BOUNDS = {"conv2d": _forward, "conv2d_input_grad": _input_grad, "conv2d_weight_grad": _weight_grad}


def _axes(
    size: Sequence[int],
    count: Sequence[int],
    taps: Sequence[int],
    step: Sequence[int],
    reach: Sequence[int],
    padding: Sequence[int],
) -> list[int]:
    """Two axes as csrc/windows.c has them."""
    return [int(part[d]) for d in (0, 1) for part in (size, count, taps, step, reach, padding)]


def _window_norms(planes: F64, axes: list[int], turned: bool, space: Workspace) -> F64:
    """Of each of the planes [planes, *], at windows, or turned at places."""
    result = axes[0] * axes[6] if turned else axes[1] * axes[7]
    norms = space.array((planes.shape[0], result))
    words = np.array([*axes, int(turned)], np.int64)
    if LIBRARY.repops_window_norms(
        *(words.ctypes.data, planes.shape[0], address_of(planes), address_of(norms)),
        *(cpu.get_num_threads(), cpu.get_isa()),
    ):
        raise MemoryError("no memory for the kernel's working space")
    return norms


def _each(windows: F64, channels: int) -> F64:
    """[N, G, ...] for the channels of each group: as it is where one group broadcasts, else [N, channels, ...]."""
    groups = windows.shape[1]
    return windows if groups == 1 else np.repeat(windows, channels // groups, axis=1)
