"""Data sets as committed tensors: read from untrusted files, written as a bundle, proven row by row.

    files ──> arrays / text / images ──> Dataset ──> bundle (data.safetensors, manifest.json)
                                            └──────> proof of a row ──> verified with the root alone

dataset    tensors with the same number of rows, their root, and the folder that holds them
arrays     .npz and .safetensors files
text       bytes or BPE tokens, in windows of next-token rows
images     a folder for each class
proof      a row against the root of a data set, or against the constants of a program

A recipe names a data set by its folder: `data=Dataset.read(Path("digits")).tensors`. Needs no torch.
"""

from .arrays import read_arrays
from .dataset import Dataset
from .images import read_images
from .proof import RowProof, prove
from .text import Tokens, read_text

__all__ = ["Dataset", "RowProof", "Tokens", "prove", "read_arrays", "read_images", "read_text"]
