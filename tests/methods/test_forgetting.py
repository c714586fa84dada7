"""Forgetting on request: what is kept of a class goes, others stay, and it may be learned again."""

from pathlib import Path

import numpy as np
import pytest
import torch
from method_support import METHODS, TASKS, TEST_LABELS, TESTS, everything, learner_of, same
from support import pictures
from torch import Tensor

from ictrl import InputError, Learner, load_learner
from ictrl.memory.buffer import Exemplars, reservoir_without
from ictrl.memory.calibration import NOT_CALIBRATED
from ictrl.memory.wide_memory import nothing_yet
from ictrl.methods.capabilities import Forgets, ask
from ictrl.methods.finetune import FinetuneConfig
from ictrl.methods.supervised import SupervisedLearner

FORGOTTEN = -4
AGAIN = [label == FORGOTTEN for label in TASKS[0][1].tolist()]


@pytest.mark.parametrize("method", METHODS)
def test_a_forgotten_class_is_never_predicted_and_can_be_learned_again(method: str, tmp_path: Path) -> None:
    learner = learner_of(method)
    ask(learner, Forgets, "forget").forget(FORGOTTEN)
    assert learner.classes_.tolist() == [2, 5, 30]
    assert learner.scores(TESTS).shape == (len(TESTS), 3)
    assert FORGOTTEN not in learner.predict(TESTS).tolist()
    learner.save(tmp_path / "learner")
    loaded = load_learner(tmp_path / "learner", "cpu")
    assert same(everything(loaded), everything(learner))
    torch.testing.assert_close(loaded.scores(TESTS), learner.scores(TESTS))
    for again in (loaded, learner):
        again.learn(TASKS[0][0][AGAIN], TASKS[0][1][AGAIN])
        assert again.classes_.tolist() == [-4, 2, 5, 30]
        again.predict(TESTS)
    assert same(everything(loaded), everything(learner))


@pytest.mark.parametrize(
    "method", ["wide", "wide-ictrl", "wide-gan", "frozen", "fecam", "slda", "finetune", "joint", "derpp"]
)
def test_the_other_classes_score_as_they_did(method: str) -> None:
    learner = learner_of(method)
    others = [i for i, label in enumerate(learner.classes_.tolist()) if label != FORGOTTEN]
    before = learner.scores(TESTS)[:, others].argmax(1)
    assert isinstance(learner, Forgets)
    learner.forget(FORGOTTEN)
    assert torch.equal(learner.scores(TESTS).argmax(1), before)


@pytest.mark.parametrize("method", METHODS)
def test_all_classes_can_be_forgotten(method: str, tmp_path: Path) -> None:
    learner = learner_of(method, tasks=1)
    assert isinstance(learner, Forgets)
    for label in (5, np.int64(-4)):
        learner.forget(label)
    assert learner.labels == []
    assert learner.kept_tensors() == {}
    with pytest.raises(InputError, match=r"^Expected a class that was learned but got 5; nothing is learned.$"):
        learner.forget(5)
    learner.save(tmp_path / "learner")
    assert load_learner(tmp_path / "learner", "cpu").learn(*TASKS[0]).classes_.tolist() == [-4, 5]


@pytest.mark.parametrize("method", METHODS)
def test_a_failure_leaves_the_learner_as_it_was(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = learner_of(method)
    before = everything(learner)
    dropped = type(learner).drop_row  # type: ignore[attr-defined]

    def fail(self: Learner[object], row: int) -> None:
        dropped(self, row)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(learner), "drop_row", fail)
    with pytest.raises(KeyboardInterrupt):
        learner.forget(FORGOTTEN)  # type: ignore[attr-defined]
    assert same(everything(learner), before)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (7, r"^Expected a class that was learned but got 7; learned are -4, 2, 5, 30.$"),
        ("cat", r"^Expected label to be a whole number but got 'cat'.$"),
    ],
)
def test_what_was_not_learned_is_not_forgotten(label: int, message: str) -> None:
    learner = learner_of("slda")
    assert isinstance(learner, Forgets)
    with pytest.raises(InputError, match=message):
        learner.forget(label)


def test_a_method_that_does_not_say_what_it_keeps_refuses() -> None:
    class Hoarder(SupervisedLearner[dict[str, Tensor]]):
        def learn_task(self, X: Tensor, y: Tensor, hooks: object) -> dict[str, Tensor]:
            self.resize(len(self.labels) + len(y.unique()))
            return {"anything": torch.ones(3)}

    Hoarder.settings_type = FinetuneConfig  # not in the class's body, which would register it
    learner = Hoarder()
    learner.recipe = learner_of("finetune").recipe
    learner = Hoarder(learner.recipe).learn(*TASKS[0])
    with pytest.raises(InputError, match=r"^Expected a method that can forget but finetune does not say what"):
        learner.forget(FORGOTTEN)
    assert learner.classes_.tolist() == [-4, 5]


