"""Every wrong input gets one clear line and changes nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from method_support import everything, same
from support import pictures, tiny_recipe

from ictrl import ICTRL, InputError

GOOD, LABELS = pictures([2, 3])
NAN = torch.full((2, 1, 8, 8), float("nan"))

WRONG_TASKS: dict[str, tuple[Any, Any, str]] = {
    "a class learned twice": (
        *pictures([1, 2]),
        r"Expected new classes but 1 was learned before: leave such images out",
    ),
    "two classes learned twice": (*pictures([0, 1]), "Expected new classes but 0, 1 were learned before"),
    "another size": (torch.zeros(2, 1, 16, 16, dtype=torch.uint8), [5, 5], r"\(n, 1, 8, 8\) but got \(2, 1, 16, 16\)"),
    "another channel count": (
        torch.zeros(2, 3, 8, 8, dtype=torch.uint8),
        [5, 5],
        r"\(n, 1, 8, 8\) but got \(2, 3, 8, 8\)",
    ),
    "channels last": (np.zeros((2, 8, 8, 1), np.uint8), [5, 5], r"but got \(2, 8, 8, 1\): resize or transpose"),
    "no channel": (np.zeros((2, 8, 8), np.uint8), [5, 5], r"but got \(2, 8, 8\)"),
    "floats": (
        torch.zeros(2, 1, 8, 8),
        [5, 5],
        r"Expected uint8 images .* but got torch.float32: scale, round and convert",
    ),
    "an array of floats": (np.zeros((2, 1, 8, 8)), [5, 5], "Expected uint8 images .* but got float64"),
    "signed bytes": (np.zeros((2, 1, 8, 8), np.int8), [5, 5], "Expected uint8 images .* but got int8"),
    "objects": (np.array([[None]]), [5], "Expected uint8 images .* but got object"),
    "NaN": (NAN, [5, 5], "but got torch.float32 with NaN in it"),
    "NaN in an array": (NAN.numpy(), [5, 5], "but got float32 with NaN in it"),
    "a list": ([[0]], [5], "Expected images as a tensor or an array but got list"),
    "too few labels": (GOOD, LABELS[:-1], r"Expected one label per image \(40\) but got labels of shape \(39,\)"),
    "too many labels": (GOOD, [*LABELS.tolist(), 2], r"but got labels of shape \(41,\)"),
    "labels in a column": (GOOD, LABELS[:, None], r"but got labels of shape \(40, 1\)"),
    "one label for all": (GOOD, 3, r"but got labels of shape \(\)"),
    "labels that are no numbers": (GOOD[:2], ["a", "b"], "Expected whole numbers .* as labels but got texts"),
    "labels with a fraction": (GOOD[:2], [0.5, 1.0], "Expected whole numbers .* as labels but got float64"),
    "labels that are NaN": (GOOD[:2], torch.tensor([float("nan")] * 2), "as labels but got float32"),
    "labels too large": (GOOD[:2], np.full(2, 2**63, dtype=np.uint64), "that fit into 64 bits .* but got uint64"),
    "an empty task": (GOOD[:0], LABELS[:0], "Expected at least one image but got none"),
    "a class of one image": (GOOD[:3], [4, 4, 5], "at least 2 images per class but got one of class 5"),
}


@pytest.fixture(scope="module")
def learner() -> ICTRL:
    return ICTRL(tiny_recipe()).learn(*pictures([0, 1]))


def refused(call: Callable[[], object], message: str, learner: ICTRL) -> None:
    before = everything(learner)
    with pytest.raises(InputError, match=message) as error:
        call()
    assert "\n" not in str(error.value)
    assert same(everything(learner), before)
    assert learner.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("case", WRONG_TASKS)
def test_learn(case: str, learner: ICTRL) -> None:
    images, labels, message = WRONG_TASKS[case]
    refused(lambda: learner.learn(images, labels), message, learner)
    refused(lambda: learner.partial_fit(images, labels), message, learner)


@pytest.mark.parametrize("method", ["predict", "scores", "residuals", "reconstruct", "features", "views", "review"])
@pytest.mark.parametrize("case", ["another size", "another channel count", "floats", "NaN", "an empty task", "a list"])
def test_images_elsewhere(method: str, case: str, learner: ICTRL) -> None:
    images, _, message = WRONG_TASKS[case]
    refused(lambda: getattr(learner, method)(images), message, learner)


def test_score(learner: ICTRL) -> None:
    refused(lambda: learner.score(GOOD, LABELS[:3]), r"Expected one label per image \(40\)", learner)


@pytest.mark.parametrize("method", ["predict", "scores", "residuals", "score", "sample", "recall", "review"])
def test_use_before_learning(method: str) -> None:
    arguments = {"score": (GOOD, LABELS), "sample": (0, 1), "recall": (0,)}.get(method, (GOOD,))
    with pytest.raises(InputError, match=f"has learned but got a new one: call learn before {method}"):
        getattr(ICTRL(tiny_recipe()), method)(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 1), "Expected a learned label but got 5; learned are 0, 1"),
        (("zero", 1), "Expected label to be a whole number but got 'zero'"),
        (([0], 1), r"Expected label to be a whole number but got \[0\]"),
        ((0, 2.0), "Expected n to be a whole number but got 2.0"),
        ((0, 1, "up"), "Expected direction to be a whole number but got 'up'"),
        ((0, 0), "Expected n to be at least 1 but got 0"),
        ((0, 1, 3), "Expected direction from 0 to 2 for label 0 but got 3"),
        ((0, 1, -1), "Expected direction from 0 to 2 for label 0 but got -1"),
    ],
)
def test_sample(arguments: tuple[Any, ...], message: str, learner: ICTRL) -> None:
    refused(lambda: learner.sample(*arguments), message, learner)


@pytest.mark.parametrize("device", ["cuda:99", "gpu", "meta", "cpu:x", ""])
def test_a_device_that_is_not_there(device: str) -> None:
    with pytest.raises(InputError, match=rf"Expected a device of this machine \(auto, cpu.*\) but got '{device}'"):
        ICTRL(tiny_recipe(), device=device)


def test_a_recipe_that_is_none_and_seeds_that_are_none() -> None:
    with pytest.raises(InputError, match="Expected a Recipe but got 'digits': load_recipe gives one by its name"):
        ICTRL("digits")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Expected seed to be at least 0 but got -1"):
        ICTRL(tiny_recipe(), seed=-1)
    with pytest.raises(InputError, match="Expected seed to be a whole number but got 'a'"):
        ICTRL(tiny_recipe(), seed="a")  # type: ignore[arg-type]


def test_labels_may_be_numpys_or_torchs_numbers(learner: ICTRL) -> None:
    assert learner.sample(np.int64(1), np.int32(2)).shape == learner.sample(torch.tensor(1), 2).shape  # type: ignore[arg-type]
