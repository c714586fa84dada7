"""What draws images of noise: a decoder, and codes of the classes where it is told which to draw."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ictrl.shapes import Float, Int
from ictrl.training.replay import frozen_copy

STEPS, PACE = 100, 0.1  # of the search for an image's noise, and how far each number moves in one


class Artist(NamedTuple):
    """Networks that draw; what they are told is noise and a class, a row of the codes."""

    decoder: nn.Module
    codes: nn.Module | None

    def frozen(self) -> "Artist":
        """As it is now, never to change."""
        return Artist(frozen_copy(self.decoder), None if self.codes is None else frozen_copy(self.codes))

    def of(self, noise: Float[Tensor, "n e"], rows: Int[Tensor, " n"]) -> Float[Tensor, "n c h w"]:
        """Images of this noise and, where there are codes, of these classes."""
        if self.codes is None:
            return self.decoder(noise)
        return self.decoder(torch.cat([noise, self.codes(rows)], 1))

    def nearest(self, X: Float[Tensor, "n c h w"], rows: Int[Tensor, " n"], numbers: int) -> Float[Tensor, "n c h w"]:
        """The nearest image to each that can be drawn of its class, as a short search finds it.

        From no noise at all Adam goes down ‖g(e, y) − x‖²; e has so many numbers.
        """
        noise = X.new_zeros(len(X), numbers)
        first, second = torch.zeros_like(noise), torch.zeros_like(noise)
        for t in range(1, STEPS + 1):
            with torch.enable_grad():
                noise = noise.detach().requires_grad_(True)
                slope = torch.autograd.grad((self.of(noise, rows) - X).square().sum(), noise)[0]
            first, second = first.lerp(slope, 0.1), second.lerp(slope.square(), 0.01)
            noise = noise.detach() - PACE * (first / (1 - 0.9**t)) / ((second / (1 - 0.99**t)).sqrt() + 1e-8)
        with torch.no_grad():
            return self.of(noise, rows)
