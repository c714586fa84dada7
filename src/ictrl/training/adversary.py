"""Both sides of a generative adversarial network, and the step of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ictrl.errors import ConfigError
from ictrl.nets.critic import Critic
from ictrl.shapes import Float, Int
from ictrl.training.artist import Artist
from ictrl.training.gan_losses import ADVERSARIES, Adversary, critic_loss, decoder_loss, gradient_penalty


@dataclass(frozen=True)
class AdversaryConfig:
    """How decoder and critic learn. The defaults are WGAN-GP's."""

    loss: Adversary = "wasserstein"
    """wasserstein (WGAN-GP), or non-saturating (DCGAN), whose critic has BatchNorm"""
    critic_steps: int = 5
    """steps of the critic for each of the decoder: a batch is divided into so many parts"""
    penalty: float = 10.0
    """λ, weight of the gradient penalty of wasserstein"""
    beta1: float = 0.0
    """Adam's first moment, of both"""
    beta2: float = 0.9
    """Adam's second moment, of both"""

    def __post_init__(self) -> None:
        if self.loss not in ADVERSARIES:
            raise ConfigError(f'Expected adversary.loss to be "wasserstein" or "non-saturating" but got {self.loss!r}.')
        if self.critic_steps < 1:
            raise ConfigError(f"Expected adversary.critic_steps to be at least 1 but got {self.critic_steps}.")
        if not 0 <= self.penalty < float("inf"):
            raise ConfigError(f"Expected adversary.penalty to be at least 0 but got {self.penalty}.")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(
                    f"Expected adversary.{name} to be at least 0 and below 1 but got {getattr(self, name)}."
                )


@dataclass(frozen=True)
class Adversaries:
    """A decoder and a critic; where there is a head `told`, the critic names classes too (AC-GAN)."""

    artist: Artist
    critic: Critic
    told: nn.Module | None
    critic_optimiser: torch.optim.Optimizer
    decoder_optimiser: torch.optim.Optimizer
    config: AdversaryConfig
    generator: torch.Generator
    noise: Callable[[int], Float[Tensor, "n e"]]

    def critic_step(self, real: Float[Tensor, "n c h w"], rows: Int[Tensor, " n"]) -> dict[str, Tensor]:
        """The critic, on real images and as many that are drawn now of the same classes."""
        with torch.no_grad():
            drawn = self.artist.of(self.noise(len(real)), rows)
        features = self.critic(real)
        terms = {"critic": critic_loss(self.config.loss, self.critic.score(features), self._scores(drawn))}
        if self.config.loss == "wasserstein" and self.config.penalty:
            penalty = gradient_penalty(self._scores, real, drawn, self.generator)
            terms["critic.penalty"] = self.config.penalty * penalty
        if self.told is not None:
            terms["critic.classes"] = cross_entropy(self.told(features), rows)
        return _moved(self.critic_optimiser, terms)

    def decoder_step(self, rows: Int[Tensor, " n"], held: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The decoder, on images drawn of these classes; `held` is what it pays for besides."""
        features = self.critic(self.artist.of(self.noise(len(rows)), rows))
        terms = {"decoder": decoder_loss(self.config.loss, self.critic.score(features))}
        if self.told is not None:
            terms["decoder.classes"] = cross_entropy(self.told(features), rows)
        return _moved(self.decoder_optimiser, {**terms, **held})

    def _scores(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, " n"]:
        return self.critic.score(self.critic(X))


def _moved(optimiser: torch.optim.Optimizer, terms: dict[str, Tensor]) -> dict[str, Tensor]:
    """A step of one side; what the other gets of the gradient it throws away before its own."""
    optimiser.zero_grad()
    torch.stack(list(terms.values())).sum().backward()
    optimiser.step()
    return terms
