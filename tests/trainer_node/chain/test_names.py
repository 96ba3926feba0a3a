"""The names that the chain's package hands on when they are asked for."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from trainer_node import chain


def test_every_name_is_what_its_module_has_and_no_module_hides_it() -> None:
    modules = {path.stem for path in Path(chain.__file__).parent.iterdir()}
    assert not modules & set(chain.__all__)
    assert set(chain.__all__) == set(chain._PLACES)
    for name in chain.__all__:
        assert not isinstance(getattr(chain, name), ModuleType), name
