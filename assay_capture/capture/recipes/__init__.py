"""Recipes by name: built-in ones, and those of a file.

named      the table of names: `load_recipe`, `BUILTIN`
digits     small models of scikit-learn's handwritten digits
models     models of vision and of language, full-size and tiny, on synthetic data
synthetic  data for them, made from a seed
"""

from .named import BUILTIN, load_recipe

__all__ = ["BUILTIN", "load_recipe"]
