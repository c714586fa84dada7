"""A run folder holds no picture of the user's, unless it is asked to."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from private_support import holds, pictures_in, shows
from run_support import outcome, quick, stopped_run, timeless
from safetensors.torch import load_file
from torch import Tensor

from ictrl import InputError, Recipe, StreamConfig
from ictrl.data.resize import fit
from ictrl.experiment.run import resume, run
from ictrl.experiment.run_data import stream_of
from ictrl.methods.base import LEARNERS
from ictrl.recipes.tables import recipe_with
from ictrl.report import write_report


def private(kind: str, **changes: object) -> Recipe:
    return quick(kind, run={"keep_pictures": 0}, **changes)


def images_of(recipe: Recipe) -> Tensor:
    """Every image of a run, training and test."""
    _, tasks = stream_of(recipe)
    return torch.cat([part for task in tasks for part in (task.images, task.test_images)])


@pytest.mark.parametrize("kind", ["ictrl", "frozen", "wide-ictrl", "wide-gan", "wide", "finetune", "slda"])
def test_no_file_of_a_run_holds_an_image(kind: str, tmp_path: Path) -> None:
    recipe, out = private(kind), tmp_path / "run"
    run(recipe, out)
    write_report([out])
    images = images_of(recipe)
    assert not (out / "pictures").exists()
    assert holds(out, images) == []
    for name, picture in pictures_in(out):  # drawn from memory: of nobody
        assert not shows(picture, images), name
    for path in (out / "checkpoint").iterdir():
        assert all(tensor.dtype != torch.uint8 or tensor.ndim < 4 for tensor in load_file(path).values())


def test_own_pictures_stay_where_they_are(tmp_path: Path) -> None:
    recipe = quick("ictrl")
    _, tasks = stream_of(recipe)
    for label in range(3):
        (tmp_path / "own" / f"class {label}").mkdir(parents=True)
        rows = (tasks[0].labels == label).nonzero()[:, 0]
        for i, image in enumerate(tasks[0].images[rows]):
            Image.fromarray(image[0].numpy()).save(tmp_path / "own" / f"class {label}" / f"{i}.png")
    own = StreamConfig(dataset="folder", root=str(tmp_path / "own"), task_sizes=(2, 1), test_share=0.1)
    recipe = replace(recipe, stream=own, run=replace(recipe.run, keep_pictures=0))
    run(recipe, tmp_path / "run")
    write_report([tmp_path / "run"])
    images = images_of(recipe)
    assert holds(tmp_path / "run", images) == []
    assert not any(shows(picture, images) for _, picture in pictures_in(tmp_path / "run"))


@pytest.mark.parametrize("kind", ["er", "joint"])
def test_methods_that_keep_images_have_them_in_their_checkpoints_alone(kind: str, tmp_path: Path) -> None:
    recipe, out = private(kind), tmp_path / "run"
    run(recipe, out)
    write_report([out])
    assert LEARNERS[kind].keeps_images
    assert set(holds(out, images_of(recipe))) == {"after-task-002.safetensors", "after-task-003.safetensors"}


def test_pictures_that_are_asked_for_change_nothing_else(tmp_path: Path) -> None:
    kept, none = (run(quick("ictrl", run={"keep_pictures": n}), tmp_path / str(n)) for n in (2, 0))
    assert timeless(replace(kept.results, recipe=none.results.recipe)) == timeless(none.results)
    assert outcome(tmp_path / "2")["tensors"] == outcome(tmp_path / "0")["tensors"]
    write_report([tmp_path / "2"])
    images = images_of(quick("ictrl"))
    assert {name for name, picture in pictures_in(tmp_path / "2") if shows(picture, images)} == {
        "originals.png",
        "reconstructions.png",
        "report.html",
    }


def test_what_an_earlier_setting_kept_is_removed(tmp_path: Path) -> None:
    out = stopped_run(quick("ictrl", run={"keep_pictures": 3}), tmp_path / "run", epochs=6)
    assert (out / "pictures" / "originals.png").exists()
    resume(out, keep_pictures=3)
    write_report([out])
    assert (out / "figures" / "reconstructions.png").exists()
    resume(out, keep_pictures=0)
    assert not (out / "pictures").exists()
    assert not (out / "figures" / "reconstructions.png").exists()
    assert not (out / "report.html").exists()  # which showed them
    page = write_report([out]).page.read_text(encoding="utf-8")
    assert "--keep-pictures 4" in page
    resume(out, keep_pictures=1)
    assert sorted(path.name for path in (out / "pictures").iterdir()) == ["after-task-003.png", "originals.png"]


def test_a_small_class_is_named_before_anything_is_learned(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"but got 9 of class '0', and too few of 9 more"):
        run(quick("frozen", stream={"limit": 9}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert run(recipe_with(quick("finetune"), {"stream": {"limit": 9}}), tmp_path / "other").results.complete


def test_data_that_lost_a_class_has_changed_since_the_run(tmp_path: Path) -> None:
    images = torch.randint(0, 256, (36, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    labels = np.arange(3).repeat(12)
    path = tmp_path / "own.npz"
    np.savez(path, images=fit(images, 8, 1).numpy(), labels=labels)
    recipe = recipe_with(
        quick("finetune"), {"stream": {"dataset": "npz", "root": str(path), "task_sizes": [], "tasks": 3}}
    )
    out = stopped_run(recipe, tmp_path / "run", epochs=3)
    np.savez(path, images=images[:24].numpy(), labels=labels[:24])
    with pytest.raises(InputError, match=r"it has changed since the run \(Expected a number of tasks that divides"):
        resume(out)
