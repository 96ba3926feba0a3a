"""Programs at full speed: the step's operators grouped into kernels, its values placed once and for all.

graph     a program as numbered values
views     reshape, permute, expand and slice without a copy
groups    which operators become one kernel
bodies    what each kernel computes, and which values are in memory
tasks     the kernel calls
schedule  their order, and which slots are updated in place
memory    a place for every value
machine   the CPU, or a GPU: kernels and memory
step      `Compiled`: a step, ready to run
"""

from .machine import Buffer, Cpu, Cuda, Machine
from .step import Compiled

__all__ = ["Buffer", "Compiled", "Cpu", "Cuda", "Machine"]
