"""i-CTRL: a later task against replayed memory, and memory that moves along with the encoder."""

import numpy as np
import pytest
import torch
from method_support import Learned
from support import DEVICES, pictures, tiny_recipe
from torch import Tensor

from ictrl import ICTRL, Recipe
from ictrl.training.players import Players
from ictrl.training.task import GameTask

COMPENSATED = {"drift_compensation": True}
DISTILLED = {"weights": {"distill_new": 5.0, "distill_replayed": 20.0}}


def memory_of(learner: ICTRL, labels: list[int]) -> dict[str, Tensor]:
    state = learner.memory.state()
    return {name: tensor.clone() for name, tensor in state.items() if int(name.split(".")[0]) in labels}


def test_without_a_recipe_the_defaults_are_taken() -> None:
    learner = ICTRL()
    assert (learner.recipe, learner.parameter_count) == (Recipe(), 2_367_104)


def test_learns_task_by_task_and_predicts_from_memory() -> None:
    learner = ICTRL(tiny_recipe(later=DISTILLED, memory=COMPENSATED))
    for task in ([30, -4], [7, 1000000], [2, 3]):
        assert learner.learn(*pictures(task)) is learner
    assert learner.classes_.tolist() == [-4, 2, 3, 7, 30, 1000000]
    assert list(learner.memory) == learner.labels == [-4, 30, 7, 1000000, 2, 3]
    assert learner.score(*pictures([30, -4, 7, 1000000, 2, 3], seed=1)) > 0.9


def test_joint_training_is_one_task_of_all_classes() -> None:
    learner = ICTRL(tiny_recipe()).learn(*pictures([0, 1, 2, 3]))
    assert learner.score(*pictures([0, 1, 2, 3], seed=1)) > 0.9


def test_tasks_of_one_class() -> None:
    learner = ICTRL(tiny_recipe(later=DISTILLED, memory=COMPENSATED))
    for label in range(4):
        learner.learn(*pictures([label]))
    assert learner.score(*pictures([0, 1, 2, 3], seed=1)) > 0.8


def test_scikit_learns_names() -> None:
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
    before, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = learned()
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], numbers)
    torch.manual_seed(2)
    images, _ = pictures([0, 1])
    assert torch.equal(first.residuals(images), learned().residuals(images))


@pytest.mark.parametrize("compensated", [False, True])
def test_old_memory_is_unchanged_by_learning_unless_drift_is_compensated(compensated: bool) -> None:
    learner = ICTRL(tiny_recipe(memory={"drift_compensation": compensated})).learn(*pictures([0, 1]))
    before = memory_of(learner, [0, 1])
    learner.learn(*pictures([2, 3]))
    after = memory_of(learner, [0, 1])
    moved = [not torch.equal(before[name], after[name]) for name in before if not name.endswith("count")]
    assert moved == [compensated] * len(moved)


