"""What residual encoders share: sizes of pictures, stages of blocks, how convolutions begin."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from ictrl.errors import ConfigError
from ictrl.nets.dcgan import IMAGE_SIZES
from ictrl.shapes import Float

MOST_STAGES, BLOCKS = 4, 2
LARGEST = 32  # the side that the first stage works at, at most


def stem_stride(image_size: int) -> int:
    """By how much the convolution next to the image reduces it; a size that no network has is refused."""
    if image_size not in IMAGE_SIZES:
        raise ConfigError(f"Expected image_size to be one of {IMAGE_SIZES} but got {image_size}: resize the images.")
    return max(1, image_size // LARGEST)


def stages_of(block: Callable[[int, int, int], nn.Module], width: int, count: int) -> nn.ModuleList:
    """Stages of two blocks (channels below, above, stride) each; every one after the first halves and doubles."""
    widths = [width, *(width * 2**i for i in range(count))]
    return nn.ModuleList(
        nn.Sequential(*(block(widths[i + (b > 0)], widths[i + 1], 2 if i and not b else 1) for b in range(BLOCKS)))
        for i in range(count)
    )


def through(parts: Iterable[nn.Module], a: Float[Tensor, "n c h w"]) -> list[Tensor]:
    """The activations after each stage."""
    found = []
    for part in parts:
        a = part(a)
        found.append(a)
    return found


def initialise_he(network: nn.Module, generator: torch.Generator | None) -> None:
    """He's: convolutions from N(0, 2 / fan-out)."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            fan = module.out_channels * module.kernel_size[0] ** 2
            nn.init.normal_(module.weight, 0.0, (2 / fan) ** 0.5, generator=generator)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
