"""A service of language models whose answers can be computed again, bit for bit, by whoever has the model."""
