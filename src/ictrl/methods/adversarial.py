"""What generative adversarial methods share: a decoder and a critic beside the classifier, and how both learn.

A step has a batch of images in equal parts. With each the critic learns to tell images from those that the decoder
draws of noise, and then the decoder learns once from the critic (`training/gan_losses.py`). Old classes are replayed:
a copy of the decoder, frozen when the task begins, draws them, and each image of a batch is a replayed one with a
chance of the share that old classes have of all. Classes so weigh alike, however many tasks they came in.

A decoder that is told which class to draw has half of its d numbers as noise and half as the class's code; the critic
then names the class of each image too, and both sides pay for it (AC-GAN; Odena, Olah and Shlens, ICML 2017).

The classifier, the *solver*, is the encoder and head of all methods here. It learns after the decoder, from new images
and from replayed ones drawn at every step:

    loss = r CE(new) + (1 − r) CE(replayed),    r the share of new classes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ictrl.config import StageConfig
from ictrl.methods.base import Kept
from ictrl.methods.class_drawing import ClassDrawingLearner
from ictrl.methods.supervised import Seen, SupervisedConfig, sgd_stage
from ictrl.nets.critic import Codes, Critic
from ictrl.nets.dcgan import Decoder
from ictrl.nets.head import LinearHead
from ictrl.nets.layers import exact_float32
from ictrl.nets.wrappers import to_float, to_uint8
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.adversary import Adversaries, AdversaryConfig
from ictrl.training.artist import Artist
from ictrl.training.augmentation import draw
from ictrl.training.ema import refresh_batchnorm
from ictrl.training.loader import Batches, ImageSource
from ictrl.training.loop import TaskHooks, run_epochs
from ictrl.training.players import adam
from ictrl.training.profiler import untimed
from ictrl.training.state import TrainingState
from ictrl.training.task import CHUNK


@dataclass(frozen=True)
class AdversarialConfig(SupervisedConfig):
    """Decoder and critic learn in `drawing`, the classifier in `stage`, on every task."""

    adversary: AdversaryConfig = field(default_factory=AdversaryConfig)
    drawing: StageConfig = field(
        default_factory=lambda: StageConfig(epochs=100, batch=320, learning_rate=1e-4, ema=0.0)
    )
    """decoder and critic, first; a step is one of the decoder"""
    stage: StageConfig = field(default_factory=lambda: sgd_stage(epochs=25, batch=128, learning_rate=1e-3))
    """the classifier, afterwards"""


Replay = Callable[[int], tuple[Float[Tensor, "n c h w"], Int[Tensor, " n"]]]
"""n images of old classes, drawn for this step, and the rows of their classes"""


class AdversarialLearner(ClassDrawingLearner[Kept]):
    """A classifier, a decoder and a critic."""

    conditional: ClassVar[bool] = False
    """whether the decoder is told which class to draw"""
    _replay: Replay | None = None  # while a task with old classes is learned
    _share = 1.0  # of new classes among all

    def _networks(self, initial: torch.Generator, generator: torch.Generator) -> TrainingState:
        state = super()._networks(initial, generator)
        network, settings = self.settings.network, self.settings
        size, channels, d = network.image_size, network.channels, network.feature_dim
        decoder_width = network.width if network.decoder_width is None else network.decoder_width
        networks: dict[str, nn.Module] = {
            "decoder": Decoder(size, channels, decoder_width, d, initial),
            "critic": Critic(size, channels, network.width, d, settings.adversary.loss != "wasserstein", initial),
        }
        if self.conditional:
            networks |= {"codes": Codes(d // 2), "told": LinearHead(d)}
        return self._beside(state, networks)

    def _beside(self, state: TrainingState, networks: Mapping[str, nn.Module]) -> TrainingState:
        """A classifier's state with these networks and new optimisers for them."""
        adversary: AdversaryConfig = self.settings.adversary
        placed = {name: network.to(self.device).eval() for name, network in networks.items()}
        sides = {"decoder": ("decoder", "codes"), "critic": ("critic", "told")}
        optimisers = {
            side: adam(
                nn.ModuleDict({name: placed[name] for name in names if name in placed}),
                1e-4,
                (adversary.beta1, adversary.beta2),
            )
            for side, names in sides.items()
        }
        return TrainingState({**state.networks, **placed}, {**state.optimisers, **optimisers}, state.generator)

    def _artists(self) -> dict[str, nn.Module]:
        return {name: part for name, part in self._state.networks.items() if name not in ("encoder", "head")}

    def resize(self, classes: int) -> None:
        artists, generator = self._artists(), self._state.generator
        super().resize(classes)
        for name in ("codes", "told"):
            if name in artists:
                artists[name] = artists[name].grown(classes, generator)  # type: ignore[operator]
        if artists:  # not while a class is forgotten
            self._state = self._beside(self._state, artists)

    def drop_row(self, row: int) -> None:
        artists = self._artists()
        for name in ("codes", "told"):
            if name in artists:
                artists[name] = artists[name].without(row)  # type: ignore[operator]
        super().drop_row(row)
        self._state = self._beside(self._state, artists)

    @property
    def artist(self) -> Artist:
        networks = self._state.networks
        return Artist(networks["decoder"], networks.get("codes"))

    @property
    def adversaries(self) -> Adversaries:
        """Both sides as they are now."""
        state, settings = self._state, self.settings.adversary
        critic = state.networks["critic"]
        assert isinstance(critic, Critic)
        return Adversaries(
            self.artist,
            critic,
            state.networks.get("told"),
            state.optimisers["critic"],
            state.optimisers["decoder"],
            settings,
            state.generator,
            lambda n: self.noise(n, state.generator),
        )

    def noise(self, n: int, generator: torch.Generator) -> Float[Tensor, "n e"]:
        d = self.settings.network.feature_dim
        return torch.randn(n, d - d // 2 if self.conditional else d, generator=generator, device=self.device)

    def replay_of(self, artist: Artist, old: int, named: Callable[[Tensor], Tensor] | None = None) -> Replay:
        """Images of the old classes by an artist as it is; `named` tells their classes where the artist is not told."""
        generator = self._state.generator

        def replay(n: int) -> tuple[Tensor, Tensor]:
            with torch.no_grad():
                rows = torch.randint(old, (n,), generator=generator, device=self.device)
                images = artist.of(self.noise(n, generator), rows)
                return images, rows if named is None else named(images)

        return replay

    def redrawn(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"]) -> Float[Tensor, "n c h w"]:
        """The nearest image to each that the decoder can draw of its class: no encoder gives an image's noise."""
        numbers = self.noise(1, torch.Generator(self.device)).shape[1]
        parts = zip(X.split(CHUNK), rows.split(CHUNK))
        with exact_float32():
            return torch.cat([self.artist.nearest(to_float(x.to(self.device)), y, numbers) for x, y in parts])

    def learn_to_draw(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"], hooks: TaskHooks) -> None:
        """The first part of a task: decoder and critic on new images and replayed ones."""
        state, stage = self._state, self.settings.drawing
        source = ImageSource(X, self.device)
        batches = Batches(len(source), stage.batch, state.generator, self.device)
        adversaries = self.adversaries
        lap = hooks.profiler.lap if hooks.profiler is not None else untimed

        def step(chosen: Tensor, *sent: Tensor) -> dict[str, Tensor]:
            with lap("images"):
                pixels = source.pixels(chosen, *sent)
                real = draw(stage.augmentation, chosen, state.generator).apply(pixels, torch.float32)
                real, classes = self.mixed(real, rows[chosen])
            parts = list(zip(*(part.chunk(self.settings.adversary.critic_steps) for part in (real, classes))))
            terms: dict[str, Tensor] = {}
            with lap("critic"):
                for part, told in parts:
                    terms = adversaries.critic_step(part, told)
            with lap("decoder"):
                told = parts[-1][1]
                return {**terms, **adversaries.decoder_step(told, self.held(len(told)))}

        trained = self._artists()
        for network in trained.values():
            network.train()
        run_epochs(step, source, batches, stage, state, hooks)
        if stage.ema:
            batches.shuffle()  # as after a classifier's stage
            self._refresh(rows, batches)
        for network in trained.values():
            network.eval()

    def mixed(self, X: Float[Tensor, "n c h w"], rows: Int[Tensor, " n"]) -> tuple[Tensor, Tensor]:
        """New images, each replaced by a replayed one with the chance of old classes."""
        if self._replay is None:
            return X, rows
        X_old, rows_old = self._replay(len(X))
        old = torch.rand(len(X), generator=self._state.generator, device=self.device) >= self._share
        return torch.where(old[:, None, None, None], X_old, X), torch.where(old, rows_old, rows)

    def held(self, n: int) -> dict[str, Tensor]:
        """What else the decoder pays for; a method may write it."""
        return {}

    @torch.no_grad()
    def _refresh(self, rows: Int[Tensor, " n"], batches: Batches) -> None:
        """BatchNorm's statistics of weights that are averages."""
        generator, (decoder, codes) = self._state.generator, self.artist

        def inputs() -> Any:
            for chosen in batches.rows:
                noise = self.noise(len(chosen), generator)
                yield noise if codes is None else torch.cat([noise, codes(rows[chosen])], 1)

        refresh_batchnorm(decoder, inputs())

    def loss(self, seen: Seen, working: Mapping[str, nn.Module]) -> dict[str, Tensor]:
        """The solver's: cross-entropy on new images and replayed ones."""
        if self._replay is None:
            return {"cross_entropy": cross_entropy(self.logits(seen.X), seen.rows)}
        n = len(seen.X)
        X_old, rows_old = self._replay(n)
        X_old = self.shown(to_uint8(X_old), self.settings.stage.augmentation)
        logits = self.logits(torch.cat([seen.X, X_old]))
        return {
            "cross_entropy": self._share * cross_entropy(logits[:n], seen.rows),
            "replayed": (1 - self._share) * cross_entropy(logits[n:], rows_old),
        }

    def learn_with(
        self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"], replay: Replay | None, hooks: TaskHooks
    ) -> None:
        """Both parts of a task, once the networks are as large as it needs."""
        drawing, solving = hooks.in_turn(self.settings.drawing.epochs, self.settings.stage.epochs)
        self._replay = replay
        self._share = len(rows.unique()) / len(self.head.weight)  # type: ignore[arg-type]
        if drawing is not None:
            self.learn_to_draw(X, rows, drawing)
        if solving is not None:
            self.train(X, rows, self.settings.stage, solving)
        self._replay = None
