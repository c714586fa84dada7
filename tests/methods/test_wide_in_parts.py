"""Wide memory of images that are looked at in parts is that of all at once, and no more of them are in memory."""

import pytest
import torch

from ictrl import create_learner, load_dataset, load_recipe
from ictrl.methods import wide_reading
from ictrl.recipes.tables import recipe_with


@pytest.mark.parametrize("reduction", ["none", "channels"])
def test_images_in_parts_are_remembered_as_all_at_once(reduction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = {"reduction": reduction, "sizes": [5]}
    recipe = recipe_with(
        load_recipe("digits"),
        {"method": {"trunk": {"epochs": 1, "warmup": 0}, "reading": reading}, "stream": {"tasks": 2}},
    )
    dataset = load_dataset(recipe.stream, 16, 1)
    learners, at_once = [], []
    phi = wide_reading.WideReader._phi
    for most in (10**6, 100):
        monkeypatch.setattr(wide_reading, "AT_ONCE", most)
        learner = create_learner(recipe)
        seen: list[int] = []
        monkeypatch.setattr(
            wide_reading.WideReader,
            "_phi",
            lambda self, X, memory, seen=seen: (seen.append(len(X)), phi(self, X, memory))[1],
        )
        for first in (0, 5):
            chosen = (dataset.labels >= first) & (dataset.labels < first + 5)
            learner.learn(dataset.images[chosen], dataset.labels[chosen])
        learner.predict(dataset.test_images)
        learners.append(learner)
        at_once.append(max(seen))
    whole, parts = learners
    assert at_once[0] > 300
    assert at_once[1] == 100
    assert parts.kept.counts.tolist() == whole.kept.counts.tolist()
    torch.testing.assert_close(parts.kept.means, whole.kept.means, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(parts.kept.covariance(), whole.kept.covariance(), rtol=1e-3, atol=1e-4)
    assert parts.kept.calibration.images.tolist() == whole.kept.calibration.images.tolist()
    assert parts.temperature() == pytest.approx(whole.temperature(), rel=1e-2)
    X = dataset.test_images
    assert (parts.predict(X) == whole.predict(X)).double().mean() > 0.99
    torch.testing.assert_close(parts.strangeness(X), whole.strangeness(X), rtol=0, atol=1e-2)
