"""Operators on the processor: the library of C kernels, and what calls it.

library      loads librepops, in the best form for this processor
memory       operands and results as addresses; tensors of their own memory
environment  the floating-point environment of the calling thread
cpu          operators of the table
exact        the same in the mode `exact`
strided      operators on views, for executors that plan memory ahead
chains       an element's chain of steps
hashing      Merkle trees over the bytes of tensors
"""
