"""The `driver` fixture of every test here."""

import importlib.util

if importlib.util.find_spec("torch"):
    from .host_driver import driver  # noqa: F401 - a fixture
