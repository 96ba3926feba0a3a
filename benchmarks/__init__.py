"""Measurements, which `scripts/bench.py` lists and runs; docs/measurements/ has the figures.

contest          repops against torch: the tables of the next three
contractions     matrix products and convolutions
kernels          the other operators
composites       fused expressions
peak             matrix products against the peak of the processor
exact            the mode exact, torch and repops-f32
eager            a training step of eager torch
tensor_core      the mode tc16 on a processor, beside the other modes and torch
steps            a training step against eager torch, and the extra time of a commitment
models           steps of full-size models (recipes); their peak memory (peak_memory)
modes            a step in each mode
bf16             losses in bf16
commitments      hashing
chains           a trial for the honest side
disputes         transactions and gas, from the demonstration and from the contracts' gas snapshots
fees             a worst dispute and its prize, over years of base fees
gpt_dispute      a dispute about a GPT; its audits (audits)
soak             a day of a deployment
serving          answers of a language model beside `transformers.generate`
rounding         rounding logs: _logs, _paper, _runs and _sums measure one thing each
gpu_checks       comparisons of `scripts/gpu_check` on a GPU; gpu_exact, gpu_steps, gpu_timings its measurements
report           tables for the terminal and for Markdown, the plots
timing           functions timed in turns
"""

import contextlib

# NOTE: torch comes before repops loads its kernels. Both use one OpenMP runtime, which the first to load configures.
# torch lets threads spin while they wait, which is faster on an idle machine, and our setting must not slow torch.
with contextlib.suppress(ImportError):
    import torch  # noqa: F401
