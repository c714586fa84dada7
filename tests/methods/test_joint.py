"""joint: every image is kept and learned anew with each task, so that nothing is forgotten and nothing is saved."""

from pathlib import Path

import pytest
import torch
from method_support import TASKS, everything, learner_of, recipe_of, same, undisturbed
from support import pictures

from ictrl import ConfigError, InputError, create_learner, load_learner
from ictrl.methods.joint import Joint
from ictrl.methods.storage import LEARNER, read_stored, write_stored
from ictrl.recipes.tables import recipe_with


def test_the_first_task_is_not_forgotten() -> None:
    learner = learner_of("joint", tasks=0, stage={"epochs": 8})
    learner.learn(*pictures([0, 1])).learn(*pictures([2, 3]))
    assert learner.score(*pictures([0, 1], seed=1)) > 0.95
    assert learner.score(*pictures([2, 3], seed=1)) > 0.95


def test_it_says_that_it_keeps_every_image_and_counts_them() -> None:
    learner = learner_of("joint")
    assert Joint.keeps_images
    images = torch.cat([images for images, _ in TASKS])
    assert torch.equal(learner.kept_tensors()["images"], images)
    assert learner.kept_bytes == images.numel() + 8 * len(images) + 8 * 4  # pixels, a row of the head each, labels


def test_the_images_kept_are_a_copy() -> None:
    images, labels = (part.clone() for part in TASKS[0])
    learner = create_learner(recipe_of("joint")).learn(images, labels)
    assert learner.kept_tensors()["images"].data_ptr() != images.data_ptr()
    images.zero_()
    assert torch.equal(learner.kept_tensors()["images"], TASKS[0][0])


def test_each_task_begins_with_new_networks() -> None:
    """What it knows after two tasks does not depend on what the first had taught its networks."""
    learner = learner_of("joint", tasks=1)
    with torch.no_grad():
        for network in learner._state.networks.values():
            for number in network.parameters():
                number.zero_()
    assert same(everything(learner.learn(*TASKS[1])), undisturbed("joint"))


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("memory.images", torch.zeros(80, 1, 8, 8)),
        ("memory.images", torch.zeros(79, 1, 8, 8, dtype=torch.uint8)),
        ("memory.rows", torch.full((80,), 4)),
        ("memory.rows", torch.full((80,), -1)),
    ],
)
def test_images_that_do_not_fit_are_refused(name: str, tensor: torch.Tensor, tmp_path: Path) -> None:
    learner_of("joint").save(tmp_path / "learner")
    stored = read_stored(tmp_path / "learner", LEARNER)
    assert stored.tensors[name].shape[0] == 80
    stored.tensors[name] = tensor
    write_stored(tmp_path / "learner", LEARNER, stored)
    with pytest.raises(InputError, match=r"do not fit: (images|rows) "):
        load_learner(tmp_path / "learner")


def test_what_only_the_game_has_is_refused() -> None:
    with pytest.raises(ConfigError, match='Expected stage.batch to be a number but got "rule"'):
        recipe_with(recipe_of("joint"), {"method": {"stage": {"batch": "rule"}}})
