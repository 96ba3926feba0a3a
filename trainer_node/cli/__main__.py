"""`python -m trainer_node.cli` is `assay`."""

from . import main

main()
