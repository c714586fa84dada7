"""Three numbers from an accuracy matrix, affinity of subspaces, and how far apart two sets of features are."""

import numpy as np
import pytest
import torch
from scipy.linalg import orth, sqrtm, subspace_angles
from sklearn.metrics import roc_auc_score

from ictrl.theory.metrics import auroc, frechet_distance, inception_score, reliability, subspace_affinity, summarise

ROWS = [[0.9], [0.8, 1.0], [0.85, 0.6, 0.7]]


def test_equal_tasks() -> None:
    scores = summarise(ROWS, [10, 10, 10])
    assert scores.seen == pytest.approx([0.9, 0.9, (0.85 + 0.6 + 0.7) / 3])
    assert scores.last == scores.seen[-1]
    assert scores.average == pytest.approx(sum(scores.seen) / 3)
    assert scores.forgetting == pytest.approx(((0.9 - 0.85) + (1.0 - 0.6)) / 2)
    assert scores.matrix == [[0.9, None, None], [0.8, 1.0, None], [0.85, 0.6, 0.7]]


def test_every_image_counts_once() -> None:
    assert summarise(ROWS, [10, 30, 60]).seen == pytest.approx([0.9, (8 + 30) / 40, (8.5 + 18 + 42) / 100])


def test_getting_better_is_negative_forgetting() -> None:
    assert summarise([[0.5], [0.7, 1.0]], [1, 1]).forgetting == pytest.approx(-0.2)


def test_one_task_forgets_nothing() -> None:
    scores = summarise([[0.4]], [5])
    assert (scores.last, scores.average, scores.forgetting) == (0.4, 0.4, 0.0)


@pytest.mark.parametrize("rows", [[], [[0.5, 0.5]], [[0.5], [0.5]]])
def test_a_matrix_that_is_not_triangular_is_refused(rows: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="Expected a row of t accuracies after task t"):
        summarise(rows, [1, 1])


def reference_distance(one: np.ndarray, other: np.ndarray) -> float:
    """The formula as it stands, with SciPy's root of a matrix."""
    mean_1, mean_2 = one.mean(0), other.mean(0)
    cov_1, cov_2 = np.cov(one.T), np.cov(other.T)
    root = sqrtm(cov_1 @ cov_2)
    return float(((mean_1 - mean_2) ** 2).sum() + np.trace(cov_1 + cov_2 - 2 * root).real)


@pytest.mark.parametrize(("n", "m"), [(50, 40), (7, 40), (7, 5)], ids=["full rank", "one singular", "both singular"])
def test_frechet_distance_against_scipy(n: int, m: int) -> None:
    random = np.random.default_rng(0)
    mixing = random.normal(size=(12, 12))
    one, other = random.normal(size=(n, 12)), 2 * random.normal(size=(m, 12)) @ mixing + 1
    found = frechet_distance(torch.from_numpy(one), torch.from_numpy(other))
    assert found == pytest.approx(reference_distance(one, other), rel=1e-5)
    assert found == pytest.approx(frechet_distance(torch.from_numpy(other), torch.from_numpy(one)), rel=1e-12)


def test_distance_and_score_are_those_of_torchmetrics() -> None:
    """Recorded from torchmetrics 1.9.0, for the same numbers; its deviation of the score divides by n − 1."""
    random = np.random.RandomState(0)
    one, other = (torch.from_numpy(Z) for Z in (random.randn(40, 6), 1.5 * random.randn(30, 6) + 1))
    assert frechet_distance(one, other) == pytest.approx(5.80936188960106, rel=1e-9)
    probabilities = torch.from_numpy(3 * random.randn(50, 7)).softmax(1)
    shuffled = probabilities[torch.randperm(50, generator=torch.Generator().manual_seed(0))]
    mean, deviation = inception_score(shuffled, splits=5)
    assert mean == pytest.approx(2.8714313034899623, rel=1e-9)
    assert deviation * (5 / 4) ** 0.5 == pytest.approx(0.3091819937796494, rel=1e-6)


