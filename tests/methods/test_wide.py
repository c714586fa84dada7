"""wide: an encoder that learns once, memory of its stages that is exact, and nothing that gives an image away."""

from typing import Any

import pytest
import torch
from method_support import TASKS, TEST_LABELS, TESTS, everything, learner_of, recipe_of
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from support import pictures

from ictrl import ICTRL, ConfigError, InputError, create_learner
from ictrl.config import AugmentationConfig
from ictrl.data import tasks_from_arrays
from ictrl.experiment.evaluation import only_remembering
from ictrl.methods.wide import Wide
from ictrl.methods.wide_ictrl import WideICTRL
from ictrl.nets.dcgan import Encoder
from ictrl.recipes.tables import recipe_with


def encoder_of(learner: Wide) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in everything(learner).items() if name.startswith("encoder.")}


def test_the_encoder_learns_the_first_task_and_never_again() -> None:
    new, first, second = (learner_of("wide", tasks) for tasks in (0, 1, 2))
    names = [name for name in encoder_of(new) if name.endswith("weight")]
    assert any(not torch.equal(encoder_of(new)[name], encoder_of(first)[name]) for name in names)
    assert all(torch.equal(tensor, encoder_of(second)[name]) for name, tensor in encoder_of(first).items())
    assert not any(name.startswith(("head", "projector", "network")) for name in everything(first))


def test_memory_is_that_of_all_images_at_once() -> None:
    """Task by task or together: counts, means and covariance are the same, up to the steps of a correlation."""
    learner = learner_of("wide")
    X, y = (torch.cat(parts) for parts in zip(*TASKS))
    phi = learner.wide_features(X)
    memory = learner.kept
    centred = torch.cat([phi[y == label] - phi[y == label].mean(0) for label in learner.labels])
    expected = centred.T @ centred / (len(y) - 4)
    scale = expected.diagonal().sqrt()
    apart = (memory.covariance() - expected).abs() / (scale[:, None] * scale).clamp(min=1e-12)
    assert float(apart.max()) < 2 / 32767
    for mean, label in zip(memory.means, learner.labels):
        torch.testing.assert_close(mean, phi[y == label].mean(0))
    assert memory.counts.tolist() == [20] * 4


def test_it_classifies_as_scikit_learn_does() -> None:
    """With so many images that the covariance is of full rank, and next to no ridge."""
    learner = create_learner(recipe_of("wide", reading={"pool": 1, "ridge": 1e-6}, network={"width": 4}))
    learner.learn(*pictures([0, 1], each=150)).learn(*pictures([2, 3], each=150))
    X, y = (torch.cat(parts) for parts in zip(pictures([0, 1], each=150), pictures([2, 3], each=150)))
    reference = LinearDiscriminantAnalysis(solver="lsqr", priors=[0.25] * 4).fit(learner.wide_features(X), y)
    tests, _ = pictures([0, 1, 2, 3], each=40, seed=5)
    expected = reference.predict(learner.wide_features(tests).numpy())
    assert (learner.predict(tests).numpy() == expected).mean() > 0.98


def test_it_tells_classes_apart_and_forgets_none() -> None:
    learner = learner_of("wide")
    assert learner.score(TESTS, TEST_LABELS) > 0.9


def test_all_bytes_are_counted() -> None:
    learner = learner_of("wide")
    D = learner.kept.means.shape[1]
    assert learner.kept_bytes == 4 * (8 + 4 * D + 8) + 8 * D + 2 * D * (D - 1) // 2


def test_a_class_of_few_images_is_refused_and_changes_nothing() -> None:
    learner = learner_of("wide", 1)
    before = everything(learner)
    with pytest.raises(InputError, match=r"at least 10 training images of each class but got 9 of class '7'"):
        learner.learn(*pictures([7], each=9))
    after = everything(learner)
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_the_features_of_an_image_cannot_be_computed_from_what_is_kept() -> None:
    """The attack of two sets of moments: what is kept of n images has no part that leaves one of them out."""
    X, y = pictures([0, 1], each=10)
    learner = create_learner(recipe_of("wide")).learn(X, y)
    phi, memory = learner.wide_features(X), learner.kept
    guesses = torch.cat([memory.means, memory.covariance().float(), 10 * memory.means - 9 * memory.means.roll(1, 0)])
    distances = torch.cdist(guesses, phi)
    spread = torch.cdist(phi, phi).mean()
    assert float(distances.min()) > 0.1 * float(spread)


def test_only_remembering_is_the_floor() -> None:
    learner = create_learner(recipe_of("wide"))
    _, tasks = tasks_from_arrays([(*TASKS[0], *TASKS[0]), (*TASKS[1], *TASKS[1])])
    rows = only_remembering(learner.remembering(), tasks)
    assert [len(row) for row in rows] == [1, 2]
    assert rows[-1][0] > 0.5
    assert not learner.labels  # the learner itself has learned nothing


@pytest.mark.parametrize("settings", [{"rotations": 0.0}, {"self_supervision": {"weight": 0.0}}])
def test_either_half_of_the_loss_can_be_left_out(settings: dict[str, object]) -> None:
    seen: list[set[str]] = []
    learner = create_learner(recipe_of("wide", trunk=settings))
    learner.learn(*TASKS[0], progress=lambda report: seen.append(set(report.terms)))
    assert seen[0] == ({"rate", "agreement"} if "rotations" in settings else {"rotations"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trunk": {"rotations": 0.0, "self_supervision": {"weight": 0.0}}}, "nothing would be learned"),
        ({"trunk": {"batch": "rule"}}, "batch to be a number"),
        ({"reading": {"pool": 0}}, "reading.pool to be at least 1"),
        ({"reading": {"ridge": 0.0}}, "auto. or above 0"),
        ({"trunk": {"rotations": -1.0}}, "at least 0"),
        ({"trunk": {"self_supervision": {"eps_sq": 0.0}}}, "eps_sq above 0"),
    ],
)
def test_settings_out_of_range(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("wide"), {"method": settings})


def test_augmentation_is_used() -> None:
    plain, cropped = (
        learner_of("wide", 1, trunk={"augmentation": vars(AugmentationConfig(crop=crop))}) for crop in (1.0, 0.3)
    )
    names = [name for name in encoder_of(plain) if name.endswith("weight")]
    assert any(not torch.equal(encoder_of(plain)[name], encoder_of(cropped)[name]) for name in names)


def test_an_encoder_without_stages_among_ours_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match='^Expected network.kind "dcgan", "resnet" or "resnet18" .* but got "mlp".$'):
        create_learner(recipe_of("wide", network={"kind": "mlp"}))


@pytest.mark.parametrize("kind", [Wide, ICTRL, WideICTRL])
def test_pixels_of_ones_own_encoder_are_not_scaled_in_silence(kind: Any) -> None:
    recipe = recipe_of(kind.settings_type.name)
    given = Encoder(8, 1, 4, 16)
    kind(recipe, encoder=given)
    scaled = recipe_with(recipe, {"method": {"network": {"pixel_means": (0.3,), "pixel_deviations": (0.2,)}}})
    with pytest.raises(ConfigError, match="Expected no network.pixel_means with an encoder of your own"):
        kind(scaled, encoder=given)
