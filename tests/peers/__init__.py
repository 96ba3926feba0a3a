"""PyTorch's own tables of functions and modules as a suite: what capture says of each of their samples must be so.

`op_db` and `module_db` are the tables that PyTorch tests itself with. Each sample is captured with its gradients,
executed, and compared with eager PyTorch.

samples    the tables' samples as cases, drawn from a seed
judge      the outcome of a case: right, refused, skipped, or one that fails
run        all cases of a part in a process that can be resumed
ledger     the table that a rerun is compared with, and docs/measurements/peers.md

`make peer-suites` runs all parts and writes both files; the quick tests run a sample of the functions.
"""
