"""Learn image classes one task after another, without keeping an old image."""

from ictrl.config import Recipe
from ictrl.errors import ConfigError, InputError, NonFiniteError
from ictrl.learner import ICTRL
from ictrl.recipefiles import load_recipe, recipe_names

__all__ = ["ICTRL", "ConfigError", "InputError", "NonFiniteError", "Recipe", "load_recipe", "recipe_names"]
__version__ = "0.1.0"
