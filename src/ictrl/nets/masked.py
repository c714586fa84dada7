"""A decoder whose weights are masked: each task uses a part of them, and what one has taken later ones cannot change.

While a task is learned, a mask is soft, σ(s e), with a number e for each weight; s rises from small to large, so that
weights are chosen by gradients first and are in or out in the end. What is kept of a task is one bit per weight, and
the numbers of its BatchNorm layers.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from ictrl.shapes import Bool, Float, UInt8

SPREAD = 0.05  # of e in the beginning


def maskable(decoder: nn.Module) -> dict[str, nn.Parameter]:
    """The weights that masks are of: all but those of BatchNorm."""
    normed = {id(p) for norm in norms(decoder) for p in norm.parameters()}
    return {name: p for name, p in decoder.named_parameters() if id(p) not in normed}


def norms(decoder: nn.Module) -> list[nn.BatchNorm2d]:
    return [module for module in decoder.modules() if isinstance(module, nn.BatchNorm2d)]


class Masks(nn.Module):
    """Soft masks of a decoder's weights, with a place for each; `steps` says how far they have hardened."""

    steps: Tensor

    def __init__(self, decoder: nn.Module, generator: torch.Generator) -> None:
        super().__init__()
        self.names = list(maskable(decoder))
        self.numbers = nn.ParameterList(
            nn.Parameter(SPREAD * torch.randn(p.shape, generator=generator, device=p.device))
            for p in maskable(decoder).values()
        )
        self.register_buffer("steps", torch.zeros((), device=generator.device))

    def soft(self, hardest: float, steps: int) -> dict[str, Tensor]:
        """σ(s e), s from 1 / hardest to hardest over so many steps, in equal ratios."""
        s = hardest ** (2 * (self.steps / max(steps - 1, 1)).clamp(max=1) - 1)
        return {name: (s * e).sigmoid() for name, e in zip(self.names, self.numbers)}

    def hard(self) -> dict[str, Bool[Tensor, "..."]]:
        """What they are in the end."""
        return {name: e.detach() > 0 for name, e in zip(self.names, self.numbers)}


class MaskedDecoder(nn.Module):
    """The decoder with soft masks, for the steps of a task."""

    def __init__(self, decoder: nn.Module, masks: Masks, hardest: float, steps: int) -> None:
        super().__init__()
        self.decoder, self.masks = decoder, masks
        self.hardest, self.of_steps = hardest, steps

    def forward(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n c h w"]:
        masks, weights = self.masks.soft(self.hardest, self.of_steps), maskable(self.decoder)
        masked = {name: weights[name] * mask for name, mask in masks.items()}
        return functional_call(self.decoder, masked, (Z,))


def of_task(decoder: nn.Module, masks: Mapping[str, Tensor], numbers: Float[Tensor, " b"]) -> nn.Module:
    """Turn a copy of the decoder into that of a task: what its mask leaves out is 0."""
    with torch.no_grad():
        for name, weight in maskable(decoder).items():
            weight.mul_(masks[name])
        parts = [tensor for norm in norms(decoder) for tensor in _numbers_of(norm)]
        for part, value in zip(parts, numbers.split([part.numel() for part in parts])):
            part.copy_(value.view_as(part))
    return decoder


def norm_numbers(decoder: nn.Module) -> Float[Tensor, " b"]:
    """Scales, shifts, means and variances of all BatchNorm layers."""
    return torch.cat([tensor.detach().flatten() for norm in norms(decoder) for tensor in _numbers_of(norm)])


def begin_norms(decoder: nn.Module) -> None:
    """BatchNorm as it is before anything is learned."""
    for norm in norms(decoder):
        norm.reset_running_stats()
        nn.init.ones_(norm.weight)
        nn.init.zeros_(norm.bias)


def packed(masks: Mapping[str, Tensor]) -> UInt8[Tensor, " bytes"]:
    """A bit per weight."""
    bits = torch.cat([mask.flatten() for mask in masks.values()])
    return torch.from_numpy(np.packbits(bits.cpu().numpy())).to(bits.device)


def unpacked(bits: UInt8[Tensor, " bytes"], decoder: nn.Module) -> dict[str, Bool[Tensor, "..."]]:
    """The inverse."""
    weights = maskable(decoder)
    whole = torch.from_numpy(np.unpackbits(bits.cpu().numpy())).to(bits.device).bool()
    sizes = [p.numel() for p in weights.values()]
    parts = whole[: sum(sizes)].split(sizes)
    return {name: part.view(p.shape) for (name, p), part in zip(weights.items(), parts)}


def packed_bytes(decoder: nn.Module) -> int:
    return -(-sum(p.numel() for p in maskable(decoder).values()) // 8)


def _numbers_of(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    return norm.weight, norm.bias, norm.running_mean, norm.running_var
