"""Binary64 kernels for the mode rounded-f64: not operators, since the order of their sums is not defined.

sums      sums and contractions of binary32 operands, with the sums that error bounds need
conv      convolutions, with the norms that bound their errors
rounding  results rounded to a coarser grid, and which of them are near a midpoint
"""
