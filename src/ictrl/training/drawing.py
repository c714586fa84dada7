"""A decoder that learns to draw from features that stand still, against a critic.

Where a trunk is frozen, features of a class never move: a class is a Gaussian N(μ_j, Σ_j) of them for ever, and its
code c_j, a part of every feature z, says which class is meant. In every step the decoder draws three sets of images,

    x̂ = g(z) for z drawn of new classes,    g(f(x)) for new images x,    g(z) for z drawn of old classes,

and pays, with a weight each,

    −D(x̂, c)                                what a critic thinks of the first, and of the last where it is shown these
    unexplained(g(f(x)), x)                 to the eye and to every stage of the trunk (`theory.objectives`)
    unexplained(g(z), g_before(z))          the same for old classes: as the decoder drew them when the task began
    −log p(j | x̂)                           what the learner itself, from memory, takes the drawn images for.

The critic pays the hinge loss for new images and drawn ones, both shown through `diff_augment`. With old classes, it
may take what the decoder of before draws for real images of these.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu

from ictrl.config import StageConfig
from ictrl.errors import ConfigError
from ictrl.memory.latents import Latents
from ictrl.shapes import Float, Int, UInt8
from ictrl.theory.objectives import unexplained
from ictrl.training.augmentation import draw
from ictrl.training.diff_augment import diff_augment
from ictrl.training.ema import refresh_batchnorm
from ictrl.training.loader import Batches, ImageSource
from ictrl.training.loop import TaskHooks, run_epochs
from ictrl.training.players import untrained
from ictrl.training.profiler import untimed
from ictrl.training.replay import frozen_copy
from ictrl.training.schedule import multiply_learning_rate
from ictrl.training.state import TrainingState

REFRESHED = 20  # batches from which BatchNorm's statistics of averaged weights are taken


@dataclass(frozen=True)
class DrawingStageConfig(StageConfig):
    """A stage in which decoder and critic learn, and what the decoder pays for."""

    critic_rate: float = 2.0
    """the critic's learning rate, as a multiple of the decoder's"""
    adversary: float = 1.0
    """what the critic thinks of images drawn from memory"""
    matching: float = 1.0
    """how far new images and what the decoder makes of them are apart, to the trunk's stages"""
    held: float = 10.0
    """how far images of old classes are from those that the decoder of before draws of the same features"""
    recognised: float = 0.0
    """how little the learner itself is sure of the class of drawn images"""
    old_too: bool = True
    """the critic is shown old classes too, as the decoder of before draws them"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch == "rule":
            raise ConfigError('Expected batch to be a number but got "rule", which is a rule of i-CTRL.')
        for name in ("adversary", "matching", "held", "recognised"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"Expected {name} to be at least 0 but got {getattr(self, name)}.")
        if not 0 < self.critic_rate < float("inf"):
            raise ConfigError(f"Expected critic_rate to be above 0 but got {self.critic_rate}.")
        if not self.adversary and not self.matching:
            raise ConfigError("Expected adversary or matching above 0: nothing would be drawn.")


@dataclass(frozen=True)
class Looks:
    """How a frozen trunk sees images."""

    stages: Callable[[Tensor], list[Tensor]]
    """the activations of its stages"""
    feature: Callable[[list[Tensor], Tensor], Tensor]
    """(stages, rows of classes) -> features that are drawn from"""
    scores: Callable[[list[Tensor]], Tensor]
    """of every class, from memory"""


def learn_to_draw(
    networks: tuple[nn.Module, nn.Module],
    state: TrainingState,
    looks: Looks,
    latents: Latents,
    old: int,
    images: UInt8[Tensor, "n c h w"],
    rows: Int[Tensor, " n"],
    stage: DrawingStageConfig,
    precision: torch.dtype,
    hooks: TaskHooks,
) -> None:
    """Learn to draw the classes of these images; `old` ones, numbered before them, are replayed.

    `networks` are decoder and critic, `state` has their optimisers and nothing else's. Both end in evaluation mode.
    """
    decoder, critic = networks
    device, generator, classes = rows.device, state.generator, len(latents.means)
    before = frozen_copy(decoder) if old else None
    source = ImageSource(images, device)
    assert stage.batch != "rule"
    batches = Batches(len(source), stage.batch, generator, device)
    lap = hooks.profiler.lap if hooks.profiler is not None else untimed

    def judged(X: Tensor, codes: Tensor) -> Tensor:
        return run_critic(critic, precision, diff_augment(X.float(), generator), codes)

    def drawn_rows(low: int, high: int, n: int) -> Tensor:
        return torch.randint(low, high, (n,), generator=generator, device=device)

    def step(chosen: Tensor, *sent: Tensor) -> dict[str, Tensor]:
        n = len(chosen)
        with lap("images"), torch.no_grad():
            X = draw(stage.augmentation, chosen, generator).apply(source.pixels(chosen, *sent), torch.float32)
            y = rows[chosen]
            stages = looks.stages(X)
            sampled = drawn_rows(old, classes, n)
            Z = [latents.sample(sampled, generator), looks.feature(stages, y)]
            real, told, told_real = X, latents.codes[sampled], latents.codes[y]
            if before is not None:
                replayed = drawn_rows(0, old, n)
                Z.append(latents.sample(replayed, generator))
                X_before = before(Z[-1]).float()
                stages_before = looks.stages(X_before)
                if stage.old_too:
                    of_old = latents.codes[replayed]
                    real, told, told_real = (torch.cat(p) for p in ((X, X_before), (told, of_old), (told_real, of_old)))
        with lap("decoder: g(Z)"):
            X_hat = decoder(torch.cat(Z)).float()
            fresh, again, kept = X_hat[:n], X_hat[n : 2 * n], X_hat[2 * n :]
            shown = torch.cat([fresh, kept]) if before is not None and stage.old_too else fresh
        terms: dict[str, Tensor] = {}
        if stage.adversary:
            with lap("critic"):
                scores = judged(torch.cat([real, shown.detach()]), torch.cat([told_real, told]))
                terms["critic"] = relu(1 - scores[: len(real)]).mean() + relu(1 + scores[len(real) :]).mean()
                _move(state.optimisers["critic"], terms["critic"])
        with lap("decoder: terms"), untrained(critic):
            loss = torch.zeros((), device=device)
            if stage.adversary:
                terms["decoder.adversary"] = -judged(shown, told).mean()
                loss = loss + stage.adversary * terms["decoder.adversary"]
            seen = looks.stages(X_hat if stage.recognised else X_hat[n:])
            skipped = n if stage.recognised else 0
            if stage.matching:
                own = [again, *(part[skipped : skipped + n] for part in seen)]
                terms["decoder.matching"] = unexplained(own, [X, *stages])
                loss = loss + stage.matching * terms["decoder.matching"]
            if before is not None and stage.held:
                own = [kept, *(part[skipped + n :] for part in seen)]
                terms["decoder.held"] = unexplained(own, [X_before, *stages_before])
                loss = loss + stage.held * terms["decoder.held"]
            if stage.recognised:
                terms["decoder.recognised"] = cross_entropy(looks.scores([part[:n] for part in seen]), sampled)
                loss = loss + stage.recognised * terms["decoder.recognised"]
            _move(state.optimisers["decoder"], loss)
        return {name: value.detach() for name, value in terms.items()}

    def inputs() -> Tensor:
        """Features in the proportions of a step."""
        n = len(batches.rows[0])
        sets = [drawn_rows(old, classes, 2 * n)]
        if old:
            sets.append(drawn_rows(0, old, n))
        return latents.sample(torch.cat(sets), generator)

    multiply_learning_rate(state.optimisers["critic"], stage.critic_rate)
    for network in (decoder, critic):
        network.train()
    run_epochs(step, source, batches, stage, state, hooks)
    if stage.ema:
        refresh_batchnorm(decoder, (inputs() for _ in range(REFRESHED)))
    for network in (decoder, critic):
        network.eval()


def run_critic(critic: nn.Module, precision: torch.dtype, X: Tensor, codes: Tensor) -> Float[Tensor, " n"]:
    """Scores, computed in this precision."""
    return critic(X.to(precision), codes)


def _move(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
