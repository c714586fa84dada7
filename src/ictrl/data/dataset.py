"""What every reader returns: uint8 images of one size, integer labels, names of classes."""

from dataclasses import dataclass

from jaxtyping import Int, UInt8
from torch import Tensor

from ictrl.errors import InputError


@dataclass(frozen=True)
class Dataset:
    """Training and test images of one size, held once; each class has some of both.

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


def numbered(labels: Int[Tensor, " n"]) -> dict[int, str]:
    """Names for classes that have none: their numbers."""
    return {int(label): str(int(label)) for label in labels.unique()}


def _some(items: list[int] | list[str]) -> str:
    return ", ".join(map(str, items[:5])) + (f" … ({len(items)} in all)" if len(items) > 5 else "")
