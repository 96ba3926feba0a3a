"""Recipes for measurements."""

from __future__ import annotations

from typing import Any

from trainer_node.capture import Recipe, load_recipe


def built_in(name: str, **options: Any) -> Recipe:
    """Return a built-in recipe that can be captured."""
    recipe = load_recipe(name, **options)
    assert isinstance(recipe, Recipe)
    return recipe
