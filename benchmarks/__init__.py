"""What `scripts/bench.py` measures; docs/benchmarks.md has the figures.

timing       two functions timed in turns
kernels      each operator against torch's
steps        a training step against eager torch; what a commitment adds
commitments  hashing
disputes     transactions and gas, from the demonstration and from the contracts' gas snapshots
report       tables for the terminal and for Markdown, the plot
"""
