"""What learners draw of the same classes: by class, by direction, after every task."""

from typing import Any

import pytest
import torch
from method_support import learner_of

from ictrl import InputError
from ictrl.methods.capabilities import with_seed
from ictrl.visualize.gallery import Artist, by_class, by_direction, by_task, classes_of, compared, nearest_of

NAMES = {-4: "owl", 2: "cat", 5: "dog", 30: "fox"}


def artist_of(method: str, names: dict[int, str] = NAMES, tasks: int = 2) -> Artist:
    learner = learner_of(method, tasks)
    return Artist(learner, {label: name for label, name in names.items() if label in learner.labels}, method)


@pytest.mark.parametrize("method", ["ictrl", "wide-ictrl", "mergan", "eec", "dgr"])
def test_a_class_is_drawn_the_same_whatever_was_drawn_before(method: str) -> None:
    artist = artist_of(method)
    whole = by_class(artist, ["owl", "cat", "dog"], 3, seed=1)
    assert [row.name for row in whole.rows] == ["owl", "cat", "dog"]
    (alone,) = by_class(artist, ["cat"], 3, seed=1).rows
    assert torch.equal(alone.cells[0], whole.rows[1].cells[0])  # type: ignore[arg-type]
    other = by_class(artist, ["cat"], 3, seed=2).rows[0].cells[0]
    assert other is not None
    assert other.shape == (3, 1, 8, 8)
    assert not torch.equal(other, alone.cells[0])  # type: ignore[arg-type]


def test_looking_changes_nothing_of_what_is_drawn_next() -> None:
    learner, twin = learner_of("ictrl"), learner_of("ictrl")
    with_seed(learner, 7).sample(5, 4)
    assert torch.equal(learner.sample(5, 4), twin.sample(5, 4))


def test_directions_stand_in_columns() -> None:
    artist: Any = artist_of("ictrl")
    panel = by_direction(artist, ["dog", "owl"], 2, seed=0)
    r = len(artist.learner.recall(5).direction_means)
    assert panel.columns == [f"direction {i + 1}" for i in range(r)]
    for i, cell in enumerate(panel.rows[0].cells):
        assert torch.equal(cell, with_seed(artist.learner, 0).sample(5, 2, i))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"draw along directions \(.*ictrl.*\) but mergan cannot"):
        by_direction(artist_of("mergan"), ["dog"], 2, seed=0)


def test_tasks_stand_in_columns_and_a_class_begins_with_its_own() -> None:
    states = [(f"after {t}", artist_of("ictrl", tasks=t)) for t in (1, 2)]
    panel = by_task(iter(states), ["dog", "fox"], 2, seed=0)
    assert panel.columns == ["after 1", "after 2"]
    assert panel.rows[1].cells[0] is None
    for (_, artist), cell in zip(states, panel.rows[0].cells):
        assert torch.equal(cell, with_seed(artist.learner, 0).sample(5, 2))  # type: ignore[arg-type]


def test_classes_are_those_of_the_first_and_then_of_the_others() -> None:
    ours, theirs = artist_of("ictrl"), artist_of("mergan", {2: "cat", 5: "bee", -4: "owl", 30: "fox"})
    assert classes_of([ours, theirs]) == ["owl", "cat", "dog", "fox", "bee"]
    assert by_class(theirs, ["dog"], 1, 0).rows[0].cells == [None]
    with pytest.raises(InputError, match=r"share classes but ictrl knows owl, cat, dog … and mergan knows a: make"):
        classes_of([ours, Artist(theirs.learner, {2: "a"}, "mergan")])


def test_the_nearest_image_stands_below_each_picture() -> None:
    panel = by_class(artist_of("ictrl"), ["dog"], 3, seed=0)
    (drawn,) = panel.rows[0].cells
    assert drawn is not None
    images = torch.cat([torch.zeros(2, 1, 8, 8, dtype=torch.uint8), drawn.flip(0)])
    (row,) = compared(panel, nearest_of(images)).rows
    assert row.below_name == "nearest"
    assert torch.equal(row.below[0], drawn)  # type: ignore[arg-type]
