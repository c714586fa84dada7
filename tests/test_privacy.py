"""What someone with a learner's file can compute: the attacks succeed where images are kept, and fail where none is."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support import ROOT, pictures, script, tiny_recipe
from torch import Tensor

from ictrl import ICTRL, InputError
from ictrl.memory.few_images import LEAST, check_enough
from ictrl.memory.store import form_class_memory
from ictrl.memory.wide_memory import nothing_yet
from ictrl.methods.base import LEARNERS, create_learner, load_learner
from ictrl.methods.storage import LEARNER, read_stored
from ictrl.recipes.tables import recipe_with
from ictrl.theory.metrics import auroc
from ictrl.theory.statistics import ClassStatistics

sys.path.insert(0, str(ROOT / "experiments"))  # where the script finds its neighbour
attacks = script("attacks")
privacy = script("privacy")

FOUND = 0.01  # of the features' spread
BOUND = 0.8  # area under the ROC curve of telling what was learned from what was not
STATISTICS = [
    "adagauss",
    "analytic",
    "fearnet",
    "fecam",
    "frozen",
    "ictrl",
    "redunet",
    "slda",
    "wide",
    "wide-gan",
    "wide-ictrl",
]


def unit(n: int, d: int, seed: int = 0) -> Tensor:
    Z = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(Z + 1.0, dim=1)


# few images


@pytest.mark.parametrize("n", [2, 3, 4])
def test_up_to_four_features_follow_from_their_moments(n: int) -> None:
    Z = unit(n, 16)
    solutions = attacks.features_of_moments(ClassStatistics.of(Z), torch.Generator().manual_seed(0))
    assert attacks.error(solutions, Z) < FOUND


def test_the_smallest_class_that_is_allowed_gives_no_feature_away() -> None:
    Z = unit(LEAST, 16)
    own = ClassStatistics.of(Z)
    solutions = attacks.features_of_moments(own, torch.Generator().manual_seed(0), tries=5)
    assert len(solutions) > 1  # there are many: none of them is known to be the one
    assert attacks.error(solutions, Z) > 20 * FOUND


def test_directions_that_share_features_give_them_away_and_disjoint_ones_do_not() -> None:
    Z = unit(140, 64)
    found = {}
    for disjoint in (False, True):
        kept = form_class_memory(Z, directions=6, neighbours=10, disjoint=disjoint)
        distances = torch.cdist(attacks.meeting_points(kept), Z)
        found[disjoint] = int((distances < 1e-6).any(0).sum())
    assert found[False] > 0
    assert found[True] == 0


def test_two_versions_of_wide_memory_tell_two_images_and_not_ten() -> None:
    phi = torch.randn(60, 24, generator=torch.Generator().manual_seed(0))
    before = nothing_yet(torch.device("cpu")).with_classes(phi[:40], torch.arange(2).repeat_interleave(20))
    errors = {}
    for n in (2, LEAST):
        new = phi[40 : 40 + n]
        stolen = attacks.taught(before, before.with_classes(new, torch.full((n,), 9)))
        assert torch.allclose(stolen.mean, new.mean(0).double(), atol=1e-5)  # which is no secret
        errors[n] = attacks.error(attacks.along_axes(stolen), new)
    assert errors[2] < 2 * FOUND
    assert errors[LEAST] > 20 * FOUND


@pytest.mark.parametrize("method", STATISTICS)
def test_methods_that_keep_statistics_refuse_small_classes(method: str) -> None:
    assert LEARNERS[method].keeps_statistics  # type: ignore[attr-defined]
    learner = create_learner(recipe_with(tiny_recipe(), {"method": {"name": method, **extra(method)}}))
    X, y = pictures([3, 8], each=LEAST)
    for n in (2, 3, LEAST - 1):
        few = torch.cat([(y == 3).nonzero()[:, 0], (y == 8).nonzero()[:n, 0]])
        with pytest.raises(InputError, match=rf"at least 10 training images of each class but got {n} of class '8'"):
            learner.learn(X[few], y[few])
    assert not learner.labels


def extra(method: str) -> dict[str, Any]:
    return {"anti_collapse": 0.0} if method == "adagauss" else {"expansion": 32} if method == "analytic" else {}


def test_the_class_is_called_by_its_name() -> None:
    y = torch.tensor([0] * 12 + [1] * 4 + [2] * 3)
    expected = (
        "Expected at least 10 training images of each class but got 4 of class 'cat' (label 1), and too few of 1 more: "
    )
    with pytest.raises(InputError) as caught:
        check_enough(y, {0: "dog", 1: "cat", 2: "owl"})
    assert str(caught.value).startswith(expected)


# a saved learner


def stolen(method: str, tmp_path: Path) -> tuple[Any, Tensor, dict[str, float], tuple[Tensor, Tensor]]:
    """A learner from its file, the pictures that the file holds, and how well each measure tells what was learned."""
    recipe = recipe_with(tiny_recipe(), {"method": {"name": method}})
    if method == "er":
        recipe = recipe_with(recipe, {"method": {"buffer": {"images": 30, "batch": 6}}})
    X, y = pictures([0, 1], each=40)
    others, other_labels = pictures([0, 1], each=40, seed=7)
    create_learner(recipe).learn(X, y).save(path := tmp_path / "learner.safetensors")
    learner, held = load_learner(path), attacks.pictures_in(read_stored(path, LEARNER).tensors, (1, 8, 8))
    known, unknown = (attacks.membership(learner, *given, held) for given in ((X, y), (others, other_labels)))
    return learner, held, {name: auroc(known[name], unknown[name]) for name in known}, (X, others)


@pytest.mark.parametrize("method", ["ictrl", "frozen", "wide-ictrl", "wide-gan"])
def test_no_image_is_found_in_the_file_of_a_method_that_keeps_none(method: str, tmp_path: Path) -> None:
    learner, held, told, (X, others) = stolen(method, tmp_path)
    assert not len(held)
    guesses = attacks.drawn_by(learner)
    assert float(attacks.nearest(guesses, X).min()) > 0.5 * float(attacks.nearest(others, X).min())
    assert max(told.values()) < BOUND


@pytest.mark.parametrize(("method", "least"), [("joint", 1.0), ("er", 0.6)])
def test_the_same_attack_finds_the_images_of_a_method_that_keeps_some(
    method: str, least: float, tmp_path: Path
) -> None:
    _, held, told, (X, _) = stolen(method, tmp_path)
    assert float(attacks.nearest(held, X).max()) == 0.0  # all of them were learned
    assert told["nearest picture in the file"] >= least


def test_no_feature_is_found_in_a_file(tmp_path: Path) -> None:
    X, y = pictures([0, 1], each=60)
    ICTRL(tiny_recipe(network={"feature_dim": 32})).learn(X, y).save(tmp_path / "learner.safetensors")
    learner = ICTRL.load(tmp_path / "learner.safetensors")
    for label in (0, 1):
        assert not len(attacks.meeting_points(learner.recall(label)))


# the page


def test_the_section_on_attacks_is_that_of_the_files() -> None:
    page = privacy.PAGE.read_text(encoding="utf-8")
    assert privacy.with_section(page) == page
    for name in ("wide-ictrl-digits", "ictrl-digits"):
        for found in privacy.read(name):
            assert found["reconstruction"]["found"] == 0
            assert max(found["membership"].values()) < BOUND
            assert found["features"]["disjoint"] == 0
            assert found["features"]["shared"] > 0
            assert all(found["features"]["of_moments"][n] < FOUND for n in "234")
            assert found["features"]["of_moments"][str(LEAST)] > 10 * FOUND
    for found in privacy.read("er-digits"):
        assert found["reconstruction"]["found"] > 90  # of a buffer of 100, some of them twice
