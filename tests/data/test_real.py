"""The real MNIST, CIFAR-10 and CIFAR-100, where someone has them: ICTRL_REAL_DATA names the folder that holds them."""

import os
from pathlib import Path

import pytest
import torch
from PIL import Image

from ictrl.config import StreamConfig
from ictrl.data import Dataset, load_dataset

ROOT = os.environ.get("ICTRL_REAL_DATA")
pytestmark = pytest.mark.skipif(not ROOT, reason="ICTRL_REAL_DATA names no folder with the real datasets")

MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
EXPORTED = int(os.environ.get("ICTRL_REAL_EXPORT", "30"))  # images per class and part; 5000 is all of CIFAR-10


def load(name: str, image_size: int = 32, channels: int = 3) -> Dataset:
    return load_dataset(StreamConfig(dataset=name, root=ROOT), image_size, channels)


def test_mnist_counts() -> None:
    mnist = load("mnist", channels=1)
    assert mnist.labels.bincount().tolist() == MNIST_TRAIN
    assert mnist.test_labels.bincount().tolist() == MNIST_TEST
    assert mnist.images.shape == (60000, 1, 32, 32)
    assert int(mnist.images[:, :, :2].max()) == 0  # the border
    assert int(mnist.images.max()) == 255


@pytest.mark.parametrize(
    ("name", "classes", "each", "each_test"), [("cifar10", 10, 5000, 1000), ("cifar100", 100, 500, 100)]
)
def test_cifar_counts(name: str, classes: int, each: int, each_test: int) -> None:
    cifar = load(name)
    assert cifar.labels.bincount().tolist() == [each] * classes
    assert cifar.test_labels.bincount().tolist() == [each_test] * classes
    assert cifar.images.shape == (50000, 3, 32, 32)
    assert len(cifar.class_names) == classes


def test_cifar10_exported_as_png_and_read_as_a_folder_is_the_same(tmp_path: Path) -> None:
    cifar = load("cifar10")
    parts = {}
    for part, images, labels in (
        ("train", cifar.images, cifar.labels),
        ("test", cifar.test_images, cifar.test_labels),
    ):
        rows = torch.cat([(labels == label).nonzero().flatten()[:EXPORTED] for label in cifar.class_names])
        parts[part] = images[rows], labels[rows]
        for name in cifar.class_names.values():
            (tmp_path / part / name).mkdir(parents=True)
        for row in rows.tolist():
            picture = Image.fromarray(images[row].permute(1, 2, 0).numpy())
            picture.save(tmp_path / part / cifar.class_names[int(labels[row])] / f"{row:05d}.png", compress_level=1)
    folder = load_dataset(StreamConfig(dataset="folder", root=str(tmp_path)), 32, 3)
    assert folder.class_names == cifar.class_names  # the official names happen to be in alphabetical order
    assert folder.skipped == ()
    assert torch.equal(folder.images, parts["train"][0])
    assert torch.equal(folder.labels, parts["train"][1])
    assert torch.equal(folder.test_images, parts["test"][0])
    assert torch.equal(folder.test_labels, parts["test"][1])
