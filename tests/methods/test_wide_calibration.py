"""wide says how sure it is, and which images are of no class it knows; what it remembers is the same without that."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from method_support import everything, recipe_of, same
from support import pictures
from torch import Tensor

from ictrl import ConfigError, InputError, create_learner, load_learner
from ictrl.methods.wide import Wide
from ictrl.theory.metrics import reliability

TASKS = [pictures([5, -4], each=60), pictures([2, 30], each=60, seed=2)]
TESTS, TEST_LABELS = pictures([-4, 2, 5, 30], each=100, seed=1)
NOISE = torch.randint(0, 256, (60, *TESTS.shape[1:]), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def wide_of(tasks: int = 2, held_out: float = 0.25, **settings: Any) -> Any:
    learner = create_learner(recipe_of("wide", calibration={"held_out": held_out}, **settings))
    for task in TASKS[:tasks]:
        learner.learn(*task)
    return learner


@pytest.fixture(scope="module")
def learner() -> Wide:
    found = wide_of()
    assert isinstance(found, Wide)
    return found


def test_rows_of_probabilities_sum_to_one_and_their_logarithms_are_the_scores(learner: Wide) -> None:
    probabilities = learner.predict_proba(TESTS)
    assert probabilities.shape == (len(TESTS), 4)
    assert bool((probabilities >= 0).all())
    torch.testing.assert_close(probabilities.sum(1), torch.ones(len(TESTS)))
    torch.testing.assert_close(probabilities, learner.scores(TESTS).exp())
    predicted = torch.as_tensor(learner.classes_)[probabilities.argmax(1)]
    assert torch.equal(predicted, learner.predict(TESTS))


def test_memory_is_bit_for_bit_the_same_without_calibration(learner: Wide) -> None:
    with_it, without = everything(learner), everything(wide_of(held_out=0.0))
    own = {name for name in with_it if name.startswith("kept.calibration.")}
    assert own == set(with_it) - set(without)
    assert len(own) == 4
    assert all(torch.equal(tensor, with_it[name]) for name, tensor in without.items())


def test_the_same_images_are_held_out_again(learner: Wide) -> None:
    assert same(everything(learner), everything(wide_of()))


def test_calibration_is_counted_among_what_is_kept(learner: Wide) -> None:
    assert learner.kept_bytes - wide_of(held_out=0.0).kept_bytes == 2 * 20 + 4 * (3 + 3)


def test_probabilities_are_nearer_to_the_truth_than_without() -> None:
    """Of pictures that can hardly be told apart, in one reading. It is no law: from so few images the temperature comes
    from a memory without the held-out ones, and in other readings of these it makes probabilities worse.
    """
    tasks, (tests, labels) = [hardly_seen(task) for task in TASKS], hardly_seen((TESTS, TEST_LABELS))
    found = []
    for held_out in (0.25, 0.0):
        learner: Any = create_learner(
            recipe_of("wide", calibration={"held_out": held_out}, reading={"pool": 4, "ridge": 0.01})
        )
        for task in tasks:
            learner.learn(*task)
        rows = torch.searchsorted(torch.as_tensor(learner.classes_), labels)
        found.append(reliability(learner.predict_proba(tests), rows).ece)
    calibrated, plain = found
    assert calibrated < 0.1
    assert calibrated < 0.7 * plain


def hardly_seen(task: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    images, labels = task
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(len(images)))
    return (images + 150 * noise).clamp(0, 255).to(torch.uint8), labels


def test_strangers_look_strange_and_are_called_unknown(learner: Wide) -> None:
    known, strange = learner.strangeness(TESTS), learner.strangeness(NOISE)
    assert 0 <= float(known.min()) <= float(strange.max()) <= 2
    assert float(strange.median()) > float(known.quantile(0.95))
    assert float(learner.unknown(NOISE).double().mean()) > 0.9
    assert float(learner.unknown(TESTS).double().mean()) < 0.2


def test_of_a_higher_rate_more_are_unknown(learner: Wide) -> None:
    few, many = (learner.unknown(TESTS, rate) for rate in (0.01, 0.4))
    assert bool((many | ~few).all())
    assert int(many.sum()) > int(few.sum())


def test_arrays_give_arrays(learner: Wide) -> None:
    for found, kind in (
        (learner.predict_proba(TESTS.numpy()), np.float32),
        (learner.strangeness(TESTS.numpy()), np.float32),
        (learner.unknown(TESTS.numpy()), np.bool_),
    ):
        assert isinstance(found, np.ndarray)
        assert found.dtype == kind


def test_a_saved_learner_is_as_sure_as_it_was_and_learns_on(learner: Wide, tmp_path: Path) -> None:
    wide_of(1).save(tmp_path / "one.safetensors")
    loaded: Any = load_learner(tmp_path / "one.safetensors", device="cpu")
    assert loaded.temperature() == wide_of(1).temperature()
    assert torch.equal(loaded.unknown(TESTS), wide_of(1).unknown(TESTS))
    assert same(everything(loaded.learn(*TASKS[1])), everything(learner))


def test_of_too_few_images_nothing_is_calibrated() -> None:
    learner: Any = create_learner(recipe_of("wide")).learn(*pictures([0, 1], each=20))
    assert learner.temperature() == 1.0
    assert not any("calibration" in name for name in learner.kept_tensors())
    torch.testing.assert_close(learner.predict_proba(TESTS).sum(1), torch.ones(len(TESTS)))
    with pytest.raises(InputError, match="raise calibration.held_out"):
        learner.unknown(TESTS)


def test_a_task_of_too_few_images_leaves_what_earlier_ones_said() -> None:
    learner = wide_of(1)
    before = learner.temperature()
    learner.learn(*pictures([2, 30], each=12))
    assert learner.temperature() == before
    assert learner.predict_proba(TESTS).shape[1] == 4


def test_a_single_class_is_certain_and_tells_no_stranger() -> None:
    learner: Any = create_learner(recipe_of("wide", calibration={"held_out": 0.5})).learn(*pictures([4], each=60))
    assert learner.predict_proba(TESTS).tolist() == [[1.0]] * len(TESTS)
    with pytest.raises(InputError, match="two classes or more"):
        learner.unknown(TESTS)


def test_a_new_learner_and_a_rate_that_is_none_are_refused(learner: Wide) -> None:
    new: Any = create_learner(recipe_of("wide"))
    for name in ("predict_proba", "strangeness", "unknown"):
        with pytest.raises(InputError, match=f"call learn before {name}"):
            getattr(new, name)(TESTS)
    for rate in (0, 1.5):
        with pytest.raises(InputError, match="a share of false alarms above 0 and below 1"):
            learner.unknown(TESTS, false_alarms=rate)


@pytest.mark.parametrize("held_out", [-0.1, 1.0, float("nan")])
def test_a_share_out_of_range(held_out: float) -> None:
    with pytest.raises(ConfigError, match="calibration.held_out to be at least 0 and below 1"):
        recipe_of("wide", calibration={"held_out": held_out})
