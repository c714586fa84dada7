"""A task is learned in a copy that takes the learner's place at its end: on every device, and whatever goes wrong."""

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from attack.interrupts import Scarce
from method_support import TASKS, TESTS, everything, recipe_of, same
from support import pictures

from ictrl import EpochReport, Learner, create_learner, load_learner

SEVERAL = ("ictrl", "wide-ictrl", "wide-gan", "er", "cls_er", "ewc", "adagauss")
"""Two players, a frozen trunk, a critic, images, several networks, two recordings, an adapter."""
PLACES = 6  # of the operations of a task at which something goes wrong
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(autouse=True)
def _repeatable() -> Iterator[None]:
    """On a GPU too the same is computed to the last bit each time."""
    before = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    yield
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = before


def new(method: str, device: str, tasks: int = 1) -> Learner[Any]:
    """In float32, where a recorded step and a plain one agree."""
    part = recipe_of(method).method
    exactly: dict[str, Any] = {"precision": "float32"} if hasattr(part, "precision") else {}
    exactly = exactly or {"game": {"precision": "float32"}}
    learner = create_learner(recipe_of(method, **exactly), device=device)
    for task in TASKS[:tasks]:
        learner.learn(*task)
    return learner


@cache
def whole(method: str, device: str, tasks: int = 2) -> dict[str, torch.Tensor]:
    """Everything after so many tasks, if nothing happens."""
    return everything(new(method, device, tasks))


@cache
def operations(method: str, device: str) -> int:
    """Operations on tensors of the second task."""
    learner = new(method, device)
    with (scarce := Scarce(None)):
        learner.learn(*TASKS[1])
    return scarce.count


def assert_learned_the_same(learner: Learner[Any], method: str, device: str) -> None:
    """To the last bit, but that some kernels of a GPU add numbers up in the order in which they come."""
    found, expected = everything(learner), whole(method, device)
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        if device == "cpu" or not tensor.is_floating_point():
            assert torch.equal(tensor, expected[name]), name
        else:
            torch.testing.assert_close(
                tensor,
                expected[name],
                rtol=0.02,
                atol=0.02,
                msg=lambda text: f"{name}: {text}",  # noqa: B023
            )


@pytest.mark.parametrize("method", SEVERAL)
def test_a_task_that_fails_at_its_end_leaves_networks_optimisers_and_random_numbers(method: str, device: str) -> None:
    learner = new(method, device)
    before, optimisers = everything(learner), dict(learner._state.optimisers)
    trained = {name: [*network.parameters()] for name, network in learner._state.networks.items()}

    def fail(report: EpochReport) -> None:
        if report.epoch == report.epochs:
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            learner.learn(*TASKS[1], progress=fail)
        assert same(everything(learner), before)
    assert dict(learner._state.optimisers) == optimisers
    for name, network in learner._state.networks.items():
        assert all(one is other for one, other in zip(network.parameters(), trained[name], strict=True))
    assert_learned_the_same(learner.learn(*TASKS[1]), method, device)


@pytest.mark.parametrize("method", SEVERAL)
def test_optimisers_of_the_copy_move_the_networks_of_the_copy(method: str, device: str) -> None:
    learner = new(method, device, tasks=2)
    state = learner._state
    parameters = {id(part) for network in state.networks.values() for part in network.parameters()}
    moved = [part for optimiser in state.optimisers.values() for g in optimiser.param_groups for part in g["params"]]
    assert moved
    assert {id(part) for part in moved} <= parameters
    for optimiser in state.optimisers.values():
        assert {id(part) for part in optimiser.state} <= parameters
        numbers = [x for values in optimiser.state.values() for x in values.values() if isinstance(x, torch.Tensor)]
        assert {x.device.type for x in numbers if x.dim()} <= {device}
    assert state.generator.device.type == device


WRONG = [KeyboardInterrupt, MemoryError, torch.OutOfMemoryError]


@pytest.mark.parametrize("place", range(PLACES))
@pytest.mark.parametrize("method", ["ictrl", "er"])
def test_nothing_is_left_of_a_task_that_lacks_memory_anywhere(method: str, place: int, device: str) -> None:
    """On a GPU some of these places are within a recording: without memory for one, steps are played as they are."""
    learner, error = new(method, device), WRONG[place % len(WRONG)]
    before, total = everything(learner), operations(method, device)
    at, failed = 1 + (place * total) // PLACES, False
    try:
        with Scarce(at, error):
            learner.learn(*TASKS[1])
    except error:
        failed = True
    if failed:
        assert same(everything(learner), before)
        learner.learn(*TASKS[1])
    else:
        assert device == "cuda"
        assert error is torch.OutOfMemoryError
    assert_learned_the_same(learner, method, device)


