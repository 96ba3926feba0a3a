"""Errors on the way to a GPU.

    CudaUnavailable    no GPU, or a package is missing; the message says what to install
    RuleBroken         the GPU's tensor cores do not compute the mode tc16 (`rule`)
    CompileError       NVRTC refused a source
    LaunchError        the driver refused a module or a launch
(As everywhere, an `OpError` says that a call is not allowed; an `ArrayError` that an argument is not a CUDA tensor.)
"""

from __future__ import annotations

import shlex
import sys

PIP = f"{shlex.quote(sys.executable)} -m pip"
"""The `pip` of this environment: one on the path may belong to another."""


class CudaUnavailable(RuntimeError): ...


class RuleBroken(RuntimeError): ...


class CompileError(RuntimeError): ...


class LaunchError(RuntimeError): ...
