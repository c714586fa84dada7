"""One learner, several threads: no prediction is ever of half a task."""

import copy
import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from method_support import METHODS, TASKS, TEST_LABELS, TESTS, everything, learner_of, recipe_of, same, undisturbed
from support import pictures

from ictrl import ICTRL, EpochReport, InputError, create_learner
from ictrl.methods.finetune import Finetune
from ictrl.methods.threads import Gate
from ictrl.nets.layers import exact_float32

LEARNING_ON = {"epochs": 3, "batch": 15, "learning_rate": 3e-3}
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


def during(learner: Any, job: Callable[[], object]) -> None:
    """Do something in a thread while another one learns the second task."""
    asked, answered = threading.Event(), threading.Event()

    def progress(report: EpochReport) -> None:
        asked.set()
        assert answered.wait(60)

    def other() -> None:
        assert asked.wait(10)
        try:
            job()
        finally:
            answered.set()

    assert in_threads(lambda: learner.learn(*TASKS[1], progress=progress), other) == []


@pytest.mark.parametrize(
    "method", sorted({*METHODS} - {"analytic", "fearnet", "fecam", "frozen", "slda", "wide"})
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


READINGS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "features": ("ictrl", lambda learner: learner.features(TESTS)),
    "residuals": ("ictrl", lambda learner: learner.residuals(TESTS)),
    "recall": ("ictrl", lambda learner: learner.recall(5).mean),
    "decode": ("ictrl", lambda learner: learner.decode(torch.eye(16)[:4])),
    "reconstruct": ("ictrl", lambda learner: learner.reconstruct(TESTS)),
    "replay_recognised": ("ictrl", lambda learner: torch.tensor(learner.replay_recognised())),
    "views": ("ictrl", lambda learner: learner.views(TESTS)),
    "class_distances": ("wide", lambda learner: learner.class_distances()),
    "strangeness": ("wide", lambda learner: learner.strangeness(TESTS)),
    "predict_proba": ("wide", lambda learner: learner.predict_proba(TESTS)),
    "score": ("er", lambda learner: torch.tensor(learner.score(TESTS, TEST_LABELS))),
    "kept_bytes": ("er", lambda learner: torch.tensor(learner.kept_bytes)),
    "parameter_count": ("er", lambda learner: torch.tensor(learner.parameter_count)),
    "classes_": ("er", lambda learner: torch.tensor(learner.classes_)),
    "repr": ("er", lambda learner: torch.tensor(list(repr(learner).encode()))),
}
"""What may be asked of a learner, a method that has it, and its answer as a tensor."""


@pytest.mark.parametrize("name", READINGS)
def test_whatever_is_asked_while_another_learns_the_answer_is_that_of_before(name: str) -> None:
    method, ask = READINGS[name]
    settings = {"learning_on": LEARNING_ON} if method == "wide" else {}
    learner = create_learner(recipe_of(method, **settings)).learn(*TASKS[0])
    before, found = ask(learner), list[torch.Tensor]()
    during(learner, lambda: found.append(ask(learner)))
    assert torch.equal(found[0], before)
    assert torch.equal(
        ask(learner), ask(create_learner(recipe_of(method, **settings)).learn(*TASKS[0]).learn(*TASKS[1]))
    )


def test_a_learner_is_saved_as_it_was_while_another_thread_learns(tmp_path: Path) -> None:
    learner = learner_of("ictrl", 1)
    during(learner, lambda: learner.save(tmp_path / "learner"))
    assert same(everything(ICTRL.load(tmp_path / "learner")), undisturbed("ictrl", 1))