def test_what_remains_is_said() -> None:
    assert [len(ask(learner_of(method, tasks=0), Forgets, "forget").what_remains()) for method in METHODS]
    shared = {m for m in METHODS if any("all classes together" in r for r in learner_of(m, 0).what_remains())}  # type: ignore[attr-defined]
    assert shared == {"wide", "wide-ictrl", "wide-gan", "slda"}


def test_teaching_and_forgetting_a_class_leaves_wide_memory_as_it_was_but_for_the_covariance() -> None:
    learner = learner_of("wide", tasks=1, calibration={"held_out": 0.5})
    before = everything(learner)
    learner.learn(*pictures([9], each=60))
    assert learner.kept.calibration.images.tolist() == [20, 30]
    learner.forget(9)  # type: ignore[attr-defined]
    after = everything(learner)
    assert {name for name in before if not torch.equal(before[name], after[name])} <= {
        "kept.diagonal",
        "kept.scales",
        "kept.factor",
    }


def test_a_calibration_goes_with_the_last_class_of_its_task() -> None:
    scores, strangeness = torch.zeros(20, 2), torch.arange(20.0)
    first = NOT_CALIBRATED.with_task(scores, torch.zeros(20, dtype=torch.long), strangeness)
    both = first.with_task(torch.zeros(20, 3), torch.full((20,), 2), strangeness + 100)
    assert both.classes.tolist() == [2, 3]
    assert both.without(2).classes.tolist() == [2]
    assert both.without(2).groups.max() < 100
    assert both.without(0).classes.tolist() == [1, 2]
    assert both.without(0).without(0).classes.tolist() == [1]
    assert both.without(0).without(0).groups.min() >= 100
    assert nothing_yet(torch.device("cpu")).calibration.without(0).images.tolist() == []


def test_exemplars_move_up() -> None:
    kept = Exemplars(torch.arange(4, dtype=torch.uint8).view(4, 1, 1, 1), torch.tensor([0, 1, 2, 1]))
    images, rows = kept.without(1)
    assert (images.flatten().tolist(), rows.tolist()) == ([0, 2], [0, 1])


def test_a_full_reservoir_stays_full_and_another_shrinks() -> None:
    tensors = {
        "images": torch.arange(4, dtype=torch.uint8).view(4, 1, 1, 1),
        "rows": torch.tensor([0, 1, 2, 1]),
        "seen": torch.tensor(4),
        "logits": torch.arange(12.0).view(4, 3),
        "widths": torch.tensor([1, 2, 3, 3]),
    }
    found = reservoir_without(tensors, 1)
    assert found["rows"].tolist() == [0, 1]
    assert found["logits"].tolist() == [[0.0, 2.0], [6.0, 8.0]]
    assert found["widths"].tolist() == [1, 2]
    assert int(found["seen"]) == 2
    full = reservoir_without({**tensors, "seen": torch.tensor(400)}, 1)
    assert full["rows"].tolist() == [0, 1, 0, 1]
    assert int(full["seen"]) == 200


def test_distances_of_classes_are_those_of_their_means() -> None:
    learner = learner_of("wide")
    distances = learner.class_distances()  # type: ignore[attr-defined]
    assert distances.shape == (4, 4)
    torch.testing.assert_close(distances, distances.T)
    memory, order = learner.kept, [learner.labels.index(label) for label in (-4, 30)]
    apart = (memory.means[order[0]] - memory.means[order[1]]).double()
    S = memory.covariance()
    S.diagonal().add_(learner.reader.classifier_of(memory).rho)  # type: ignore[attr-defined]
    expected = (apart @ torch.linalg.solve(S, apart)).sqrt()
    torch.testing.assert_close(distances[0, 3].double(), expected, rtol=1e-3, atol=0)


def test_who_was_not_forgotten_is_still_recognised() -> None:
    learner = learner_of("slda")
    assert isinstance(learner, Forgets)
    kept = TEST_LABELS != FORGOTTEN
    before = learner.score(TESTS[kept], TEST_LABELS[kept])
    learner.forget(FORGOTTEN)
    assert learner.score(TESTS[kept], TEST_LABELS[kept]) >= before
