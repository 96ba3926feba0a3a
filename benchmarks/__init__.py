"""What `scripts/bench.py` measures; docs/benchmarks.md has the figures.

contest       ours against torch's: the tables of the next three
contractions  matrix products and convolutions
kernels       the other operators
composites    fused expressions
steps         a training step against eager torch; what a commitment adds
commitments   hashing
disputes      transactions and gas, from the demonstration and from the contracts' gas snapshots
gpu_checks    what `scripts/gpu_check` compares on a GPU; gpu_timings what it measures
report        tables for the terminal and for Markdown, the plots
timing        functions timed in turns
"""

import contextlib

# NOTE: before repops loads its kernels. Both use one OpenMP runtime, which whoever comes first sets up; torch's way,
# with threads that spin while they wait, is the faster one on an idle machine, and torch shall not be slowed by ours.
with contextlib.suppress(ImportError):
    import torch  # noqa: F401
