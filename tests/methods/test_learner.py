"""The object a user holds: what it learns, what it keeps, what it gives back."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from support import DEVICES, pictures, tiny_recipe

from ictrl import ICTRL, Recipe
from ictrl.config import AnchorsConfig, MemoryConfig
from ictrl.nets.dcgan import to_uint8
from ictrl.training.players import Players

Learned = Callable[..., ICTRL]
TRANSPORT = MemoryConfig(directions=3, neighbours=5, samples=4, transport=True)


def memory_of(learner: ICTRL, labels: list[int]) -> dict[str, torch.Tensor]:
    state = learner.memory.state()
    return {name: tensor.clone() for name, tensor in state.items() if int(name.split(".")[0]) in labels}


def test_without_a_recipe_the_defaults_are_taken() -> None:
    learner = ICTRL()
    assert (learner.recipe, learner.parameters) == (Recipe(), 2_367_104)


def test_learns_task_by_task_and_predicts_from_memory() -> None:
    learner = ICTRL(tiny_recipe(anchors=AnchorsConfig(new=5.0, replayed=20.0), memory=TRANSPORT))
    for task in ([30, -4], [7, 1000000], [2, 3]):
        assert learner.learn(*pictures(task)) is learner
    assert learner.classes_.tolist() == [-4, 2, 3, 7, 30, 1000000]
    assert learner.score(*pictures([30, -4, 7, 1000000, 2, 3], seed=1)) > 0.9


def test_joint_training_is_one_task_of_all_classes() -> None:
    learner = ICTRL(tiny_recipe()).learn(*pictures([0, 1, 2, 3]))
    assert learner.score(*pictures([0, 1, 2, 3], seed=1)) > 0.9


def test_tasks_of_one_class() -> None:
    learner = ICTRL(tiny_recipe(anchors=AnchorsConfig(new=5.0, replayed=20.0), memory=TRANSPORT))
    for label in range(4):
        learner.learn(*pictures([label]))
    assert learner.score(*pictures([0, 1, 2, 3], seed=1)) > 0.8


def test_what_comes_back_is_of_the_kind_that_went_in(learned: Learned) -> None:
    learner = learned()
    images, _ = pictures([0, 3])
    for give in (learner.predict, learner.residuals, learner.reconstruct):
        tensor, array = give(images), give(images.numpy())
        assert isinstance(tensor, torch.Tensor)
        assert isinstance(array, np.ndarray)
        np.testing.assert_array_equal(tensor.numpy(), array)
    assert learner.predict(images).dtype == torch.int64
    assert learner.residuals(images).shape == (40, 4)
    assert torch.equal(torch.from_numpy(learner.classes_)[learner.residuals(images).argmin(1)], learner.predict(images))
    assert learner.reconstruct(images).shape == images.shape
    assert learner.reconstruct(images).dtype == torch.uint8


def test_scikit_learns_names(learned: Learned) -> None:
    images, labels = pictures([0, 1])
    by_learn = ICTRL(tiny_recipe()).learn(images, labels)
    by_fit = ICTRL(tiny_recipe()).partial_fit(images.numpy(), labels.tolist())
    np.testing.assert_array_equal(by_learn.residuals(images.numpy()), by_fit.residuals(images.numpy()))
    expected = float((by_learn.predict(images) == labels).double().mean())
    assert by_learn.score(images, labels) == pytest.approx(expected)
    assert isinstance(by_learn.classes_, np.ndarray)


def test_read_only_and_strided_arrays_are_welcome() -> None:
    images, labels = pictures([0, 1])
    array = np.ascontiguousarray(images.numpy()[::-1])[::-1]
    array.flags.writeable = False
    learner = ICTRL(tiny_recipe()).learn(array, labels)
    assert torch.equal(torch.from_numpy(learner.predict(array)), learner.predict(images))


def test_the_same_seed_learns_the_same(learned: Learned) -> None:
    images, _ = pictures([0, 1, 2, 3])
    first, second = learned(), learned()
    assert torch.equal(first.residuals(images), second.residuals(images))
    other = ICTRL(tiny_recipe(), seed=1).learn(*pictures([0, 1])).learn(*pictures([2, 3]))
    assert not torch.equal(first.residuals(images), other.residuals(images))


def test_global_random_state_is_neither_used_nor_changed(learned: Learned) -> None:
    torch.manual_seed(1)
    np.random.seed(1)
    before = torch.get_rng_state()
    first = learned()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    images, _ = pictures([0, 1])
    assert torch.equal(first.residuals(images), learned().residuals(images))


def test_old_memory_is_unchanged_by_learning_unless_transported() -> None:
    for memory, changes in ((tiny_recipe().memory, False), (TRANSPORT, True)):
        learner = ICTRL(tiny_recipe(memory=memory)).learn(*pictures([0, 1]))
        before = memory_of(learner, [0, 1])
        learner.learn(*pictures([2, 3]))
        after = memory_of(learner, [0, 1])
        moved = [not torch.equal(before[name], after[name]) for name in before if not name.endswith("count")]
        assert moved == [changes] * len(moved)


@pytest.mark.parametrize("replayed", [0.0, 0.5])
def test_transport_follows_the_encoder_exactly_where_it_turned(
    replayed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A game that only rotates all features: memory must rotate with them, whatever the images were."""
    kept = replace(TRANSPORT, transport_ridge=1e-7, transport_replayed=replayed)
    learner = ICTRL(tiny_recipe(memory=kept)).learn(*pictures([0, 1]))
    before = learner.memory[0]
    Q = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(0))).Q

    def rotate(players: Players, *_: object, **__: object) -> None:
        last = players.encoder.layers[-1]
        last.weight.data = torch.einsum("ij,jchw->ichw", Q, last.weight.data)

    monkeypatch.setattr("ictrl.methods.ictrl.play", rotate)
    learner.learn(*pictures([2, 3]))
    after = learner.memory[0]
    assert float((after.mean - Q @ before.mean).norm()) < 0.02
    assert float((after.covariance - Q @ before.covariance @ Q.T).norm()) < 0.02 * float(before.covariance.norm())
    assert float((after.direction_means - before.direction_means @ Q.T).norm()) < 0.05
    assert float((after.mean - before.mean).norm()) > 0.5


