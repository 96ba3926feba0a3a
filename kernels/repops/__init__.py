"""repops: neural-network operators whose results are defined bit for bit, the same on every machine."""
