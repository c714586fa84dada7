"""Files of the official formats with a handful of random images in them."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def random_images(*shape: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


class Official:
    """Writes tiny datasets below a folder, and remembers what it wrote."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def mnist(self, folder: str = "MNIST/raw", compressed: bool = False) -> dict[str, NDArray[np.uint8]]:
        arrays = {
            "train-images-idx3-ubyte": random_images(30, 28, 28),
            "train-labels-idx1-ubyte": np.arange(30, dtype=np.uint8) % 10,
            "t10k-images-idx3-ubyte": random_images(20, 28, 28, seed=1),
            "t10k-labels-idx1-ubyte": np.arange(20, dtype=np.uint8)[::-1] % 10,
        }
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        for name, array in arrays.items():
            content = idx_bytes(array)
            path = self.root / folder / (f"{name}.gz" if compressed else name)
            path.write_bytes(gzip.compress(content) if compressed else content)
        return arrays

    def cifar(self, name: str, version: str) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
        """Training pixels (n, 3072), training labels, test pixels; the test labels are 0, 1, … in order."""
        classes = 10 if name == "cifar10" else 100
        batches = 5 if name == "cifar10" else 1
        n = 2 * classes
        pixels, labels = random_images(n, 3072), np.random.default_rng(2).permutation(np.arange(n) % classes)
        test_pixels = random_images(classes, 3072, seed=1)
        parts = [*zip(np.split(pixels, batches), np.split(labels, batches)), (test_pixels, np.arange(classes))]
        write = self._binary if version == "binary" else self._python
        write(name, parts)
        return pixels, labels, test_pixels

    def _binary(self, name: str, parts: list) -> None:
        ten = name == "cifar10"
        folder = self.root / ("cifar-10-batches-bin" if ten else "cifar-100-binary")
        folder.mkdir(parents=True)
        files = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"] if ten else ["train.bin", "test.bin"]
        for file, (pixels, labels) in zip(files, parts):
            coarse = [] if ten else [(labels // 5)[:, None]]
            (folder / file).write_bytes(np.hstack([*coarse, labels[:, None], pixels]).astype(np.uint8).tobytes())

    def _python(self, name: str, parts: list) -> None:
        ten = name == "cifar10"
        folder = self.root / ("cifar-10-batches-py" if ten else "cifar-100-python")
        folder.mkdir(parents=True)
        files = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"] if ten else ["train", "test"]
        for file, (pixels, labels) in zip(files, parts):
            content = {b"data": pixels, b"labels" if ten else b"fine_labels": labels.tolist(), b"filenames": [b"a.png"]}
            (folder / file).write_bytes(pickle.dumps(content, protocol=2))
