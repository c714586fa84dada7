"""mergan: memory replay GANs. A decoder that is told the class learns new classes and goes on drawing the old ones.

Decoder and critic are an AC-GAN with WGAN-GP's loss. A copy g′ of the decoder, frozen when a task begins, keeps it from
forgetting, in one of two ways:

    joint      g′ replays old classes, and decoder and critic learn from these images as from real ones
    alignment  the decoder pays α mean ‖g(e, y) − g′(e, y)‖² / 2 for noise e and old classes y; critic and decoder
               otherwise see new classes alone

(Wu, Herranz, Liu, Wang, van de Weijer and Raducanu, *Memory Replay GANs: Learning to Generate New Categories without
Forgetting*, NeurIPS 2018). The authors draw, and have a classifier of real images look at it. Here a classifier learns
too, from new images and from those that g′ draws, as in `dgr`; the labels are those that g′ was told.

Settings: the authors' code for MNIST and SVHN: Adam at 1e-4 with β (0, 0.9), begun anew with each task, λ 10, five
steps of the critic on 64 images each for one of the decoder, 4,000 of these per task on MNIST and 8,000 on SVHN, the
weight of classes 1, α 1e-3 of a sum over a step's 64 images. Theirs draws from 128 numbers of noise with a BatchNorm
for each class; here half of the d numbers are noise and half the class's code. Epochs and the classifier are ours.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ictrl.config import used_later
from ictrl.errors import ConfigError
from ictrl.methods.adversarial import AdversarialConfig, AdversarialLearner
from ictrl.methods.class_drawing import RecognisedDrawing
from ictrl.nets.layers import exact_float32
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.artist import Artist
from ictrl.training.loop import TaskHooks


@dataclass(frozen=True)
class MeRGANConfig(AdversarialConfig):
    """A decoder that is told the class, held by what it drew when the task began."""

    name: ClassVar[str] = "mergan"

    replay: Literal["joint", "alignment"] = used_later("joint")
    """how: joint training with replayed images, or replay alignment"""
    alignment: float = used_later(0.064)
    """α of replay alignment, per image: the authors' 1e-3 times the 64 images that they add up"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.replay not in ("joint", "alignment"):
            raise ConfigError(f'Expected replay to be "joint" or "alignment" but got {self.replay!r}.')
        if not 0 <= self.alignment < float("inf"):
            raise ConfigError(f"Expected alignment to be at least 0 but got {self.alignment}.")
        if self.network.feature_dim % 2:
            raise ConfigError(
                f"Expected network.feature_dim to be even but got {self.network.feature_dim}: half of the numbers are "
                "noise and half the class's code."
            )


class MeRGAN(AdversarialLearner[None], RecognisedDrawing[None]):
    """Memory replay GANs."""

    settings_type = MeRGANConfig
    conditional = True
    _before: Artist | None = None  # while a later task is learned

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> None:
        rows, old = self.rows_of(y), len(self.labels)
        # follows from the state at the task's beginning, so that a stopped task finds the same again
        self._before = self.artist.frozen() if old else None
        self._old = old
        replay = None if self._before is None else self.replay_of(self._before, old)
        self.resize(old + len(y.unique()))
        self.learn_with(X, rows, replay, hooks)
        self._before = None

    def mixed(self, X: Float[Tensor, "n c h w"], rows: Int[Tensor, " n"]) -> tuple[Tensor, Tensor]:
        return super().mixed(X, rows) if self.settings.replay == "joint" else (X, rows)

    def held(self, n: int) -> dict[str, Tensor]:
        """Replay alignment, on as many images of old classes."""
        if self._before is None or self.settings.replay == "joint" or not self.settings.alignment:
            return {}
        generator = self._state.generator
        rows = torch.randint(self._old, (n,), generator=generator, device=self.device)
        return {"decoder.alignment": self.settings.alignment * self.apart(self.noise(n, generator), rows)}

    def apart(self, noise: Float[Tensor, "n e"], rows: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        """mean ‖g(e, y) − g′(e, y)‖² / 2 over images."""
        assert self._before is not None
        with torch.no_grad():
            before = self._before.of(noise, rows)
        return (self.artist.of(noise, rows) - before).square().flatten(1).sum(1).mean() / 2

    def drawn(self, row: int, n: int, generator: torch.Generator) -> Float[Tensor, "n c h w"]:
        rows = torch.full((n,), row, device=self.device)
        with exact_float32():
            return self.artist.of(self.noise(n, generator), rows)
