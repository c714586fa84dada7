"""The classifiers, against scikit-learn's."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from torch import Tensor

from ictrl.config import ClassifierConfig
from ictrl.errors import InputError
from ictrl.memory.classifiers import GaussianClassifier, NearestSubspace, classifier_of
from ictrl.memory.store import Memory, form_class_memory
from ictrl.theory.statistics import Moments


def classes(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three classes around subspaces of their own, labels 7, −1 and 40."""
    generator = torch.Generator().manual_seed(seed)
    Z, y = [], []
    for label in (7, -1, 40):
        basis = torch.linalg.qr(torch.randn(10, 3, dtype=torch.float64, generator=generator)).Q
        mean = torch.randn(10, dtype=torch.float64, generator=generator)
        noise = 0.05 * torch.randn(60, 10, dtype=torch.float64, generator=generator)
        Z.append(mean + torch.randn(60, 3, dtype=torch.float64, generator=generator) @ basis.T + noise)
        y += [label] * 60
    return torch.cat(Z), torch.tensor(y)


def test_residuals_are_pcas() -> None:
    Z, y = classes()
    classifier = NearestSubspace.from_moments(Moments.of_features(Z, y), components=3)
    assert classifier.labels.tolist() == [-1, 7, 40]
    for column, label in enumerate((-1, 7, 40)):
        pca = PCA(n_components=3).fit(Z[y == label].numpy())
        missed = Z.numpy() - pca.inverse_transform(pca.transform(Z.numpy()))
        np.testing.assert_allclose(classifier.residuals(Z)[:, column], (missed**2).sum(1), atol=1e-10)


def test_predicts_the_class_of_the_smallest_residual() -> None:
    Z, y = classes()
    classifier = NearestSubspace.from_moments(Moments.of_features(Z, y), components=3)
    assert (classifier.predict(Z) == y).double().mean() > 0.97
    assert torch.equal(classifier.predict(Z), classifier.labels[classifier.residuals(Z).argmin(1)])


def test_memory_and_features_give_the_same_subspaces() -> None:
    Z, y = classes()
    memory = Memory({label: form_class_memory(Z[y == label], 3, 10) for label in (7, -1, 40)})
    from_memory = NearestSubspace.from_moments(Moments.of_classes(memory), components=4)
    from_features = NearestSubspace.from_moments(Moments.of_features(Z, y), components=4)
    assert torch.equal(from_memory.labels, from_features.labels)
    assert torch.allclose(from_memory.residuals(Z), from_features.residuals(Z))


@pytest.mark.parametrize("energy", [0.5, 0.9, 0.999, 1.0])
def test_energy_keeps_as_many_components_as_pca(energy: float) -> None:
    Z, y = classes()
    classifier = NearestSubspace.from_moments(Moments.of_features(Z, y), energy=energy)
    for j, label in enumerate(classifier.labels.tolist()):
        shares = PCA().fit(Z[y == label].numpy()).explained_variance_ratio_
        expected = int(np.searchsorted(np.cumsum(shares), energy - 1e-12) + 1)
        assert int((classifier.bases[j].norm(dim=0) > 0).sum()) == min(expected, 10)


def test_a_class_of_low_rank_gets_no_invented_directions() -> None:
    Z, y = classes()
    Z[y == 7] = Z[y == 7][:2].repeat(30, 1)  # two points: one direction
    classifier = NearestSubspace.from_moments(Moments.of_features(Z, y), components=5)
    kept = (classifier.bases.norm(dim=1) > 0).sum(1)
    assert dict(zip(classifier.labels.tolist(), kept.tolist())) == {-1: 5, 7: 1, 40: 5}


def test_identical_features_are_a_point() -> None:
    Z = torch.ones(4, 5, dtype=torch.float64)
    classifier = NearestSubspace.from_moments(Moments.of_features(Z, torch.zeros(4, dtype=torch.long)), components=2)
    assert classifier.residuals(torch.zeros(1, 5, dtype=torch.float64)).item() == pytest.approx(5.0)


@pytest.mark.parametrize(("components", "energy"), [(None, None), (3, 0.9)])
def test_either_components_or_energy(components: int | None, energy: float | None) -> None:
    with pytest.raises(InputError, match="either components or energy"):
        NearestSubspace.from_moments(Moments.of_features(*classes()), components=components, energy=energy)


def test_an_empty_memory_is_refused() -> None:
    with pytest.raises(InputError, match="learn a task first"):
        Moments.of_classes(Memory())


def test_gaussians_of_their_own_are_quadratic_discriminants() -> None:
    Z, y = classes()
    ours = GaussianClassifier.from_moments(Moments.of_features(Z, y), pooled=0.0, shrinkage=1e-9)
    theirs = QuadraticDiscriminantAnalysis(priors=[1 / 3] * 3).fit(Z.numpy(), y.numpy())
    likelihoods = theirs.decision_function(Z.numpy())  # up to a constant and −½
    np.testing.assert_allclose(
        -0.5 * (ours.residuals(Z) - ours.residuals(Z)[:, :1]), likelihoods - likelihoods[:, :1], rtol=0.05, atol=0.1
    )
    assert (ours.predict(Z).numpy() == theirs.predict(Z.numpy())).mean() > 0.99


def test_one_covariance_for_all_is_a_linear_discriminant() -> None:
    Z, y = classes()
    ours = GaussianClassifier.from_moments(Moments.of_features(Z, y), pooled=1.0, shrinkage=1e-9)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", priors=[1 / 3] * 3).fit(Z.numpy(), y.numpy())
    np.testing.assert_array_equal(ours.predict(Z).numpy(), theirs.predict(Z.numpy()))


def test_full_shrinkage_leaves_the_distance_to_the_means() -> None:
    Z, y = classes()
    ours = GaussianClassifier.from_moments(Moments.of_features(Z, y), pooled=1.0, shrinkage=1.0)
    means = torch.stack([Z[y == label].mean(0) for label in ours.labels])
    assert torch.equal(ours.predict(Z), ours.labels[torch.cdist(Z, means).argmin(1)])


def test_a_class_of_one_point_is_no_obstacle() -> None:
    Z, y = torch.cat([torch.zeros(5, 4), torch.ones(5, 4)]), torch.tensor([0] * 5 + [1] * 5)
    ours = GaussianClassifier.from_moments(Moments.of_features(Z, y), pooled=0.8, shrinkage=0.3)
    assert torch.equal(ours.predict(Z), y)


def test_views_are_judged_together() -> None:
    Z, y = classes()
    for kind in ("subspace", "gaussian"):
        judge = classifier_of(Moments.of_features(Z, y), ClassifierConfig(kind=kind, components=3))
        other = Z.flip(0)
        expected = judge.residuals(Z) + judge.residuals(other)
        assert torch.allclose(judge.judge(torch.stack([Z, other])), expected)
        assert torch.allclose(judge.judge(Z[None]), judge.residuals(Z))
        assert torch.equal(judge.decide(torch.stack([Z, other])), judge.labels[expected.argmin(1)])


def test_the_recipe_chooses_the_classifier() -> None:
    moments = Moments.of_features(*classes())
    assert isinstance(classifier_of(moments, ClassifierConfig(kind="subspace", components=3)), NearestSubspace)
    assert isinstance(classifier_of(moments, ClassifierConfig(kind="gaussian")), GaussianClassifier)
