"""The independent classifier: trained on real images alone, kept, and read only where it fits."""

import json
from pathlib import Path

import pytest
import torch
from support import pictures

from ictrl import Recipe, load_recipe
from ictrl.data import Task, tasks_from_arrays
from ictrl.errors import InputError
from ictrl.methods.storage import LEARNER, read_stored
from ictrl.visualize import independent
from ictrl.visualize.independent import NOTE, Training, describe, independent_classifier, mirrors

SHORT = Training("dcgan", epochs=8, mirror=False)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


def stream(*groups: list[int], seed: int = 0) -> list[Task]:
    return tasks_from_arrays([(*pictures(group, 40, seed), *pictures(group, 10, seed + 1)) for group in groups])[1]


def split(tasks: list[Task], *groups: list[int]) -> list[Task]:
    """The same images in other tasks."""
    dataset = tasks[0].dataset
    rows = [
        [torch.isin(y, torch.tensor(group)).nonzero().flatten() for y in (dataset.labels, dataset.test_labels)]
        for group in groups
    ]
    return [Task(tuple(group), dataset, *both) for group, both in zip(groups, rows)]


def test_it_knows_the_classes_and_is_read_again(cache: Path) -> None:
    tasks, epochs = stream([0, 1], [2]), []
    learner, path, read = independent_classifier(
        tasks, SHORT, device="cpu", progress=lambda report: epochs.append(report.epoch)
    )
    assert (path.parent, read, epochs) == (cache / "classifiers", False, [*range(1, 9)])
    for task in tasks:
        assert float((learner.predict(task.test_images) == task.test_labels).double().mean()) > 0.9
    again, same, read = independent_classifier(split(tasks, [2, 0], [1]), SHORT, device="cpu")
    assert (same, read) == (path, True)  # the order of tasks does not matter
    assert torch.equal(again.scores(tasks[0].test_images), learner.scores(tasks[0].test_images))
    assert not learner.keeps_images
    assert json.loads(read_stored(path, LEARNER).notes[NOTE]) == describe(tasks, SHORT)


def test_other_images_classes_or_settings_are_another_classifier() -> None:
    tasks = stream([0, 1])
    known = describe(tasks, SHORT)
    others = [
        describe(stream([0, 1], seed=5), SHORT),
        describe(stream([0, 2]), SHORT),
        describe(tasks, Training("dcgan", epochs=9, mirror=False)),
        describe(tasks, Training("dcgan", epochs=8, mirror=True)),
    ]
    assert all(other != known for other in others)
    changed = [name for name in known if others[1][name] != known[name]]
    assert changed == ["classes", "images"]


def test_a_named_file_that_does_not_fit_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "judge.safetensors"
    independent_classifier(stream([0, 1]), Training("dcgan", 1, False), path, device="cpu")
    before = path.read_bytes()
    with pytest.raises(
        InputError, match=r"judge.safetensors differs in its epochs, classes, images: name another file"
    ):
        independent_classifier(stream([0, 2]), SHORT, path, device="cpu")
    path.write_bytes(before[:-7])
    with pytest.raises(InputError, match=r"Expected a saved learner but .*judge.safetensors is "):
        independent_classifier(stream([0, 1]), SHORT, path, device="cpu")
    assert path.read_bytes() == before[:-7]
    with pytest.raises(
        InputError, match=r"Expected a file that ends in .safetensors for the classifier but got judge.$"
    ):
        independent_classifier(stream([0, 1]), SHORT, Path("judge"), device="cpu")


def test_a_damaged_file_of_the_cache_is_trained_anew() -> None:
    tasks, quick = stream([0, 1]), Training("dcgan", 1, False)
    first, path, _ = independent_classifier(tasks, quick, device="cpu")
    path.write_bytes(b"nothing")
    second, again, read = independent_classifier(tasks, quick, device="cpu")
    assert (again, read) == (path, False)
    images = tasks[0].test_images
    assert torch.equal(first.scores(images), second.scores(images))  # the very same
    assert independent_classifier(tasks, quick, device="cpu")[2]


def test_what_suits_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = stream([0, 1])
    assert Training.suited(tasks, "cpu", mirror=True) == Training("dcgan", 100, True)  # 80 images: one step per epoch
    assert Training.suited(tasks, "cpu", mirror=False, epochs=3).epochs == 3
    monkeypatch.setattr(independent, "STEPS", 5)
    assert Training.suited(tasks, "cpu", mirror=False).epochs == 20
    assert [mirrors(load_recipe(name)) for name in ("ictrl-cifar10-5", "ictrl-mnist-5")] == [True, False]
    assert not mirrors(Recipe())
