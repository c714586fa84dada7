"""The demo shows learning: what an encoder learns from four letters tells sixteen others apart."""

from pathlib import Path

from ictrl import load_recipe
from ictrl.experiment.run import run
from ictrl.recipes.tables import recipe_with


def test_what_was_learned_beats_an_untrained_encoder_by_far(tmp_path: Path) -> None:
    """With a third of the recipe's epochs, which is enough to see it."""
    recipe = recipe_with(load_recipe("letters"), {"method": {"trunk": {"epochs": 15}}, "run": {"device": "cpu"}})
    results = run(recipe, tmp_path / "run").results
    assert results.untrained is not None
    assert [len(task) for task in results.tasks] == [4] * 5
    assert results.untrained.last < 0.5
    assert results.memory.last > results.untrained.last + 0.2
    assert results.memory.forgetting is not None
    assert results.memory.forgetting < 0.1
    assert results.kept_bytes < results.image_bytes / 20