def test_no_image_outlives_learning(learned: Learned) -> None:
    learner = ICTRL(tiny_recipe(anchors=AnchorsConfig(new=1.0), memory=TRANSPORT)).learn(*pictures([0, 1]))
    images, labels = pictures([2, 3], each=23)  # a number of images that no other test has
    array = images.numpy().copy()
    gone = [weakref.ref(images), weakref.finalize(array, lambda: None)]
    learner.learn(images, labels)
    learner.predict(array)
    learner.reconstruct(array)
    del images, array
    gc.collect()
    assert gone[0]() is None
    assert not gone[1].alive
    shapes = [t.shape for t in gc.get_objects() if type(t) is torch.Tensor and t.ndim == 4 and t.shape[0] == 46]
    assert shapes == []  # nor a copy of them


def test_memory_takes_the_space_it_says(learned: Learned) -> None:
    learner = learned()
    stored = sum(tensor.numel() * tensor.element_size() for tensor in learner.memory.state().values())
    assert learner.memory.nbytes == stored + 8 * 4
    assert repr(learner.memory) == f"Memory(4 classes, {learner.memory.nbytes} bytes)"


def test_samples_are_images_of_the_class(learned: Learned) -> None:
    learner = learned()
    for n in (1, 2, 7):
        sheet = learner.sample(2, n)
        assert sheet.shape == (n, 1, 8, 8)
        assert sheet.dtype == torch.uint8
    assert learner.sample(2, 5, direction=1).shape == (5, 1, 8, 8)


def test_samples_along_a_direction_come_from_its_gaussian(learned: Learned) -> None:
    learner = learned()
    kept = learner.memory[0]
    with torch.no_grad():
        middle = to_uint8(learner.decoder(kept.direction_means))
    for i in range(3):
        mean = learner.sample(0, 400, direction=i).float().mean(0)
        distances = (middle.float() - mean).square().flatten(1).sum(1)
        assert int(distances.argmin()) == i


def test_looking_does_not_change_what_is_learned_next() -> None:
    plain, watched = (ICTRL(tiny_recipe()).learn(*pictures([0, 1])) for _ in range(2))
    images, labels = pictures([0, 1])
    watched.sample(0, 5)
    watched.predict(images)
    watched.score(images, labels)
    watched.reconstruct(images)
    assert torch.equal(
        plain.learn(*pictures([2, 3])).residuals(images), watched.learn(*pictures([2, 3])).residuals(images)
    )


@pytest.mark.parametrize("moment", [1, 2])
def test_interrupted_learning_leaves_the_learner_as_it_was(moment: int) -> None:
    learner = ICTRL(tiny_recipe(memory=TRANSPORT)).learn(*pictures([0, 1]))
    other = ICTRL(tiny_recipe(memory=TRANSPORT)).learn(*pictures([0, 1]))
    images, _ = pictures([0, 1, 2, 3])

    def stop(report: object) -> None:
        if report.epoch == moment:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(*pictures([2, 3]), progress=stop)
    assert learner.classes_.tolist() == [0, 1]
    assert torch.equal(learner.residuals(images), other.residuals(images))
    # and it can go on as if nothing had happened
    assert torch.equal(
        learner.learn(*pictures([2, 3])).residuals(images), other.learn(*pictures([2, 3])).residuals(images)
    )


def test_interrupted_first_task_leaves_a_new_learner() -> None:
    def stop(report: object) -> None:
        raise KeyboardInterrupt

    learner = ICTRL(tiny_recipe())
    with pytest.raises(KeyboardInterrupt):
        learner.learn(*pictures([0, 1]), progress=stop)
    images, _ = pictures([0, 1])
    assert torch.equal(learner.learn(*pictures([0, 1])).residuals(images), first_task().residuals(images))


def first_task() -> ICTRL:
    return ICTRL(tiny_recipe()).learn(*pictures([0, 1]))


def test_two_images_a_class_are_enough() -> None:
    learner = ICTRL(tiny_recipe()).learn(*pictures([0, 1], each=2)).learn(*pictures([2], each=2))
    assert learner.predict(pictures([0, 1, 2])[0]).shape == (60,)


def test_components_by_energy() -> None:
    recipe = tiny_recipe()
    recipe = replace(recipe, classifier=replace(recipe.classifier, components=None, energy=0.9))
    assert ICTRL(recipe).learn(*pictures([0, 1])).score(*pictures([0, 1], seed=1)) > 0.9


@pytest.mark.skipif("cuda" not in DEVICES, reason="compares a GPU with the CPU; this machine has no GPU")
def test_gpu_and_cpu_agree() -> None:
    images, labels = pictures([0, 1])
    recipe = tiny_recipe()
    recipe = replace(recipe, game=replace(recipe.game, precision="float32"))
    on = {name: ICTRL(recipe, device=name) for name in DEVICES}
    Z = {name: learner.features(images).cpu() for name, learner in on.items()}
    assert torch.allclose(Z["cpu"], Z["cuda"], atol=1e-4)
    scores = {name: learner.learn(images, labels).score(*pictures([0, 1], seed=1)) for name, learner in on.items()}
    assert min(scores.values()) > 0.9
