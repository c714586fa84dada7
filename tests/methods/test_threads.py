"""One learner, several threads: no prediction is ever of half a task."""

import copy
import pickle
import threading
from typing import Any

import pytest
import torch
from method_support import METHODS, TASKS, TESTS, everything, learner_of, recipe_of, same, undisturbed
from support import pictures
from torch import nn

from ictrl import ICTRL, EpochReport, InputError, Wide, create_learner
from ictrl.methods.threads import Gate

STEPS = 20


def in_threads(*jobs: Any) -> list[BaseException]:
    """Run all at once; returns what they raised."""
    raised: list[BaseException] = []

    def guarded(job: Any) -> None:
        try:
            job()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    return raised


@pytest.mark.parametrize(
    "method", sorted({*METHODS} - {"analytic", "fecam", "frozen", "slda", "wide"})
)  # they train once
def test_who_predicts_while_another_learns_is_answered_from_before_the_task(method: str) -> None:
    learner = learner_of(method, 1)
    before = learner.scores(TESTS)
    asked, answered = threading.Event(), threading.Event()
    found = []

    def progress(report: EpochReport) -> None:
        asked.set()
        assert answered.wait(10)

    def predict() -> None:
        assert asked.wait(10)
        found.append((learner.scores(TESTS), learner.classes_.tolist()))
        answered.set()

    assert in_threads(lambda: learner.learn(*TASKS[1], progress=progress), predict) == []
    scores, classes = found[0]
    assert torch.equal(scores, before)
    assert classes == [-4, 5]
    assert same(everything(learner), undisturbed(method))  # and learning did not notice
    assert learner.scores(TESTS).shape == (len(TESTS), 4)


@pytest.mark.parametrize("method", ["ictrl", "wide", "er"])
def test_every_answer_is_that_of_a_whole_number_of_tasks(method: str) -> None:
    allowed = [learner_of(method, tasks).scores(TESTS) for tasks in (1, 2)]
    learner, done, count = learner_of(method, 1), threading.Event(), []

    def learn() -> None:
        learner.learn(*TASKS[1])
        done.set()

    def predict() -> None:
        again = STEPS  # some after the task too
        while again:
            again -= done.is_set()
            scores = learner.scores(TESTS)
            assert any(scores.shape == known.shape and torch.equal(scores, known) for known in allowed)
            labels = learner.predict(TESTS)
            assert set(labels.tolist()) <= {5, -4, 2, 30}
            count.append(len(scores))

    assert in_threads(learn, *[predict] * 4) == []
    assert len(count) >= 4 * STEPS
    assert torch.equal(learner.scores(TESTS), allowed[1])


def test_learners_take_turns() -> None:
    learner = learner_of("wide", 1)
    tasks = [pictures([2, 3]), pictures([7, 8]), pictures([20, 21])]
    assert in_threads(*[lambda task=task: learner.learn(*task) for task in tasks]) == []
    assert learner.classes_.tolist() == [-4, 2, 3, 5, 7, 8, 20, 21]
    again = in_threads(*[lambda: learner.learn(*pictures([40, 41]))] * 2)
    assert [type(error) for error in again] == [InputError]
    assert "40, 41 were learned before" in str(again[0])


def test_a_task_that_fails_lets_everybody_in_again() -> None:
    learner = learner_of("ictrl", 1)
    before = learner.scores(TESTS)

    def fail(report: EpochReport) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(*TASKS[1], progress=fail)
    assert in_threads(lambda: torch.testing.assert_close(learner.scores(TESTS), before, rtol=0, atol=0)) == []
    assert len(learner.learn(*TASKS[1]).classes_) == 4


class Own(nn.Module):
    """An encoder of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(1, 4, 3), nn.Linear(4 * 36, 16)

    def stages(self, X: torch.Tensor) -> list[torch.Tensor]:
        return [self.conv(X).relu()]

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.last(self.stages(X)[0].flatten(1))


class Stubborn(Wide):
    """A learner whose networks cannot be made anew."""

    def build(self, initial: torch.Generator) -> Any:
        self.shared = getattr(self, "shared", None) or Own()
        self._own_encoder = self.shared
        return super().build(initial)


@pytest.mark.parametrize("kind", [Wide, Stubborn])
def test_with_networks_of_ones_own_a_reader_gets_a_copy_or_waits(kind: type[Wide]) -> None:
    torch.manual_seed(0)
    learner = kind(recipe_of("wide"), **({} if kind is Stubborn else {"encoder": Own()})).learn(*TASKS[0])
    before, asked = learner.scores(TESTS), threading.Event()
    found = []

    def predict() -> None:
        assert asked.wait(10)
        found.append(learner.scores(TESTS))

    assert in_threads(lambda: learner.learn(*TASKS[1], progress=lambda report: asked.set()), predict, asked.set) == []
    after = learner.scores(TESTS)
    assert any(torch.equal(found[0], known) for known in (before, after) if known.shape == found[0].shape)


def test_the_one_who_learns_sees_its_own_networks() -> None:
    learner, seen = create_learner(recipe_of("ictrl")).learn(*TASKS[0]), []
    before = learner.scores(TESTS)
    learner.learn(*TASKS[1], progress=lambda report: seen.append(learner.scores(TESTS)))
    assert not torch.equal(seen[-1], before)


def test_a_learner_can_be_copied_and_pickled() -> None:
    learner = learner_of("ictrl", 1)
    for again in (copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
        assert isinstance(again, ICTRL)
        assert isinstance(again._gate, Gate)
        assert again._gate is not learner._gate
        assert torch.equal(again.scores(TESTS), learner.scores(TESTS))
