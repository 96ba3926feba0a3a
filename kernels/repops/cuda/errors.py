"""What can go wrong on the way to a GPU.

    CudaUnavailable    no GPU, or a package is missing; the message says what to install
    CompileError       NVRTC refused a source
    LaunchError        the driver refused a module or a launch
(`OpError`s, as everywhere, say that a call is not allowed; `ArrayError` that an argument is no CUDA tensor.)
"""

from __future__ import annotations


class CudaUnavailable(RuntimeError): ...


class CompileError(RuntimeError): ...


class LaunchError(RuntimeError): ...
