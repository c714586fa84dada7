"""Every wrong input gets one clear line and changes nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from method_support import everything, same
from PIL import Image
from support import pictures, tiny_recipe
from torch.utils.data import TensorDataset

from ictrl import ICTRL, InputError

GOOD, LABELS = pictures([2, 3])
NAN = torch.full((2, 1, 8, 8), float("nan"))

WRONG_TASKS: dict[str, tuple[Any, Any, str]] = {
    "a class learned twice": (
        *pictures([1, 2]),
        r"Expected new classes but 1 was learned before: leave such images out",
    ),
    "two classes learned twice": (*pictures([0, 1]), "Expected new classes but 0, 1 were learned before"),
    "rows": (GOOD[:2].flatten(1), [5, 5], r"of shape \(n, height, width\), .* but got \(2, 64\): .* reshape"),
    "another rank": (GOOD[None], [5], r"but got \(1, 40, 1, 8, 8\)\.$"),
    "a picture alone": (np.zeros((8, 8, 3), np.uint8), [5] * 8, r"but got \(8, 8, 3\): .* by picture\[None\]"),
    "four channels": (np.zeros((2, 8, 8, 4), np.uint8), [5, 5], r"1 or 3\) .* but got \(2, 8, 8, 4\): leave out"),
    "floats to 255": (GOOD.float(), LABELS, r"floats from 0 to 1, but got float32 from 0 to 255: .* images / 255\."),
    "floats to 16": (np.full((2, 8, 8), 16.0), [5, 5], r"got float64 from 16 to 16: convert by images / 16\."),
    "floats from −1": (GOOD / 127.5 - 1, LABELS, r"float32 from -1 to 1: convert by \(images \+ 1\) / 2\."),
    "standardised": (GOOD / 50 - 2, LABELS, r"float32 from -2 to 3.1: .* or undo what normalised them\."),
    "whole numbers": (GOOD.long(), LABELS, r"got int64 from 0 to 255: convert by images\.to\(torch\.uint8\)\."),
    "an array of them": (GOOD.numpy().astype(int), LABELS, r"convert by images\.astype\(np\.uint8\)\."),
    "a sparse tensor": ((GOOD[:2] / 255).to_sparse(), [5, 5], r"without its pixels: images\.to_dense\(\)"),
    "a path": (Path("cat.png"), [5], r"but got .*Path: PIL\.Image\.open opens a file\."),
    "paths": ([Path("cat.png")], [5], r"but got .*Path as picture 0: PIL\.Image\.open opens a file\."),
    "16 bits": (np.full((2, 8, 8), 60000, np.uint16), [5, 5], r"uint16 from 60000 to 60000: .* images / 65535\."),
    "black and white": (GOOD > 99, LABELS, r"got bool: convert by images\.to\(torch\.uint8\) \* 255\."),
    "ones": ((GOOD > 99).int(), LABELS, r"got int32 from 0 to 1: convert by images\.to\(torch\.uint8\) \* 255\."),
    "objects": (np.array([[None]]), [5], "Expected uint8 images, .* but got object: make an array of numbers"),
    "complex numbers": (GOOD.to(torch.complex64), LABELS, "Expected uint8 images, .* but got complex64"),
    "NaN": (NAN, [5, 5], "but got float32 with NaN in it: leave such images out"),
    "NaN in an array": (NAN.numpy(), [5, 5], "but got float32 with NaN in it"),
    "infinity": (np.full((2, 8, 8), np.inf), [5, 5], "but got float64 with infinity in it"),
    "a list": ([[0]], [5], r"but got list as picture 0: np\.array\(images\) makes an array of numbers"),
    "an empty list": ([], [], "Expected at least one image but got none"),
    "one of Pillow's": (Image.new("L", (8, 8)), [5], r"but got a single picture: give \[picture\]"),
    "floating-point pixels": (
        [Image.new("F", (8, 8))] * 2,
        [5, 5],
        "not read picture 0: its pixels are floating",
    ),
    "the name of a file": ("a.png", [5], r"but got str: PIL\.Image\.open opens a file"),
    "names of files": (["a.png"], [5], r"but got str as picture 0: PIL\.Image\.open opens a file"),
    "a stack in a list": ([GOOD], [5], r"Expected picture 0 of shape \(height, width\), .* but got \(40, 1, 8, 8\)"),
    "nothing": (None, [5], "Expected images as an array, a tensor, a list of pictures, .* but got NoneType"),
    "several splits": ({"train": GOOD, "test": GOOD}, [5], r"but got several \(train, test\): give one of them"),
    "other columns": ([{"fine": 1, "coarse": 2}], None, "Expected a column image, .* but got fine, coarse: rename"),
    "three parts": ([(GOOD[0], 5, 6)], None, r"Expected \(image, label\) from a dataset but got 3 parts"),
    "no labels": (GOOD, None, "Expected labels but got none: give them beside the images"),
    "some labels": ([(GOOD[0], 5), GOOD[1]], None, "a label for every image or for none but got none for 1"),
    "too few labels": (GOOD, LABELS[:-1], r"Expected one label per image \(40\) but got labels of shape \(39,\)"),
    "too many labels": (GOOD, [*LABELS.tolist(), 2], r"but got labels of shape \(41,\)"),
    "labels in a column": (GOOD, LABELS[:, None], r"but got labels of shape \(40, 1\)"),
    "one label for all": (GOOD, 3, r"but got labels of shape \(\)"),
    "names after numbers": (
        GOOD[:2],
        ["a", "b"],
        "Expected whole numbers as labels, .* taught by, but got texts",
    ),
    "a number among names": (GOOD[:2], ["a", 1], "all whole numbers or all texts but got 1 among texts"),
    "a missing name": (GOOD[:2], np.array(["a", None], dtype=object), "or all texts but got None among texts"),
    "bytes": (GOOD[:2], [b"a", b"b"], "or texts, as labels but got bytes: decode them"),
    "labels of several lengths": (GOOD[:2], [[1], [1, 2]], "one label per image but got lists of several lengths"),
    "one-hot labels": (TensorDataset(GOOD, torch.eye(4)[LABELS]), None, r"Expected one label per image \(40\) but got"),
    "labels with a fraction": (GOOD[:2], [0.5, 1.0], "Expected whole numbers .* as labels but got float64"),
    "labels that are NaN": (GOOD[:2], torch.tensor([float("nan")] * 2), "as labels but got float32"),
    "labels too large": (GOOD[:2], np.full(2, 2**63, dtype=np.uint64), "that fit into 64 bits, .* but got uint64"),
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
@pytest.mark.parametrize("case", ["rows", "floats to 255", "whole numbers", "NaN", "an empty task", "a list"])
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
