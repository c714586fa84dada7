"""Images in every form that people have them in teach a learner the same, and are told apart the same."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from method_support import everything, same
from PIL import Image
from support import pictures, tiny_recipe
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from ictrl import ICTRL
from ictrl.data.pictures import from_picture
from ictrl.data.resize import fit
from ictrl.methods.intake import checked_images, images_and_labels

X, Y = pictures([0, 1])
PILLOWS = [Image.fromarray(image[0].numpy()) for image in X]
RGB = X.repeat(1, 3, 1, 1)


class Rows(Dataset[Any]):
    """A torch Dataset that never says where it ends."""

    def __init__(self, images: Any, labels: Any) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, position: int) -> tuple[Any, Any]:
        return self.images[position % len(self)], self.labels[position % len(self)]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(zip(X, Y))


class HubDataset:
    """What a dataset of Hugging Face's library is to those who use it: rows that are dicts, and columns."""

    column_names = ("image", "label")

    def __init__(self, images: Any, labels: Any) -> None:
        self.rows = [{"image": image, "label": label} for image, label in zip(images, labels)]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, key: Any) -> Any:
        return [row[key] for row in self.rows] if isinstance(key, str) else self.rows[key]


IMAGES: dict[str, Any] = {
    "an array": X.numpy(),
    "an array that may not be written to": np.frombuffer(X.numpy().tobytes(), np.uint8).reshape(X.shape),
    "Fortran's order": np.asfortranarray(X.numpy()),
    "floats": X / 255,
    "halves": (X / 255).half(),
    "bfloat16": (X / 255).bfloat16(),
    "doubles": X.numpy() / 255,
    "doubles of another machine": (X.numpy() / 255).astype(">f8"),
    "floats with gradients": (X / 255).requires_grad_(),
    "no channel": X[:, 0],
    "no channel, floats": X[:, 0].numpy() / 255,
    "channels last": X.permute(0, 2, 3, 1),
    "an array, channels last": X.permute(0, 2, 3, 1).numpy(),
    "colour": RGB,
    "colour, channels last": RGB.permute(0, 2, 3, 1).numpy(),
    "Pillow's": PILLOWS,
    "Pillow's in colour": tuple(picture.convert("RGB") for picture in PILLOWS),
    "a list of arrays": list(X.numpy()),
    "a list of mixed kinds": [*PILLOWS[:9], *X[9:20], *(X[20:30, 0] / 255), *RGB.permute(0, 2, 3, 1)[30:].numpy()],
    "an array of pictures": np.array([*PILLOWS, None], dtype=object)[:-1],
    "a loader of a dataset that has nothing but images": DataLoader(TensorDataset(X[:, 0]), batch_size=7),
    "a loader of images": DataLoader(X / 255, batch_size=7),  # type: ignore[arg-type]
}
WITH_LABELS: dict[str, Any] = {
    "pairs": list(zip(PILLOWS, Y.tolist())),
    "a dataset": Rows(X, Y),
    "a dataset of pictures": Rows(PILLOWS, Y.tolist()),
    "a dataset of tensors": TensorDataset(X / 255, Y),
    "a dataset without a length": Stream(),
    "a loader": DataLoader(TensorDataset(X, Y), batch_size=7),
    "a loader of floats": DataLoader(Rows(X / 255, Y), batch_size=7),
    "a loader without batches": DataLoader(Rows(X, Y), batch_size=None),
    "a loader of lists": DataLoader(Rows(PILLOWS, Y.tolist()), batch_size=2, collate_fn=lambda rows: list(zip(*rows))),
    "a loader of a stream": DataLoader(Stream(), batch_size=7),
    "a loader of dicts": DataLoader(HubDataset(X, Y), batch_size=7),  # type: ignore[arg-type]
    "a Hub dataset": HubDataset(PILLOWS, Y.tolist()),
}


@pytest.fixture(scope="module")
def learner() -> ICTRL:
    return ICTRL(tiny_recipe()).learn(X, Y)


