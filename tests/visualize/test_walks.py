"""Walks, great circles and images near a direction, against the mathematics they stand for."""

from collections.abc import Callable
from math import pi

import numpy as np
import pytest
import torch
from support import pictures
from torch import Tensor

from ictrl import ICTRL, InputError
from ictrl.memory.store import form_class_memory
from ictrl.visualize.walks import great_circle, interpolate, nearest, principal_directions, variation, walk


def features(n: int = 40, d: int = 6) -> Tensor:
    """Unit-length features that do not lie around 0."""
    random = torch.Generator().manual_seed(0)
    spread = torch.linspace(1.0, 0.1, d)
    return torch.nn.functional.normalize(torch.randn(n, d, generator=random) * spread + 0.4)


def test_principal_directions_are_those_that_memory_was_formed_on() -> None:
    Z = features()
    found = principal_directions(form_class_memory(Z, directions=4, neighbours=5, disjoint=False))
    expected = np.linalg.svd(Z.numpy())[2][:4]
    np.testing.assert_allclose(np.abs(found.numpy() @ expected.T), np.eye(4), atol=1e-3)


def test_variation_is_the_principal_components_of_the_centred_features() -> None:
    Z = features()
    deviations, directions = variation(form_class_memory(Z, directions=2, neighbours=5))
    _, singular, expected = np.linalg.svd(Z.numpy() - Z.numpy().mean(0))
    np.testing.assert_allclose(deviations, singular / 39**0.5, atol=1e-5)
    np.testing.assert_allclose(np.abs(directions.numpy() @ expected.T), np.eye(6), atol=1e-3)
    assert (directions.gather(1, directions.abs().argmax(1, keepdim=True)) > 0).all()  # the sign is settled


def test_few_features_vary_in_fewer_directions() -> None:
    deviations, directions = variation(form_class_memory(features(n=3), directions=2, neighbours=2))
    assert deviations.shape == (2,)
    assert directions.shape == (2, 6)


def test_a_walk_is_decoded_from_the_sphere_around_the_mean(learned: Callable[..., ICTRL]) -> None:
    learner = learned()
    kept = learner.memory[2]
    drawn = walk(learner, 2, direction=1, steps=5, sigmas=2.0)
    assert drawn.shape == (5, 1, 8, 8)
    assert drawn.dtype == torch.uint8
    values, vectors = np.linalg.eigh(kept.covariance.numpy().astype(np.float64))
    v, mean = vectors[:, -2] * np.sign(vectors[np.abs(vectors[:, -2]).argmax(), -2]), kept.mean.numpy()
    for picture, t in zip(drawn, (-2, -1, 0, 1, 2)):
        z = mean + t * values[-2] ** 0.5 * v
        expected = learner.decode(torch.tensor(z / np.linalg.norm(z), dtype=torch.float32)[None])[0]
        assert (picture.int() - expected.int()).abs().max() <= 1  # rounding of a pixel


def test_a_great_circle_has_unit_length_and_equal_steps() -> None:
    start, end = features()[:2]
    Z = great_circle(start, end, steps=7)
    torch.testing.assert_close(Z[0], start)
    torch.testing.assert_close(Z[-1], end)
    torch.testing.assert_close(Z.norm(dim=1), torch.ones(7))
    angles = (Z[:-1] * Z[1:]).sum(1).double().clamp(max=1).arccos()
    torch.testing.assert_close(angles, angles.mean().expand(6), rtol=1e-2, atol=1e-3)
    assert angles.sum() < pi


def test_a_great_circle_to_itself_stays_and_to_the_opposite_is_refused() -> None:
    start = features()[0]
    torch.testing.assert_close(great_circle(start, start, steps=3), start.expand(3, -1))
    with pytest.raises(InputError, match="not opposite"):
        great_circle(start, -start, steps=3)


def test_interpolation_begins_and_ends_with_reconstructions(learned: Callable[..., ICTRL]) -> None:
    learner = learned()
    images, _ = pictures([0, 1], seed=5)
    drawn = interpolate(learner, images[0], images[1], steps=4)
    ends = learner.reconstruct(images[:2])
    assert (drawn[[0, -1]].int() - ends.int()).abs().max() <= 1
    assert drawn.shape == (4, 1, 8, 8)


def test_the_nearest_images_project_furthest(learned: Callable[..., ICTRL]) -> None:
    learner = learned()
    images, labels = pictures([3], seed=5)
    found = nearest(learner, images, 3, direction=2, n=6)
    Z = learner.features(images).numpy()
    reach = np.abs(Z @ principal_directions(learner.memory[3])[2].numpy())
    assert found.tolist() == np.argsort(-reach)[:6].tolist()
    assert len(nearest(learner, images, 3, direction=0, n=1000)) == len(labels)


def test_features_are_decoded_and_what_is_none_is_refused(learned: Callable[..., ICTRL]) -> None:
    learner = learned()
    images, _ = pictures([0])
    assert torch.equal(learner.decode(learner.features(images)), learner.reconstruct(images))
    for wrong in (torch.zeros(2, 15), torch.zeros(16), torch.zeros(2, 16, dtype=torch.int64), torch.zeros(0, 16), None):
        with pytest.raises(InputError, match=r"Expected features as a float tensor \(n, 16\) but got"):
            learner.decode(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda learner, X: walk(learner, 9, 0), "Expected a learned label but got 9; learned are 0, 1, 2, 3."),
        (lambda learner, X: walk(learner, 0, 16), "Expected direction from 0 to 15 for label 0 but got 16."),
        (lambda learner, X: walk(learner, 0, -1), "Expected direction from 0 to 15 for label 0 but got -1."),
        (lambda learner, X: walk(learner, 0, 0, steps=1), "Expected steps to be at least 2 but got 1."),
        (lambda learner, X: walk(learner, 0, 0, sigmas=0), "Expected sigmas to be above 0 but got 0."),
        (lambda learner, X: walk(learner, 0, 0, sigmas=float("nan")), "Expected sigmas to be above 0 but got nan."),
        (lambda learner, X: interpolate(learner, X[0], X[1], steps=1), "Expected steps to be at least 2 but got 1."),
        (lambda learner, X: nearest(learner, X, 0, direction=3), "Expected direction from 0 to 2 for label 0 but got"),
        (lambda learner, X: nearest(learner, X, 0, direction=0, n=0), "Expected n to be at least 1 but got 0."),
        (lambda learner, X: nearest(learner, X.float(), 0, direction=0), "Expected uint8 images"),
    ],
)
def test_mistakes_are_refused(
    call: Callable[[ICTRL, Tensor], object], message: str, learned: Callable[..., ICTRL]
) -> None:
    with pytest.raises(InputError, match=message.replace(".", r"\.").replace("(", r"\(")):
        call(learned(), pictures([0])[0])
