"""Commitments that bind every value of a run to one root (docs/protocol.md, section 2)."""

from .hashing import HASH_BYTES, Tag, digest
from .merkle import Hashes, Nodes, Tree, depth_of, empty, fold_descendants, fold_path, parents
from .record import MAX_INPUTS, MAX_OUTPUTS, NO_LOG, Record
from .tensor import LEAF_BYTES, DataTree, canonical, data_node, data_tree, describe, tensor_hash

__all__ = [
    "HASH_BYTES",
    "LEAF_BYTES",
    "MAX_INPUTS",
    "MAX_OUTPUTS",
    "NO_LOG",
    "DataTree",
    "Hashes",
    "Nodes",
    "Record",
    "Tag",
    "Tree",
    "canonical",
    "data_node",
    "data_tree",
    "depth_of",
    "describe",
    "digest",
    "empty",
    "fold_descendants",
    "fold_path",
    "parents",
    "tensor_hash",
]
