"""Reviewing repairs a class and harms nothing: neither by doubt, nor by few images, nor by an interruption."""

from pathlib import Path
from typing import Any

import pytest
import torch
from method_support import Learned, everything, same
from support import pictures, tiny_recipe

from ictrl import ICTRL, EpochReport, GameStageConfig, InputError
from ictrl.memory.recognition import Recognition
from ictrl.memory.store import form_class_memory, merged


def sure(label: int) -> Recognition:
    return Recognition(label, {label: 0.9, 77: 0.2}, 1.0)


def test_a_review_replaces_the_class_it_recognises(learned: Learned, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = learned()
    monkeypatch.setattr("ictrl.methods.ictrl.recognise", lambda Z, memory: sure(2))
    order, before = list(learner.memory), learner.memory[2]
    done = learner.review(pictures([2], seed=9)[0])
    assert (done.label, done.reason) == (2, None)
    assert list(learner.memory) == order
    assert not torch.equal(learner.memory[2].mean, before.mean)
    expected = learner.features(pictures([2], seed=9)[0])
    assert torch.allclose(learner.memory[2].mean, expected.mean(0), atol=1e-5)  # as the encoder has them now


def test_the_reviewed_class_is_not_pushed_away_from_itself(learned: Learned, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = learned()
    replayed: list[list[int]] = []
    real = ICTRL.play

    def watched(self: ICTRL, X: object, y: object, others: dict[int, object], *rest: object) -> object:
        replayed.append(list(others))
        return real(self, X, y, others, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ICTRL, "play", watched)
    learner.review(pictures([2])[0], label=2)
    assert replayed == [[0, 1, 3]]


def test_doubt_changes_nothing_unless_told(learned: Learned, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = learned()
    doubtful = Recognition(1, {1: 0.3, 0: 0.29}, 1.0)
    monkeypatch.setattr("ictrl.methods.ictrl.recognise", lambda Z, memory: doubtful)
    before = everything(learner)
    done = learner.review(pictures([7])[0])
    assert done.label is None
    assert done.recognition is doubtful
    assert "affinity" in str(done.reason)
    assert same(everything(learner), before)
    assert learner.review(pictures([7])[0], certain=False).label == 1
    assert not same(everything(learner), before)


@pytest.mark.parametrize("certain", [True, False])
def test_few_images_change_nothing(learned: Learned, certain: bool) -> None:
    learner = learned()
    before = everything(learner)
    for n, words in ((1, "1 image is too few to learn"), (4, "4 images are too few to learn")):
        for label in (None, 2):
            done = learner.review(pictures([2])[0][:n], label=label, certain=certain)
            assert done.label is None
            assert words in str(done.reason)
            assert "10 or more are needed" in str(done.reason)
    assert same(everything(learner), before)


def test_far_fewer_images_than_before_change_nothing() -> None:
    learner = ICTRL(tiny_recipe()).learn(*pictures([0, 1], each=80))
    before = everything(learner)
    done = learner.review(pictures([1], each=19)[0], label=1)
    assert done.reason == "19 images are too few to learn their class again: 20 or more are needed"
    assert same(everything(learner), before)
    assert learner.review(pictures([1], each=20)[0], label=1).label == 1


def test_an_interrupted_review_leaves_the_learner_as_it_was(learned: Learned) -> None:
    learner = learned()
    before = everything(learner)

    def interrupt(report: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.review(pictures([2])[0], label=2, progress=interrupt)
    assert same(everything(learner), before)


def test_a_label_says_which_class_it_is(learned: Learned) -> None:
    learner = learned()
    assert learner.review(pictures([3])[0], label=0).label == 0
    with pytest.raises(InputError, match="Expected a learned label but got 9; learned are 0, 1, 2, 3"):
        learner.review(pictures([3])[0], label=9)


def test_a_new_learner_has_nothing_to_review() -> None:
    with pytest.raises(InputError, match="call learn before review"):
        ICTRL(tiny_recipe()).review(pictures([0])[0])


def test_one_class_alone_can_be_reviewed() -> None:
    learner = ICTRL(tiny_recipe()).learn(*pictures([0]))
    statistics = [buffer.clone() for buffer in learner.decoder.buffers()]
    assert learner.review(pictures([0])[0], label=0).label == 0
    assert all(torch.equal(a, b) for a, b in zip(statistics, learner.decoder.buffers()))  # frozen, as after any task


def test_merged_moments_are_those_of_both_sets() -> None:
    generator = torch.Generator().manual_seed(0)
    Z = torch.randn(100, 8, dtype=torch.float64, generator=generator)
    both = merged(form_class_memory(Z[:70], 3, 10), form_class_memory(Z[70:], 3, 10), generator)
    assert int(both.count) == 100
    assert torch.allclose(both.mean, Z.mean(0))
    assert torch.allclose(both.covariance, torch.cov(Z.T))


def test_merged_directions_come_from_both_by_their_counts() -> None:
    generator = torch.Generator().manual_seed(0)
    many, few = (torch.randn(n, 8, generator=generator) for n in (900, 100))
    stored, seen = form_class_memory(many, 8, 10), form_class_memory(few, 8, 10)
    taken = [
        int((merged(stored, seen, generator).direction_means == seen.direction_means).all(1).sum()) for _ in range(100)
    ]
    assert sum(taken) / 800 == pytest.approx(0.1, abs=0.04)


def test_a_merging_review_counts_both(learned: Learned) -> None:
    learner = learned()
    stored = int(learner.memory[2].count)
    images, _ = pictures([2], seed=9)
    learner.review(images, label=2, merge=True)
    assert int(learner.memory[2].count) == stored + len(images)


@pytest.mark.parametrize("compensated", [False, True])
def test_review_follows_the_recipe(compensated: bool, learned: Learned) -> None:
    learner = learned(tiny_recipe(memory={"drift_compensation": compensated}))
    other, reports = learner.memory[0].mean.clone(), list[int]()
    learner.review(pictures([2])[0], label=2, progress=lambda report: reports.append(report.epoch))
    assert reports == list(range(1, learner.settings.later.epochs + 1))
    assert torch.equal(learner.memory[0].mean, other) is not compensated  # other classes move along, if they may


def test_epochs_and_distillation_take_the_place_of_the_recipes(
    learned: Learned, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = {"distill_new": 1.0, "distill_replayed": 2.0, "loop": 3.0, "redrawn": 4.0}
    learner = learned(tiny_recipe(later={"weights": weights}))
    before, seen, reports = learner.recipe, list[GameStageConfig](), list[EpochReport]()
    real = ICTRL.play

    def watched(self: ICTRL, X: Any, y: Any, others: Any, stage: GameStageConfig, *rest: Any) -> object:
        seen.append(stage)
        return real(self, X, y, others, stage, *rest)

    monkeypatch.setattr(ICTRL, "play", watched)
    learner.review(pictures([2])[0], label=2, epochs=3, distillation=0.5, progress=reports.append)
    learner.review(pictures([2])[0], label=2)
    held = [{name: getattr(stage.weights, name) for name in weights} for stage in seen]
    assert held == [{name: weight / 2 for name, weight in weights.items()}, weights]
    assert [stage.epochs for stage in seen] == [3, learner.settings.later.epochs]
    assert [(report.epoch, report.epochs) for report in reports] == [(1, 3), (2, 3), (3, 3)]
    assert seen[0].weights.lambda_new == seen[1].weights.lambda_new == 10.0  # the game itself is the same
    assert learner.recipe == before


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"epochs": 0}, "Expected at least 1 epoch but got 0"),
        ({"distillation": -1.0}, "Expected distillation to be at least 0 times the recipe's but got -1.0"),
        ({"distillation": float("nan")}, "at least 0 times the recipe's but got nan"),
        ({"distillation": float("inf")}, "at least 0 times the recipe's but got inf"),
    ],
)
def test_a_wrong_manner_is_refused_and_changes_nothing(how: dict[str, Any], message: str, learned: Learned) -> None:
    learner = learned()
    before = everything(learner)
    with pytest.raises(InputError, match=message):
        learner.review(pictures([2])[0], label=2, **how)
    assert same(everything(learner), before)


def test_a_reviewed_learner_can_be_saved_and_goes_on(learned: Learned, tmp_path: Path) -> None:
    learner = learned()
    learner.review(pictures([1])[0], label=1)
    learner.save(tmp_path / "learner")
    again = ICTRL.load(tmp_path / "learner")
    for one in (learner, again):
        one.review(pictures([2])[0], label=2, merge=True)
        one.learn(*pictures([8, 9]))
    assert same(everything(again), everything(learner))
    assert learner.labels == [0, 1, 2, 3, 8, 9]
