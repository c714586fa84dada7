"""What every reader returns: uint8 images of one size, integer labels, names of classes."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from ictrl.data.arrays import Array, labelled_images
from ictrl.errors import InputError
from ictrl.shapes import Int, UInt8


@dataclass(frozen=True)
class Dataset:
    """Training and test images of one size, held in memory once; every class has at least one image in each part.

    `skipped` names the files that could not be read, each with the reason, for whoever wants to tell the user.
    """

    name: str
    images: UInt8[Tensor, "n c h w"]
    labels: Int[Tensor, " n"]
    test_images: UInt8[Tensor, "m c h w"]
    test_labels: Int[Tensor, " m"]
    class_names: dict[int, str]
    skipped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part, labels in (("training", self.labels), ("test", self.test_labels)):
            present = set(labels.unique().tolist())
            unknown, absent = sorted(present - set(self.class_names)), sorted(set(self.class_names) - present)
            if unknown:
                raise InputError(
                    f"Expected {part} labels of {self.name} among its {len(self.class_names)} classes "
                    f"but got {_some(unknown)}: the training and test images must show the same classes."
                )
            if absent:
                raise InputError(
                    f"Expected {part} images of each of the {len(self.class_names)} classes of {self.name} "
                    f"but got none of {_some([f'{label} ({self.class_names[label]})' for label in absent])}."
                )

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.images.shape[1:]))
        counts = f"{len(self.images)} training and {len(self.test_images)} test images of {shape}"
        return f"Dataset({self.name!r}, {counts}, {len(self.class_names)} classes)"

    @classmethod
    def from_arrays(
        cls,
        name: str,
        images: Array,
        labels: Array,
        test_images: Array,
        test_labels: Array,
        class_names: Mapping[int, str] | None = None,
    ) -> "Dataset":
        """A dataset from NumPy arrays or tensors: uint8 images (n, channels, height, width), a whole number per image.

        Classes without names are called by their numbers.

        >>> import numpy as np
        >>> images, labels = np.zeros((4, 1, 8, 8), dtype=np.uint8), np.array([3, 3, 7, 7])
        >>> Dataset.from_arrays("black", images, labels, images, labels).class_names
        {3: '3', 7: '7'}
        """
        where = f" of {name}"
        X, y = labelled_images(("images", images), ("labels", labels), where)
        X_test, y_test = labelled_images(("test_images", test_images), ("test_labels", test_labels), where)
        shape, test_shape = tuple(X.shape[1:]), tuple(X_test.shape[1:])
        if shape != test_shape:
            raise InputError(
                f"Expected test images of {name} of shape {shape}, like its training images, but got {test_shape}."
            )
        return cls(name, X, y, X_test, y_test, numbered(y) if class_names is None else dict(class_names))


def numbered(labels: Int[Tensor, " n"]) -> dict[int, str]:
    """Names for classes that have none: their numbers."""
    return {int(label): str(int(label)) for label in labels.unique()}


def _some(items: list[int] | list[str]) -> str:
    return ", ".join(map(str, items[:5])) + (f" … ({len(items)} in all)" if len(items) > 5 else "")