@pytest.mark.parametrize("replayed", [0.0, 0.5])
def test_compensation_follows_the_encoder_exactly_where_it_turned(
    replayed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A game that only rotates all features: memory must rotate with them, whatever the images were."""
    kept = {**COMPENSATED, "compensation_ridge": 1e-7, "compensation_replayed": replayed}
    learner = ICTRL(tiny_recipe(memory=kept)).learn(*pictures([0, 1]))
    before = learner.memory[0]
    Q = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(0))).Q

    def rotate(players: Players, *_: object, **__: object) -> None:
        last = players.encoder.backbone.layers[-1]
        last.weight.data = torch.einsum("ij,jchw->ichw", Q, last.weight.data)

    monkeypatch.setattr("ictrl.methods.closed_loop.play_task", rotate)
    learner.learn(*pictures([2, 3]))
    after = learner.memory[0]
    assert float((after.mean - Q @ before.mean).norm()) < 0.02
    assert float((after.covariance - Q @ before.covariance @ Q.T).norm()) < 0.02 * float(before.covariance.norm())
    assert float((after.direction_means - before.direction_means @ Q.T).norm()) < 0.05
    assert float((after.mean - before.mean).norm()) > 0.5


def test_a_later_task_is_played_against_all_that_is_remembered(
    learned: Learned, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, played = learned(), list[GameTask]()
    monkeypatch.setattr("ictrl.methods.closed_loop.play_task", lambda players, task, *rest: played.append(task))
    images, labels = pictures([9, 7])
    learner.learn(images, labels)
    (task,) = played
    assert (task.classes, task.samples) == (6, learner.settings.memory.samples)
    assert torch.equal(task.y, torch.where(labels == 7, 4, 5))  # numbered after the old ones, labels ascending
    assert task.old is not None
    assert torch.equal(task.old.labels.unique(), torch.arange(4))
    assert task.images is not None
    assert torch.equal(task.images, images)


@pytest.mark.parametrize("optimiser", ["kept", "fresh"])
def test_the_optimisers_moments_are_kept_after_the_first_task_or_begun_afresh(optimiser: str) -> None:
    learner = ICTRL(tiny_recipe(game={"optimiser": optimiser})).learn(*pictures([0, 1]))
    kept = [bool(part.state) for part in learner._state.optimisers.values()]
    assert kept == [optimiser == "kept"] * 2
    learner.learn(*pictures([2, 3]))
    assert all(part.state for part in learner._state.optimisers.values())  # only then: later tasks keep theirs


def test_memory_takes_the_space_it_says(learned: Learned) -> None:
    learner = learned()
    stored = sum(tensor.numel() * tensor.element_size() for tensor in learner.memory.state().values())
    assert learner.kept_bytes == learner.memory.nbytes == stored + 8 * 4
    assert repr(learner.memory) == f"Memory(4 classes, {learner.memory.nbytes} bytes)"


def test_looking_does_not_change_what_is_learned_next() -> None:
    plain, watched = (ICTRL(tiny_recipe()).learn(*pictures([0, 1])) for _ in range(2))
    images, labels = pictures([0, 1])
    watched.sample(0, 5)
    watched.predict(images)
    watched.score(images, labels)
    watched.reconstruct(images)
    watched.replay_recognised()
    assert torch.equal(
        plain.learn(*pictures([2, 3])).residuals(images), watched.learn(*pictures([2, 3])).residuals(images)
    )


@pytest.mark.parametrize("moment", [1, 2])
def test_interrupted_learning_leaves_the_learner_as_it_was(moment: int) -> None:
    learner = ICTRL(tiny_recipe(memory=COMPENSATED)).learn(*pictures([0, 1]))
    other = ICTRL(tiny_recipe(memory=COMPENSATED)).learn(*pictures([0, 1]))
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
    undisturbed = ICTRL(tiny_recipe()).learn(*pictures([0, 1]))
    assert torch.equal(learner.learn(*pictures([0, 1])).residuals(images), undisturbed.residuals(images))


def test_ten_images_a_class_are_enough() -> None:
    learner = ICTRL(tiny_recipe()).learn(*pictures([0, 1], each=10)).learn(*pictures([2], each=10))
    assert learner.predict(pictures([0, 1, 2])[0]).shape == (60,)


def test_components_by_energy() -> None:
    recipe = tiny_recipe(classifier={"components": None, "energy": 0.9})
    assert ICTRL(recipe).learn(*pictures([0, 1])).score(*pictures([0, 1], seed=1)) > 0.9


@pytest.mark.skipif("cuda" not in DEVICES, reason="compares a GPU with the CPU; this machine has no GPU")
def test_gpu_and_cpu_agree() -> None:
    images, labels = pictures([0, 1])
    recipe = tiny_recipe(game={"precision": "float32"})
    on = {name: ICTRL(recipe, device=name) for name in DEVICES}
    Z = {name: learner.features(images).cpu() for name, learner in on.items()}
    assert torch.allclose(Z["cpu"], Z["cuda"], atol=1e-4)
    scores = {name: learner.learn(images, labels).score(*pictures([0, 1], seed=1)) for name, learner in on.items()}
    assert min(scores.values()) > 0.9
