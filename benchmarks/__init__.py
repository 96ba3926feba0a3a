"""Measurements of `scripts/bench.py`; docs/benchmarks.md has the figures.

contest       repops against torch: the tables of the next three
contractions  matrix products and convolutions
kernels       the other operators
composites    fused expressions
exact         the mode exact, torch and repops-f32
steps         a training step against eager torch, and the extra time of a commitment
commitments   hashing
disputes      transactions and gas, from the demonstration and from the contracts' gas snapshots
gpu_checks    comparisons of `scripts/gpu_check` on a GPU; gpu_timings its measurements
report        tables for the terminal and for Markdown, the plots
timing        functions timed in turns
"""

import contextlib

# NOTE: torch comes before repops loads its kernels. Both use one OpenMP runtime, which the first to load configures.
# torch lets threads spin while they wait, which is faster on an idle machine, and our setting must not slow torch.
with contextlib.suppress(ImportError):
    import torch  # noqa: F401
