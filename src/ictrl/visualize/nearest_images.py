"""The nearest training image of every drawn one, so that nobody takes memorised pictures for generated ones."""

from collections.abc import Callable

from torch import Tensor

from ictrl.errors import InputError
from ictrl.shapes import Float, Int, UInt8
from ictrl.theory.neighbours import nearest


def nearest_images(
    samples: UInt8[Tensor, "n c h w"],
    images: UInt8[Tensor, "m c h w"],
    look: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
    """Which image is nearest to each sample, and how far away it is; both on the CPU.

    Distances are Euclidean: between pixels from 0 to 255, or between the features that `look` gives of images (n, d).
    """
    if not len(images):
        raise InputError("Expected images to search for the nearest but got none.")
    if samples.shape[1:] != images.shape[1:]:
        shapes = (" × ".join(map(str, some.shape[1:])) for some in (images, samples))
        raise InputError("Expected samples and images of one size but images have {} and samples {}.".format(*shapes))
    Z, others = (some.flatten(1) if look is None else look(some) for some in (samples, images))
    positions, distances = nearest(Z, others)
    return positions[:, 0], distances[:, 0]
