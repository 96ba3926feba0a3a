"""Convolutions of binary32 tensors in binary64, with the norms that bound their errors (csrc/contractions).

Patches are never materialised. A tap that does not exist is skipped or multiplied by zero.

NOTE: these functions are not operators. Their sums have no defined order, so their last bits differ between machines.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..host import cpu
from ..host.library import LIBRARY
from ..host.memory import address_of
from ..opset import Attrs, Spec
from ..tensors import freeze, specs_of
from .sums import Workspace, f64_squares

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Pair = tuple[int, int]

LIBRARY.repops_window_norms.restype = ctypes.c_int
LIBRARY.repops_window_norms.argtypes = [
    *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
]


class Bounded(NamedTuple):
    """Results `x` with a bound: the magnitudes of an element's `terms` products add up to at most `left` times `right`,
    apart from the rounding of these two norms. Both broadcast to x.
    """

    x: F64
    terms: int
    left: F64
    right: F64


def conv(name: str, a: F32, b: F32, attrs: Attrs, space: Workspace) -> Bounded:
    """Compute `conv2d`, `conv2d_input_grad` or `conv2d_weight_grad` of plain arrays.

    If the weights (for the last one, the gradients) are not finite, `left` is not finite, and x may be NaN because of
    taps that do not exist. Raise OpError, which names the argument, or MemoryError.
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
    """Bound by the norms of each filter and of each window."""
    (images, _, *size), groups = x.shape, int(attrs["groups"])
    terms = math.prod(w.shape[1:])
    squares = f64_squares(x.reshape(images * groups, w.shape[1], math.prod(size)), space)
    plane = y.shape[2], y.shape[3]
    axes = _axes(size, plane, w.shape[2:], attrs["stride"], attrs["dilation"], attrs["padding"])
    windows = _window_norms(squares, axes, False, space).reshape(images, groups, *plane)
    filters = np.sqrt(f64_squares(w.reshape(w.shape[0], terms, 1), space)).reshape(w.shape[0], 1, 1)
    return Bounded(y, terms, filters, _each(windows, w.shape[0]))


def _input_grad(dx: F64, dy: F32, w: F32, attrs: Attrs, space: Workspace) -> Bounded:
    """Bound by the norms of w[:, c] and of the gradients that reach each position."""
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
    """Bound by the norms of dy[:, f] and of the part of x[:, c] that each tap reads."""
    (images, filters, *plane), (_, channels, *size), kernel = dy.shape, x.shape, (dw.shape[2], dw.shape[3])
    squares = f64_squares(dy.reshape(images * filters, math.prod(plane), 1), space)
    norms = np.sqrt(squares.reshape(images, filters).sum(0)).reshape(-1, 1, 1, 1)
    places = math.prod(size)
    planes = f64_squares(x.reshape(1, images, channels * places), space).reshape(channels, places)
    # The window of a tap has one element for each place of the output.
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
    """Return two axes in the order of csrc/contractions/windows.c."""
    return [int(part[d]) for d in (0, 1) for part in (size, count, taps, step, reach, padding)]


def _window_norms(planes: F64, axes: list[int], turned: bool, space: Workspace) -> F64:
    """Return the norms of each of the planes [planes, *] at its windows; if `turned`, at its places."""
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
    """Broadcast [N, G, ...] to the channels of each group: [N, channels, ...], or unchanged if G is 1."""
    groups = windows.shape[1]
    return windows if groups == 1 else np.repeat(windows, channels // groups, axis=1)
