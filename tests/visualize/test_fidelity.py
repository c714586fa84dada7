"""How real drawings look, measured with a judge that is simple enough to check."""

from collections.abc import Callable

import pytest
import torch
from support import pictures
from visualize.stand_in_judges import Means, QuickInception

from ictrl import ICTRL, InputError
from ictrl.data import Dataset, Task
from ictrl.data.dataset import numbered
from ictrl.theory.metrics import frechet_distance, inception_score
from ictrl.visualize.fidelity import SETS, measure
from ictrl.visualize.judges import look


@pytest.fixture
def tasks() -> list[Task]:
    """Of class 3 there are fewer test images than of the others."""
    images, labels = pictures([0, 1, 2, 3], each=30)
    test_images, test_labels = pictures([0, 1, 2, 3], each=20, seed=1)
    few = torch.cat([(test_labels != 3).nonzero().flatten(), (test_labels == 3).nonzero().flatten()[:5]])
    dataset = Dataset("stripes", images, labels, test_images[few], test_labels[few], numbered(labels))

    def task(*classes: int) -> Task:
        rows, test_rows = (
            torch.isin(y, torch.tensor(classes)).nonzero().flatten() for y in (dataset.labels, dataset.test_labels)
        )
        return Task(classes, dataset, rows, test_rows)

    return [task(0, 1), task(2, 3)]


def test_sets_of_equal_size_are_compared_with_training_images(learned: Callable[..., ICTRL], tasks: list[Task]) -> None:
    found = measure(learned(), tasks, Means(), images=60, enough=10)
    assert (found.distance, found.features, found.inception_scores) == ("frechet_means", 8, {})
    assert found.overall.images == 15 + 15 + 15 + 5
    assert {label: comparison.images for label, comparison in found.by_class.items()} == {0: 15, 1: 15, 2: 15}
    for comparison in (found.overall, *found.by_class.values()):
        assert tuple(comparison.distances) == SETS
        assert 0 < comparison.distances["test images"] < comparison.distances["reconstructions"]


def test_with_all_images_the_distances_are_those_of_the_sets(learned: Callable[..., ICTRL], tasks: list[Task]) -> None:
    learner, judge = learned(), Means()
    found = measure(learner, tasks, judge, images=1000, enough=20)
    assert sorted(found.by_class) == [0, 1, 2]
    test = tasks[0].test_images[tasks[0].test_labels == 1]
    chosen = measure(learned(), tasks, judge, images=1000, enough=20).by_class[1]
    assert chosen == found.by_class[1]  # nothing is left to chance
    training = tasks[0].images[tasks[0].labels == 1]
    floor = frechet_distance(look(judge, training, learner.device), look(judge, test, learner.device))
    assert found.by_class[1].distances["test images"] == pytest.approx(floor, rel=0.5)  # from 20 of 30 of them


def test_perfect_reconstructions_come_out_at_the_floor(
    learned: Callable[..., ICTRL], tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ICTRL, "reconstruct", lambda self, images: images)
    distances = measure(learned(), tasks, Means(), images=80).overall.distances
    assert distances["reconstructions"] == distances["test images"]


def test_inception_gives_its_score_too(learned: Callable[..., ICTRL], tasks: list[Task]) -> None:
    judge = QuickInception()
    found = measure(learned(), tasks, judge, images=1000)
    assert found.distance == "fid"
    assert tuple(found.inception_scores) == SETS
    every = torch.cat([task.test_images for task in tasks])
    mean, deviation = found.inception_scores["test images"]
    assert deviation > 0
    assert mean == pytest.approx(
        inception_score(judge.probabilities(look(judge, every, torch.device("cpu"))), 1)[0], rel=0.1
    )


def test_mistakes_are_refused(learned: Callable[..., ICTRL], tasks: list[Task]) -> None:
    with pytest.raises(InputError, match="Expected images to be at least 4 but got 3."):
        measure(learned(), tasks, Means(), images=3)
    with pytest.raises(InputError, match="Expected data with class 2, which was learned, but it has no such class."):
        measure(learned(), tasks[:1], Means(), images=40)
