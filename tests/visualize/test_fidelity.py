"""How real drawings look, measured with a judge that is simple enough to check."""

from collections.abc import Callable

import pytest
import torch
from support import pictures
from torch import Tensor
from visualize.stand_in_judges import Means, QuickInception

from ictrl import ICTRL, InputError
from ictrl.data import Dataset, Task
from ictrl.data.dataset import numbered
from ictrl.theory.metrics import frechet_distance, inception_score
from ictrl.visualize.fidelity import SETS, measure, measure_each
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


def test_sets_are_compared_with_training_images(learned: Callable[..., ICTRL], tasks: list[Task]) -> None:
    found = measure(learned(), tasks, Means(), images=60, enough=10)
    assert (found.distance, found.features, found.inception_scores) == ("frechet_means", 8, {})
    test = {"test images": 50, "reconstructions": 50}
    assert found.overall.images == {"training": 60, **test, "samples": 60}
    assert found.by_class[3].images == {"training": 15, "test images": 5, "reconstructions": 5, "samples": 15}
    few = found.by_class[3]
    assert (few.distances, few.precision, few.recall, few.copies) == ({}, {}, {}, None)
    assert tuple(few.recognised) == SETS  # this is told of any number
    for comparison in (found.overall, *(found.by_class[label] for label in (0, 1, 2))):
        assert tuple(comparison.distances) == tuple(comparison.precision) == tuple(comparison.recall) == SETS
        assert 0 < comparison.distances["test images"] < comparison.distances["reconstructions"]
        assert comparison.classified == {}
        assert comparison.copies is not None


def test_as_few_samples_as_test_images_are_further_away(learned: Callable[..., ICTRL], tasks: list[Task]) -> None:
    """A distance from fewer images is larger by chance: the same samples, and fewer of them."""
    whole = measure(learned(), tasks, Means(), images=120).overall
    assert (whole.images["samples"], whole.images["test images"]) == (120, 65)
    assert whole.fewer_samples is not None
    assert whole.fewer_samples != whole.distances["samples"]
    assert whole.fewer_samples == pytest.approx(whole.distances["samples"], rel=0.5)
    assert measure(learned(), tasks, Means(), images=20).overall.fewer_samples is None


def test_with_all_images_the_distances_are_those_of_the_sets(learned: Callable[..., ICTRL], tasks: list[Task]) -> None:
    learner, judge = learned(), Means()
    found = measure(learner, tasks, judge, images=1000, enough=20)
    assert measure(learned(), tasks, judge, images=1000, enough=20) == found  # nothing is left to chance
    training = tasks[0].images[tasks[0].labels == 1]
    test = tasks[0].test_images[tasks[0].test_labels == 1]
    floor = frechet_distance(look(judge, training, learner.device), look(judge, test, learner.device))
    assert found.by_class[1].distances["test images"] == pytest.approx(floor)
    assert found.by_class[1].images == {"training": 30, "test images": 20, "reconstructions": 20, "samples": 30}


def draws(monkeypatch: pytest.MonkeyPatch, tasks: list[Task], training: bool) -> None:
    """A learner that draws the images it was shown, or those it was not."""

    def sample(self: ICTRL, label: int, n: int, direction: int | None = None) -> Tensor:
        task = next(task for task in tasks if label in task.classes)
        images = task.images[task.labels == label] if training else task.test_images[task.test_labels == label]
        return images.repeat(n // len(images) + 1, 1, 1, 1)[:n]

    monkeypatch.setattr(ICTRL, "sample", sample)


def test_who_draws_what_it_was_shown_is_found_out(
    learned: Callable[..., ICTRL], tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    draws(monkeypatch, tasks, training=True)
    whole = measure(learned(), tasks, Means(), images=120).overall
    assert whole.copies is not None
    assert (whole.copies.share, whole.copies.nearness) == (1.0, 0.0)
    assert whole.precision["samples"] > 0.9  # no other figure tells copies from drawings
    draws(monkeypatch, tasks, training=False)
    whole = measure(learned(), tasks, Means(), images=120).overall
    assert whole.copies is not None
    assert whole.copies.share <= whole.copies.expected
    assert whole.copies.nearness == pytest.approx(1.0, abs=0.05)
    assert whole.recognised["samples"] == pytest.approx(whole.recognised["test images"], abs=0.05)


def test_shares_are_told_of_a_classifier_too(learned: Callable[..., ICTRL], tasks: list[Task]) -> None:
    class Other(ICTRL):
        def predict(self, images: Tensor) -> Tensor:
            return torch.full((len(images),), 2)

    other = Other(learned().recipe)
    whole = measure(learned(), tasks, Means(), images=1000, classifier=other)
    assert {label: shares.classified["samples"] for label, shares in whole.by_class.items()} == {0: 0, 1: 0, 2: 1, 3: 0}
    assert whole.overall.classified["samples"] == pytest.approx(30 / 120)
    assert whole.overall.classified["test images"] == pytest.approx(20 / 65)


def test_learners_of_several_tasks_are_measured_with_one_look(learned: Callable[..., ICTRL], tasks: list[Task]) -> None:
    looks: list[int] = []

    class Counting(Means):
        def forward(self, images: Tensor) -> Tensor:
            looks.append(len(images))
            return super().forward(images)

    early, late = ICTRL(learned().recipe).learn(*pictures([0, 1])), learned()
    told: list[tuple[int, int]] = []
    found = measure_each([early, late], tasks, Counting(), 60, progress=lambda *done: told.append(done))
    assert [sorted(one.by_class) for one in found] == [[0, 1], [0, 1, 2, 3]]
    assert found[0].by_class[1].images == found[1].by_class[1].images
    assert told == [(step, 8 + 2 * 2 + 2 * 4) for step in range(1, 21)]
    test, training = 50, 60
    assert sum(looks) == (training + test) + (30 + 30) + (training + test)
    alone = measure(learned(), tasks, Means(), 60)
    assert alone.overall.distances["test images"] == found[1].overall.distances["test images"]


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


def test_fewer_images_than_neighbours_have_no_precision(learned: Callable[..., ICTRL], tasks: list[Task]) -> None:
    early = ICTRL(learned().recipe).learn(*pictures([0, 1]))
    whole = measure(early, tasks, Means(), images=3).overall
    assert whole.images == {"training": 2, **dict.fromkeys(SETS, 2)}
    assert (whole.precision, whole.recall) == ({}, {})
    assert tuple(whole.distances) == SETS
