"""adagauss: what a step pays for, and Gaussians that follow the encoder."""

from typing import Any

import numpy as np
import pytest
import torch
from method_support import TASKS, TEST_LABELS, TESTS, learner_of, recipe_of
from support import pictures
from torch import Tensor

from ictrl import ConfigError, EpochReport, create_learner
from ictrl.memory.triangles import whole
from ictrl.recipes.tables import recipe_with
from ictrl.theory.collapse import anti_collapse

STILL = {"epochs": 1, "batch": 40, "learning_rate": 1e-12}
LONGER = {"first": {"epochs": 20}, "later": {"epochs": 20, "learning_rate": 0.1}, "hidden": 8}
ADAPTED = {"epochs": 100, "learning_rate": 0.05, "samples": 5000}


def terms_of(learner: Any, task: tuple[Tensor, Tensor]) -> dict[str, float]:
    reports: list[EpochReport] = []
    learner.learn(*task, progress=reports.append)
    return reports[0].terms


def test_the_first_task_learns_rotations_as_classes() -> None:
    """Of an image all four, with features of the encoder as it was; the head that says so is drawn from the seed."""
    learner, other = (learner_of("adagauss", 0, first=STILL) for _ in range(2))
    terms = terms_of(learner, TASKS[0])
    assert set(terms) == {"cross_entropy", "anti_collapse"}
    networks = other._state.networks
    X = (TASKS[0][0].float() - 127.5) / 127.5
    turned = torch.from_numpy(np.concatenate([np.rot90(X.numpy(), k, (2, 3)) for k in range(4)]))
    rows = np.concatenate([4 * (TASKS[0][1] == 5).numpy() + k for k in range(4)])
    with torch.no_grad():
        logits = networks["head"].grown(8, other._state.generator)(Z := networks["encoder"].train()(turned))  # type: ignore[operator]
    log_probabilities = logits.log_softmax(1).numpy()
    assert terms["cross_entropy"] == pytest.approx(-log_probabilities[np.arange(160), rows].mean(), rel=1e-4)
    assert terms["anti_collapse"] == pytest.approx(float(anti_collapse(Z)), rel=1e-4)


def test_distillation_goes_through_the_projector(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one that gives features back as they are, it is the distance to features of before."""
    monkeypatch.setattr("ictrl.methods.adagauss.mlp", lambda *_: torch.nn.Identity())
    learner, other = (learner_of("adagauss", 1, later=STILL, distillation=4.0) for _ in range(2))
    terms = terms_of(learner, TASKS[1])
    encoder = other._state.networks["encoder"]
    X = (TASKS[1][0].float() - 127.5) / 127.5
    with torch.no_grad():
        before = encoder(X).numpy()
        now = encoder.train()(X).numpy()
    assert terms["distillation"] == pytest.approx(4 * ((before - now) ** 2).mean(), rel=1e-3)


def test_it_lets_features_move_less_the_more_distillation_weighs() -> None:
    """Up to a map that the projector can learn: what a linear fit from now to before leaves."""
    X, _ = TASKS[1]
    left = []
    for weight in (0.0, 30.0):
        learner: Any = learner_of("adagauss", 1, distillation=weight, **LONGER)
        before = learner.encode(X).numpy()
        now = learner.learn(*TASKS[1]).encode(X).numpy()
        fit = np.c_[now, np.ones(len(now))]
        residual = before - fit @ np.linalg.lstsq(fit, before, rcond=None)[0]
        left.append((residual**2).sum() / ((before - before.mean(0)) ** 2).sum())
    assert left[1] < left[0]


def test_the_gaussians_of_old_classes_follow_the_encoder() -> None:
    """Nearer to where their images' features are by now than those that were kept, if new images are of many kinds."""
    learner: Any = create_learner(recipe_of("adagauss", adapter={**ADAPTED, "batch": 40}, **LONGER))
    X, y = pictures([-4, 5, 7, 9], each=40)
    kept = learner.learn(X, y).kept["means"].clone()
    learner.learn(*pictures(list(range(40, 56)), each=40))
    Z = learner.encode(X)
    true = torch.stack([Z[y == label].mean(0) for label in (-4, 5, 7, 9)])
    assert float((learner.kept["means"][:4] - true).norm()) < 0.6 * float((kept - true).norm())
    assert learner.score(X, y) > 0.9


def test_new_gaussians_are_those_of_the_images_and_their_mirror_images() -> None:
    mirrored = {"mirror": True}
    learner: Any = learner_of("adagauss", first={"augmentation": mirrored}, later={"augmentation": mirrored})
    X, y = TASKS[1]
    Z = torch.cat([learner.encode(X), learner.encode(X.flip(-1))]).double().numpy()
    for row, label in ((2, 2), (3, 30)):
        z = Z[y.repeat(2).numpy() == label]
        np.testing.assert_allclose(learner.kept["means"][row], z.mean(0), atol=1e-5)
        np.testing.assert_allclose(whole(learner.kept["covariances"][row]), np.cov(z.T), atol=1e-5)


def test_scores_against_numpy() -> None:
    learner: Any = learner_of("adagauss")
    z = learner.encode(TESTS).double().numpy()
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    for column, label in enumerate(sorted(learner.labels)):
        row = learner.labels.index(label)
        mean, S = learner.kept["means"][row].double().numpy(), whole(learner.kept["covariances"][row]).double().numpy()
        S = S + 3 * np.diag(S).mean() * np.eye(16)
        s = np.sqrt(np.diag(S))
        u = z - mean / np.linalg.norm(mean)
        expected = -np.einsum("nd,de,ne->n", u, np.linalg.inv(S / np.outer(s, s)), u)
        np.testing.assert_allclose(learner.scores(TESTS)[:, column], expected, rtol=1e-3, atol=1e-5)


def test_it_forgets_less_than_finetuning() -> None:
    old = (TEST_LABELS == 5) | (TEST_LABELS == -4)
    learner = learner_of("adagauss", adapter=ADAPTED, **LONGER)
    finetuned = learner_of("finetune", first={"epochs": 20}, later={"epochs": 20, "learning_rate": 1e-2})
    assert finetuned.score(TESTS[old], TEST_LABELS[old]) < 0.2
    assert learner.score(TESTS[old], TEST_LABELS[old]) > 0.8
    assert learner.score(TESTS[~old], TEST_LABELS[~old]) > 0.9


def test_bytes_are_means_and_half_covariances() -> None:
    learner: Any = learner_of("adagauss")
    assert learner.kept_bytes == 4 * (8 + 4 * 16 + 4 * 16 * 17 // 2)
    assert learner._before is None
    assert (
        learner.parameter_count == create_learner(recipe_of("adagauss")).parameter_count
    )  # head and projector are gone


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"distillation": -1.0}, "Expected distillation to be at least 0 but got -1.0"),
        ({"anti_collapse": -1.0}, "Expected anti_collapse to be at least 0 but got -1.0"),
        ({"hidden": 0}, "Expected hidden to be at least 1 but got 0"),
        ({"shrinkage": 0.0}, "Expected shrinkage to be above 0 but got 0.0"),
        (
            {"later": {"batch": 16}},
            r"Expected later.batch to hold more images than there are features \(16\) but got 16",
        ),
        ({"first": {"batch": 4}}, r"Expected first.batch to hold more images than there are features \(16\) but got 4"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("adagauss"), {"method": settings})


def test_without_the_term_against_collapse_any_batch_will_do() -> None:
    recipe: Any = recipe_with(recipe_of("adagauss"), {"method": {"anti_collapse": 0.0, "later": {"batch": 2}}})
    assert recipe.method.later.batch == 2
