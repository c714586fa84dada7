"""What methods share whose decoder is told nothing of classes: the classifier says what it has drawn.

A decoder and a classifier that says what its images are make a *scholar* (Shin et al., NeurIPS 2017). To draw a class
is to draw many images and to take those that are classified so.
"""

import torch
from torch import Tensor

from ictrl.methods.adversarial import AdversarialLearner
from ictrl.methods.base import Kept
from ictrl.nets.layers import exact_float32
from ictrl.nets.wrappers import to_uint8
from ictrl.shapes import Float
from ictrl.training.task import CHUNK

DRAWN = 4  # times as many images are drawn as would do if each class came as often as any other


class ScholarLearner(AdversarialLearner[Kept]):
    """A decoder of noise alone, and a classifier."""

    def drawn(self, row: int, n: int, generator: torch.Generator) -> Float[Tensor, "n c h w"]:
        """Of many images the first n that are classified so; where these are fewer, the likeliest others too."""
        noise = self.noise(DRAWN * n * len(self.labels), generator)
        none = torch.zeros(len(noise), dtype=torch.long, device=self.device)
        with exact_float32():
            images = torch.cat([self.artist.of(*parts) for parts in zip(noise.split(CHUNK), none.split(CHUNK))])
        column = sorted(self.labels).index(self.labels[row])
        scores = self.class_scores(to_uint8(images))
        early = torch.arange(len(images), 0, -1, device=self.device)  # log-posteriors are never above 0
        return images[torch.where(scores.argmax(1) == column, early, scores[:, column]).topk(n).indices]