def test_who_wants_to_forget_or_to_review_waits_for_the_task_that_is_learned() -> None:
    images, labels = TASKS[0]
    learner: Any = learner_of("ictrl", 1)
    others = [lambda: learner.forget(5), lambda: learner.review(images[labels == -4], label=-4)]
    begun, jobs = threading.Event(), list[threading.Thread]()

    def progress(report: EpochReport) -> None:
        if not begun.is_set():
            jobs.extend(threading.Thread(target=other) for other in others)
            for job in jobs:
                job.start()
            begun.set()

    learner.learn(*TASKS[1], progress=progress)
    for job in jobs:
        job.join(timeout=60)
    assert learner.classes_.tolist() == [-4, 2, 30]
    assert learner.scores(TESTS).shape == (len(TESTS), 3)
    assert sorted(learner.memory) == [-4, 2, 30]


def test_a_learner_that_is_learning_refuses_another_task_from_its_progress_callback() -> None:
    learner, refused = learner_of("er", 1), list[str]()

    def progress(report: EpochReport) -> None:
        with pytest.raises(InputError, match="Expected one task at a time but this learner is learning") as error:
            learner.learn(*pictures([7, 8]))
        refused.append(str(error.value))

    learner.learn(*TASKS[1], progress=progress)
    assert refused
    assert same(everything(learner), undisturbed("er"))


def test_a_process_that_is_forked_while_another_thread_learns_can_read_and_learn() -> None:
    learner, expected = learner_of("er", 1), undisturbed("er")
    ended: list[int] = []

    def child() -> bool:
        torch.rand(800, 800) @ torch.rand(800, 800)  # by as many threads as torch has
        learner.predict(TESTS)
        return same(everything(learner.learn(*TASKS[1])), expected)

    def fork() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of threads and forks
            number = os.fork()
        if not number:
            os._exit(0 if child() else 1)
        deadline = time.monotonic() + 60
        while not (found := os.waitpid(number, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                os.kill(number, signal.SIGKILL)
        ended.append(os.waitstatus_to_exitcode(found[1]))

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.rand(800, 800) @ torch.rand(800, 800)
        during(learner, fork)
    finally:
        torch.set_num_threads(threads)
    assert ended == [0]


class Disturbed(Finetune):
    """A learner that is interrupted when it is told its classes' names: the last that learning changes."""

    armed = False

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "class_names" and self.armed:
            raise KeyboardInterrupt
        super().__setattr__(name, value)


@pytest.mark.parametrize("act", ["learn", "forget"])
def test_ctrl_c_at_the_very_end_changes_nothing(act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Disturbed(recipe_of("finetune")).learn(*TASKS[0])
    before = everything(learner)
    monkeypatch.setattr(Disturbed, "armed", True)
    with pytest.raises(KeyboardInterrupt):
        learner.learn(*TASKS[1]) if act == "learn" else learner.forget(5)
    assert same(everything(learner), before)
    assert learner.classes_.tolist() == [-4, 5]


def test_modes_and_flags_that_an_interrupted_task_leaves_behind_are_put_back() -> None:
    learner = learner_of("ictrl", 1)
    modes = torch.backends.cudnn.allow_tf32, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")

    def fail(report: EpochReport) -> None:
        torch.set_grad_enabled(False)
        torch.set_autocast_enabled("cpu", True)
        exact_float32().__enter__()
        for network in report.state.networks.values():
            network.requires_grad_(False).train()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(*TASKS[1], progress=fail)
    assert modes == (torch.backends.cudnn.allow_tf32, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"))
    for network in learner._state.networks.values():
        assert not network.training
        assert all(parameter.requires_grad for parameter in network.parameters())
    assert same(everything(learner.learn(*TASKS[1])), undisturbed("ictrl"))


def test_what_others_note_on_a_learner_while_it_learns_stays() -> None:
    learner: Any = learner_of("er", 1)
    learner.note = "before"
    learner.learn(*TASKS[1], progress=lambda report: setattr(learner, "note", report.epoch))
    assert learner.note == 3


def test_what_cannot_be_copied_is_named() -> None:
    learner: Any = learner_of("er", 1)
    learner.lock = threading.Lock()
    with pytest.raises(InputError, match=r"Expected the learner's lock to be something that copy.deepcopy can copy"):
        learner.learn(*TASKS[1])


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
