"""Old classes during a task: features drawn from the Gaussians of memory, once or at every step (Algorithm 2)."""

import copy
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from ictrl.memory.store import Gaussians
from ictrl.parallel.sharing import mine

Network = TypeVar("Network", bound=nn.Module)


def frozen_copy(network: Network) -> Network:
    """The network as it is now, never to change."""
    return copy.deepcopy(network).eval().requires_grad_(False)


class Replay:
    """Draws `samples` features from each Gaussian, and has `decoder_before` draw their images, if it is given."""

    def __init__(
        self,
        gaussians: Gaussians,
        samples: int,
        decoder_before: nn.Module | None,
        resample: Literal["task", "step"],
        generator: torch.Generator,
    ) -> None:
        self.gaussians = gaussians
        self.samples = samples
        self.decoder_before = decoder_before
        self.generator = generator
        self.classes = int(gaussians.labels[-1]) + 1
        self.rows = len(gaussians.means) * samples
        self.kept = self._draw() if resample == "task" else None

    def draw(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Z_old, y_old, and the images of Z_old by the decoder of before, if there is one.

        Where a batch is shared, Z_old and its images are the rows of this process, and y_old has all rows.
        """
        return self.kept if self.kept is not None else self._draw()

    def _draw(self) -> tuple[Tensor, Tensor, Tensor | None]:
        Z_old, y_old = self.gaussians.sample(self.samples, self.generator)
        Z_old = mine(Z_old)
        if self.decoder_before is None:
            return Z_old, y_old, None
        with torch.no_grad():
            return Z_old, y_old, self.decoder_before(Z_old)