@pytest.mark.parametrize("kind", IMAGES)
def test_what_kind_images_are_of_changes_nothing(kind: str, learner: ICTRL) -> None:
    given = IMAGES[kind]
    assert torch.equal(checked_images(given, 1, 8), X)
    assert same(everything(ICTRL(tiny_recipe()).learn(given, Y)), everything(learner))
    for door in (learner.predict, learner.scores, learner.predict_proba, learner.decision_function, learner.residuals):
        answer = door(given)
        assert isinstance(answer, Tensor if isinstance(given, Tensor) else np.ndarray)
        np.testing.assert_array_equal(answer, door(X))
    assert torch.equal(learner.features(given), learner.features(X))
    assert learner.score(given, Y) == learner.score(X, Y)


@pytest.mark.parametrize("kind", WITH_LABELS)
def test_labels_that_come_with_images_may_be_left_out(kind: str, learner: ICTRL) -> None:
    given = WITH_LABELS[kind]
    images, labels = images_and_labels(given, 1, 8)
    assert torch.equal(images, X)
    assert images.dtype == torch.uint8
    assert labels is not None
    assert [int(label) for label in labels] == Y.tolist()
    assert same(everything(ICTRL(tiny_recipe()).learn(given)), everything(learner))
    assert same(everything(ICTRL(tiny_recipe()).partial_fit(given)), everything(learner))
    np.testing.assert_array_equal(learner.predict(given), learner.predict(X.numpy()))
    assert learner.score(given) == learner.score(X, Y)
    assert learner.score(given, 1 - Y) == pytest.approx(1 - learner.score(X, Y))  # those given beside it come first


def test_a_generator_is_read_once() -> None:
    images, labels = images_and_labels(zip(PILLOWS, Y.tolist()), 1, 8)
    assert torch.equal(images, X)
    assert labels == Y.tolist()


@pytest.mark.parametrize("shape", [(3, 20, 30), (1, 5, 5), (3, 8, 8), (1, 28, 28)])
@pytest.mark.parametrize(("channels", "side"), [(1, 8), (3, 32)])
def test_sizes_and_colours_are_brought_to_the_networks_as_in_training(
    shape: tuple[int, int, int], channels: int, side: int
) -> None:
    """Whatever comes: what the folder reader makes of the same picture."""
    images = torch.randint(256, (4, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    expected = fit(images, side, channels)
    assert torch.equal(checked_images(images, channels, side), expected)
    assert torch.equal(checked_images(images.permute(0, 2, 3, 1).numpy(), channels, side), expected)
    assert torch.equal(checked_images(images.double() / 255, channels, side), expected)
    pillows = [Image.fromarray(image.permute(1, 2, 0).squeeze(2).numpy()) for image in images]
    read = torch.stack([from_picture(picture, side, channels) for picture in pillows])
    assert torch.equal(checked_images(pillows, channels, side), read)
    assert torch.equal(read, expected)


def test_a_list_may_have_pictures_of_several_sizes() -> None:
    given = [Image.new("RGBA", (40, 30)), Image.new("L", (5, 9)), torch.zeros(3, 17, 11), np.zeros((8, 8), np.uint8)]
    assert checked_images(given, 3, 16).shape == (4, 3, 16, 16)


def test_images_that_fit_are_not_copied() -> None:
    array = X.numpy()
    assert checked_images(X, 1, 8).data_ptr() == X.data_ptr()
    assert checked_images(array, 1, 8).data_ptr() == array.ctypes.data
    assert checked_images(X.transpose(2, 3), 1, 8).stride() == X.transpose(2, 3).stride()


def test_floats_are_never_held_twice() -> None:
    floats = np.zeros((4000, 64, 64), np.float64)  # 131 MB, and 16 MB as bytes
    tracemalloc.start()
    try:
        assert checked_images(floats, 1, 64).shape == (4000, 1, 64, 64)
        assert tracemalloc.get_traced_memory()[1] < 80e6  # NumPy's part; a chunk of float32
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_bytes_survive_being_floats(dtype: torch.dtype) -> None:
    every = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    assert torch.equal(checked_images(every.to(torch.float64).div(255).to(dtype), 1, 16), every)
