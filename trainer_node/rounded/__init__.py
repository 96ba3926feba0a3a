"""Libraries that compute in binary64, for programs in the mode rounded-f64 (docs/rounding-logs.md, section 6)."""

UNFOLDED_BYTES = 3 << 27
"""Bytes of memory that the unfolded images of a convolution may take."""