def test_frechet_distance_of_known_gaussians() -> None:
    Z = torch.randn(30, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shift = torch.tensor([1.0, -2.0, 0.0, 0.0, 2.0], dtype=torch.float64)
    assert frechet_distance(Z, Z) == pytest.approx(0, abs=1e-12)
    assert frechet_distance(Z, Z.flip(0) + shift) == pytest.approx(9)
    scaled = (Z - Z.mean(0)) * 3 + Z.mean(0)  # tr (3 - 1)² Σ
    assert frechet_distance(Z, scaled) == pytest.approx(4 * float(torch.cov(Z.T).trace()))
    constant = torch.ones(4, 5)
    assert frechet_distance(constant, constant) == 0
    with pytest.raises(ValueError, match="Expected at least 2 images in each set but got 30 and 1."):
        frechet_distance(Z, Z[:1])


def test_inception_score_against_its_formula() -> None:
    random = np.random.default_rng(0)
    p = random.dirichlet(np.full(6, 0.3), size=23)
    expected = [
        np.exp(np.mean([np.sum(row * (np.log(row) - np.log(part.mean(0)))) for row in part]))
        for part in np.array_split(p, 4)
    ]
    mean, deviation = inception_score(torch.from_numpy(p), splits=4)
    assert mean == pytest.approx(np.mean(expected))
    assert deviation == pytest.approx(np.std(expected))


def test_inception_score_reaches_from_1_to_the_number_of_classes() -> None:
    assert inception_score(torch.full((20, 5), 0.2)) == pytest.approx((1, 0))
    assert inception_score(torch.eye(5)[[0] * 20]) == pytest.approx((1, 0))  # zeros among the probabilities
    assert inception_score(torch.eye(5).repeat(10, 1), splits=10) == pytest.approx((5, 0))
    with pytest.raises(ValueError, match="Expected from 1 to 5 splits but got 6."):
        inception_score(torch.eye(5), splits=6)


@pytest.mark.parametrize(("q", "p"), [(1, 1), (3, 3), (2, 5), (6, 4)])
def test_affinity_is_the_mean_squared_cosine_of_the_principal_angles(q: int, p: int) -> None:
    random = np.random.default_rng(q + 10 * p)
    U, V = (orth(random.normal(size=(12, n))) for n in (q, p))
    expected = float(np.square(np.cos(subspace_angles(U, V))).mean())
    assert float(subspace_affinity(torch.from_numpy(U), torch.from_numpy(V))) == pytest.approx(expected)


def test_affinity_knows_the_ends_and_ignores_columns_of_zeros() -> None:
    eye = torch.eye(6, dtype=torch.float64)
    assert float(subspace_affinity(eye[:, :2], eye[:, :4])) == 1.0
    assert float(subspace_affinity(eye[:, :2], eye[:, 2:4])) == 0.0
    padded = torch.cat([eye[:, :1], torch.zeros(6, 2, dtype=torch.float64)], dim=1)
    assert float(subspace_affinity(padded, eye[:, :3])) == 1.0
    assert float(subspace_affinity(torch.zeros(6, 2), torch.zeros(6, 2))) == 0.0


def test_affinity_does_not_depend_on_the_basis(generator: torch.Generator) -> None:
    U, V = (torch.linalg.qr(torch.randn(5, 8, 3, dtype=torch.float64, generator=generator))[0] for _ in range(2))
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=generator))[0]
    assert torch.allclose(subspace_affinity(U @ turn, V), subspace_affinity(U, V))
    assert torch.allclose(subspace_affinity(V, U), subspace_affinity(U, V))


def test_the_calibration_error_of_a_hand_example() -> None:
    """Two bins: two images at 0.6 of which one is right, and two at 0.9 and 1.0 that are both right."""
    sure = torch.tensor([0.6, 0.6, 0.9, 1.0], dtype=torch.float64)
    found = reliability(torch.stack([sure, 1 - sure], 1), torch.tensor([0, 1, 0, 0]), bins=5)
    assert found.images == [0, 0, 2, 0, 2]  # a bin holds its upper end
    assert found.confidence == pytest.approx([0, 0, 0.6, 0, 0.95])
    assert found.accuracy == [0, 0, 0.5, 0, 1]
    assert found.ece == pytest.approx((2 * 0.1 + 2 * 0.05) / 4)


def test_the_calibration_error_is_that_of_its_definition(generator: torch.Generator) -> None:
    probabilities = (3 * torch.randn(500, 7, generator=generator)).softmax(1).double().numpy()
    rows = torch.randint(7, (500,), generator=generator).numpy()
    sure, right = probabilities.max(1), probabilities.argmax(1) == rows
    expected = 0.0
    for low in np.arange(15) / 15:
        inside = (sure > low) & (sure <= low + 1 / 15)
        if inside.any():
            expected += inside.mean() * abs(right[inside].mean() - sure[inside].mean())
    found = reliability(torch.from_numpy(probabilities), torch.from_numpy(rows))
    assert found.ece == pytest.approx(expected)
    assert sum(found.images) == 500


def test_probabilities_that_are_true_have_next_to_no_calibration_error(generator: torch.Generator) -> None:
    probabilities = (2 * torch.randn(50_000, 5, generator=generator)).softmax(1)
    rows = probabilities.multinomial(1, generator=generator)[:, 0]
    assert reliability(probabilities, rows).ece < 0.01
    assert reliability(probabilities.square() / probabilities.square().sum(1, keepdim=True), rows).ece > 0.1


def test_no_image_has_no_calibration_error() -> None:
    with pytest.raises(ValueError, match="at least one image"):
        reliability(torch.zeros(0, 3), torch.zeros(0).long())


def test_auroc_against_scikit_learn(generator: torch.Generator) -> None:
    known, strange = torch.randn(300, generator=generator), torch.randn(200, generator=generator) + 1
    known, strange = (10 * known).round(), (10 * strange).round()  # with ties
    labels = np.repeat([0, 1], [300, 200])
    assert auroc(known, strange) == pytest.approx(roc_auc_score(labels, torch.cat([known, strange]).numpy()))
    assert auroc(known, known) == pytest.approx(0.5)
