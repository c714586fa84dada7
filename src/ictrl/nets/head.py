"""Heads on top of an encoder: a linear classifier that grows, a projector, one that draws from a frozen trunk."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d
from torch.nn.utils import skip_init

from ictrl.nets.batchnorm import FeatureNorm
from ictrl.nets.layers import ToFeature, initialise
from ictrl.nets.wrappers import run_stages
from ictrl.shapes import Float
from ictrl.theory.statistics import spectrum

SIDE = 4  # of the map that becomes a feature


class LinearHead(nn.Module):
    """logits = W f + b, a row of W per class.

    New rows come from N(0, 1/d) with a bias of 0, or uniformly from ±1/√d, bias too, as in PyTorch.
    """

    def __init__(self, feature_dim: int, classes: int = 0, uniform: bool = False) -> None:
        super().__init__()
        self.uniform = uniform
        self.weight = nn.Parameter(torch.zeros(classes, feature_dim))
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        return features @ self.weight.T + self.bias

    def grown(self, classes: int, generator: torch.Generator) -> "LinearHead":
        """A head of so many classes: the rows of this one, then new ones drawn at random."""
        old, d = self.weight.shape
        head = LinearHead(d, classes, self.uniform).to(self.weight.device)
        with torch.no_grad():
            if self.uniform:
                for part in head.parameters():
                    part.uniform_(-(d**-0.5), d**-0.5, generator=generator)
            else:
                head.weight.normal_(0.0, d**-0.5, generator=generator)
            head.weight[:old], head.bias[:old] = self.weight, self.bias
        return head

    def without(self, row: int) -> "LinearHead":
        """A head less one class."""
        head = LinearHead(self.weight.shape[1], len(self.weight) - 1, self.uniform).to(self.weight.device)
        with torch.no_grad():
            for mine, other in zip(head.parameters(), self.parameters()):
                mine.copy_(torch.cat([other[:row], other[row + 1 :]]))
        return head


def projector_head(d: int, hidden: int, out: int, generator: torch.Generator) -> nn.Sequential:
    """Two linear layers with BatchNorm and ReLU between them, for losses that are thrown away with it.

    Weights come from the generator given, on its device, and not from the global one.
    """
    device = generator.device
    first, last = skip_init(nn.Linear, d, hidden, device=device), skip_init(nn.Linear, hidden, out, device=device)
    with torch.no_grad():
        for layer in (first, last):
            layer.weight.normal_(0.0, layer.in_features**-0.5, generator=generator)
            layer.bias.zero_()
    return nn.Sequential(first, FeatureNorm(hidden, device=device), nn.ReLU(), last)


class HeadOnTrunk(nn.Module):
    """Images to d numbers, not yet of unit length: a last layer of one's own on the last stage of somebody's trunk.

    The trunk is no part of this module. Whoever trains, averages, counts or stores it deals with the head alone, and
    the trunk stays in evaluation mode whatever mode the head is in.
    """

    casts = True

    def __init__(self, trunk: nn.Module, channels: int, d: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self._trunk = (trunk,)  # in a tuple, which keeps torch from making it a part
        self.last = ToFeature(channels, d)
        initialise(self, generator)

    def forward(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        return self.from_stages(self.stages(X))

    def stages(self, X: Float[Tensor, "n c h w"]) -> list[Tensor]:
        """The trunk's."""
        return run_stages(X.dtype, self._trunk[0], X)

    def from_stages(self, stages: list[Tensor]) -> Float[Tensor, "n d"]:
        """The last of them, as a 4×4 map, in d numbers."""
        last = stages[-1]
        return self.last(last if last.shape[-1] == SIDE else adaptive_avg_pool2d(last, SIDE))


class PrincipalHead(nn.Module):
    """Images to s numbers by a frozen trunk: the first principal directions of its last stage, each of variance one.

    What the directions are, `fit` finds by a few rounds of subspace iteration on the first task's images. Nothing of it
    is trained, and what classes have in common, the mean, is taken out.
    """

    casts = True
    rounds, more = 8, 16  # of iteration, and directions beyond those asked for, which make it converge sooner

    def __init__(self, trunk: nn.Module, channels: int, size: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self._trunk = (trunk,)
        many = channels * SIDE * SIDE
        first = torch.randn(many, size, generator=generator) / many**0.5
        self.mean = nn.Parameter(torch.zeros(many), requires_grad=False)
        self.directions = nn.Parameter(first, requires_grad=False)

    def forward(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n s"]:
        return self.from_stages(self.stages(X))

    def stages(self, X: Float[Tensor, "n c h w"]) -> list[Tensor]:
        """The trunk's."""
        return run_stages(X.dtype, self._trunk[0], X)

    def from_stages(self, stages: list[Tensor]) -> Float[Tensor, "n s"]:
        """The last of them, as a 4×4 map, in s numbers."""
        return (self.flat(stages) - self.mean) @ self.directions

    def flat(self, stages: list[Tensor]) -> Float[Tensor, "n many"]:
        """The last stage as one row for each image, in float32."""
        last = stages[-1]
        return (last if last.shape[-1] == SIDE else adaptive_avg_pool2d(last, SIDE)).float().flatten(1)

    @torch.no_grad()
    def fit(self, rows: Sequence[Float[Tensor, "_ many"]], generator: torch.Generator) -> None:
        """Take the principal directions of these rows."""
        n, mean = 0, torch.zeros_like(self.mean, dtype=torch.float64)
        for part in rows:
            n, mean = n + len(part), mean + part.double().sum(0)
        self.mean.copy_(mean / n)
        many, size = self.directions.shape
        tried = torch.randn(many, min(size + self.more, many), generator=generator, device=self.mean.device)
        for _ in range(self.rounds):
            tried = torch.linalg.qr(tried)[0]
            centred = ((part - self.mean) for part in rows)
            tried = torch.stack([part.T @ (part @ tried) for part in centred]).sum(0)
        basis = torch.linalg.qr(tried)[0]
        seen = torch.cat([(part - self.mean) @ basis for part in rows])
        values, within = spectrum(seen.T @ seen / n)
        scale = values[:size].clamp(min=1e-4 * float(values[0]) + 1e-12).rsqrt()  # what hardly varies stays small
        self.directions.copy_(basis @ within[:, :size] * scale)