@GPU
def test_a_device_without_memory_leaves_the_learner_as_it_was() -> None:
    learner = new("ictrl", "cuda")
    before, failures, (images, labels) = everything(learner), 0, pictures([2, 30], each=3_000)
    total = torch.cuda.get_device_properties(0).total_memory
    gc.collect()
    torch.cuda.empty_cache()
    taken = torch.cuda.memory_reserved()
    try:
        for more in (0, 2, 8, 24, 64, 128):  # MiB
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction((taken + more * 2**20) / total)
            try:
                learner.learn(images, labels)
                break
            except torch.OutOfMemoryError:
                failures += 1
            assert same(everything(learner), before)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert failures  # without any more memory at least; how much more is enough depends on the device
    if len(learner.labels) == 2:
        learner.learn(images, labels)
    assert learner.classes_.tolist() == [-4, 2, 5, 30]


@GPU
def test_tasks_that_fail_leave_no_memory_taken() -> None:
    learner, taken = new("ictrl", "cuda"), list[int]()

    def fail(report: EpochReport) -> None:
        raise KeyboardInterrupt

    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            learner.learn(*TASKS[1], progress=fail)
        gc.collect()
        torch.cuda.synchronize()
        taken.append(torch.cuda.memory_allocated())
    assert taken[1] == taken[2] == taken[3]


def test_who_reads_meanwhile_is_answered_by_a_whole_number_of_tasks(device: str, tmp_path: Path) -> None:
    """On a GPU readers wait, because a step may be being recorded."""
    learner, readers = new("ictrl", device), list[threading.Thread]()
    allowed = {tasks: new("ictrl", device, tasks).scores(TESTS) for tasks in (1, 2)}
    answers, broken = list[torch.Tensor](), list[BaseException]()

    def read(number: int) -> None:
        try:
            answers.extend(learner.scores(TESTS) for _ in range(5))
            learner.features(TESTS)  # type: ignore[attr-defined]
            learner.save(tmp_path / f"learner-{number}")
        except BaseException as error:
            broken.append(error)

    def progress(report: EpochReport) -> None:
        if not readers:
            readers.extend(threading.Thread(target=read, args=(number,)) for number in range(4))
            for reader in readers:
                reader.start()

    learner.learn(*TASKS[1], progress=progress)
    for reader in readers:
        reader.join(timeout=60)
    assert broken == []
    assert len(answers) == 20
    for scores in answers:
        expected = allowed[1 if scores.shape == allowed[1].shape else 2]
        torch.testing.assert_close(scores, expected, rtol=0.02, atol=0.02)
        assert device == "cpu" or scores.shape[1] == 4
    for number in range(4):
        saved = load_learner(tmp_path / f"learner-{number}", device=device)
        assert len(saved.labels) in (2, 4)
        assert device == "cpu" or len(saved.labels) == 4


def test_other_learners_work_while_one_records(device: str, caplog: pytest.LogCaptureFixture) -> None:
    """One is asked, with more images each time so that it needs memory anew; two learn."""
    first, second, asked = new("ictrl", device), new("er", device), new("ictrl", device)
    expected, over = asked.scores(TESTS), threading.Event()
    broken, answers = list[BaseException](), list[torch.Tensor]()

    def guarded(job: Callable[[], object]) -> threading.Thread:
        def inner() -> None:
            try:
                job()
            except BaseException as error:
                broken.append(error)

        thread = threading.Thread(target=inner)
        thread.start()
        return thread

    def ask() -> None:
        times = 1
        while not over.is_set() or times < 4:
            answers.append(asked.scores(TESTS.repeat(times, 1, 1, 1))[: len(TESTS)])
            times += 1 if times < 40 else -39

    with caplog.at_level(logging.WARNING):
        reader = guarded(ask)
        learners = [guarded(lambda: first.learn(*TASKS[1])), guarded(lambda: second.learn(*TASKS[1]))]
        for learner in learners:
            learner.join(timeout=60)
        over.set()
        reader.join(timeout=60)
    assert broken == []
    assert not [record.message for record in caplog.records if "recorded" in record.message]
    assert_learned_the_same(first, "ictrl", device)
    assert_learned_the_same(second, "er", device)
    for scores in answers:
        torch.testing.assert_close(scores, expected, rtol=1e-3, atol=1e-3)
