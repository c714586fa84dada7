"""wide-gan: classifies by wide features of an encoder that learns once, as `wide` does, and draws against a critic.

In the first task the encoder becomes a trunk and is frozen, exactly as in `wide`: the same classes are predicted, with
the same probabilities. The decoder draws from the first principal directions of the trunk's last stage a(x), and from a
code c_j that says of which class an image is to be:

    z = (u/‖u‖, c_j)/√2,   u = W (a(x) − ā),   x̂ = g(z).

A class's z are kept as one Gaussian, from which it is drawn. Trunk, W and codes stand still, so that nothing of it
drifts; the decoder alone goes on learning, against a critic that it is shown to beside images (`training/drawing.py`).
It is no game on coding rates: those see a class as a whole, and a decoder that only they teach draws its texture.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ictrl.config import MemoryConfig, MethodConfig, used_later
from ictrl.errors import ConfigError
from ictrl.memory.few_images import check_enough
from ictrl.memory.latents import HALF, Latents, code_of, free_code, with_codes
from ictrl.memory.store import ClassMemory, Memory
from ictrl.methods.closed_loop import REPLAYED
from ictrl.methods.inference import check_can_draw
from ictrl.methods.inputs import seeded, whole_number
from ictrl.methods.threads import reads, shows
from ictrl.methods.wide import WideConfig, default_trunk
from ictrl.methods.wide_drawing import WideAndDrawn, WideDrawingLearner
from ictrl.methods.wide_reading import CalibrationConfig, ReadingConfig, WideReader
from ictrl.nets.families import backbones
from ictrl.nets.head import PrincipalHead
from ictrl.nets.spectral import SpectralCritic
from ictrl.nets.wrappers import ImageDecoder, ImageEncoder, floats, precision_of, run_stages, to_float
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.drawing import DrawingStageConfig, Looks, learn_to_draw
from ictrl.training.loop import TaskHooks
from ictrl.training.players import adam
from ictrl.training.state import TrainingState
from ictrl.training.task import chunks
from ictrl.training.trunk import TrunkStageConfig, train_trunk

LOOKED_AT = 10_000  # images at most, in which the principal directions are looked for


@dataclass(frozen=True)
class WideGANConfig(MethodConfig):
    """A trunk trained on the first task, wide features and LDA; a decoder that learns to draw against a critic."""

    name: ClassVar[str] = "wide-gan"

    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    """of the convolutions; auto: bfloat16 on a GPU, float32 elsewhere"""
    trunk: TrunkStageConfig = field(default_factory=default_trunk)
    """the first part of the first task, in which the encoder is trained"""
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    calibration: CalibrationConfig = field(default_factory=CalibrationConfig)
    memory: MemoryConfig = field(default_factory=lambda: MemoryConfig(directions=6, neighbours=10))
    """what is kept of a class to draw along its directions, besides the one Gaussian that it is drawn from"""
    code: int | None = None
    """of the feature_dim numbers that the decoder draws from, those that say which class; None: a quarter"""
    critic_width: int | None = None
    """channels of the critic's layer next to the image; None: as wide as the encoder"""
    beta1: float = 0.0
    """Adam's first moment, of decoder and critic"""
    beta2: float = 0.99
    """Adam's second moment"""
    first: DrawingStageConfig = field(default_factory=DrawingStageConfig)
    """the second part of the first task: decoder and critic"""
    later: DrawingStageConfig = used_later(DrawingStageConfig())
    """every later task"""

    def __post_init__(self) -> None:
        d = self.network.feature_dim
        if not 0 < self.numbers_of_code < d:
            raise ConfigError(
                f"Expected code to be above 0 and below feature_dim, {d}, but got {self.numbers_of_code}."
            )
        if self.critic_width is not None and self.critic_width < 1:
            raise ConfigError(f"Expected critic_width to be none or at least 1 but got {self.critic_width}.")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"Expected {name} to be at least 0 and below 1 but got {getattr(self, name)}.")

    @property
    def numbers_of_code(self) -> int:
        return self.network.feature_dim // 4 if self.code is None else self.code


class WideGAN(WideDrawingLearner):
    """Trains its encoder on the first task, and its decoder on every task, against a critic.

    `encoder` may be a network of your own, with a method `stages` as `Wide` asks for it; so may `decoder`, a module
    that turns features (n, d) into images (n, channels, side, side) in [−1, 1].
    """

    settings_type = WideGANConfig

    def build(self, initial: torch.Generator) -> TrainingState:
        network, settings = self.recipe.method.network, self.settings
        size, channels, d = network.image_size, network.channels, network.feature_dim
        trunk, decoder = backbones(network, self._own_networks, initial)
        trunk.to(self.device).eval()
        self._precision = precision_of(settings.precision, self.device)
        self.reader = WideReader(trunk, (channels, size, size), settings.reading, self._precision)
        with torch.no_grad():
            last = run_stages(self._precision, trunk, torch.zeros(1, channels, size, size, device=self.device))[-1]
        head = PrincipalHead(trunk, last.shape[1], d - settings.numbers_of_code, initial)
        width = network.width if settings.critic_width is None else settings.critic_width
        critic = SpectralCritic(size, channels, width, settings.numbers_of_code, initial)
        networks = {"encoder": trunk, "head": head, "decoder": decoder, "critic": critic}
        for part in networks.values():
            part.to(self.device).eval()
        self._sees = ImageEncoder(head, d - settings.numbers_of_code, self._precision)
        self._draws = ImageDecoder(decoder, self._precision)
        # looking at samples must not change what is learned next: they have a generator of their own
        self._display_generator = seeded(self.device, self.seed)
        betas = settings.beta1, settings.beta2
        optimisers = {name: adam(networks[name], settings.first.learning_rate, betas) for name in ("decoder", "critic")}
        return TrainingState(networks, optimisers, seeded(self.device, self.seed))

    @property
    @shows
    def encoder(self) -> ImageEncoder:
        """Images to their own part of z, at unit length."""
        return self._sees

    @property
    @shows
    def decoder(self) -> ImageDecoder:
        check_can_draw(self, "draw")
        return self._draws

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> WideAndDrawn:
        check_enough(y)  # before anything is trained
        settings: WideGANConfig = self.settings
        labels, known = y.unique(), len(self.labels)
        drawing: TaskHooks | None = hooks
        if not self.labels:
            training, drawing = hooks.in_turn(settings.trunk.epochs, settings.first.epochs)
            if training is not None:
                self._train(X, torch.searchsorted(labels, y), training)
            elif drawing is not None and drawing.resume is not None:
                drawing.resume.restore(self._state)  # of the trunk that this task has made, classes are now described
        assert drawing is not None
        wide = self.reader.remembered(self.wide_memory, X, y, settings.calibration.held_out, self.seed)
        new = self._described(X, y)
        memory = self.memory.with_classes(new)
        latents, scores = self._latents(memory), self.reader.classifier_of(wide).scores
        looks = Looks(
            partial(run_stages, self._precision, self.reader.encoder),
            lambda stages, rows: with_codes(self._own_part(stages), latents.codes[rows]),
            lambda stages: scores(self.reader.read(wide, stages)),
        )
        stage = settings.later if known else settings.first
        rows = known + torch.searchsorted(labels, y)
        networks = self._draws, self._state.networks["critic"]
        learn_to_draw(networks, self._state, looks, latents, known, X, rows, stage, self._precision, drawing)
        for optimiser in self._state.optimisers.values():  # every task begins afresh
            optimiser.state.clear()
        return WideAndDrawn(wide, memory)

    def _train(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"], hooks: TaskHooks) -> None:
        """The trunk, and the directions in which its last stage varies."""
        d, stage, generator = self.recipe.method.network.feature_dim, self.settings.trunk, self._state.generator
        train_trunk(self.reader.encoder, d, X, rows, stage, self._precision, generator, hooks)
        head = self._state.networks["head"]
        assert isinstance(head, PrincipalHead)
        looked = X[torch.randperm(len(X), generator=torch.Generator().manual_seed(self.seed))[:LOOKED_AT]]
        with torch.no_grad():
            parts = (to_float(part.to(self.device)) for part in chunks(looked))
            head.fit([head.flat(run_stages(self._precision, self.reader.encoder, part)) for part in parts], generator)

    def _described(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"]) -> dict[int, ClassMemory]:
        """The memory of each new class, with a code that no other has."""
        codes, described = self._codes(), {}
        own = super().encode(X)
        for label in y.unique():
            codes.append(free_code(codes, self.settings.numbers_of_code).to(self.device))
            Z = with_codes(own[y == label], codes[-1])
            described.update(self.formed(Z, y[y == label]))
        return described

    def _latents(self, memory: Memory) -> Latents:
        """All classes of a memory as Gaussians."""
        return Latents.of(memory, self.settings.numbers_of_code)

    def _codes(self) -> list[Tensor]:
        return [code_of(kept, self.settings.numbers_of_code) for kept in self.memory.values()]

    def _own_part(self, stages: list[Tensor]) -> Float[Tensor, "n s"]:
        head = self._state.networks["head"]
        assert isinstance(head, PrincipalHead)
        return normalize(head.from_stages(stages), dim=1)

    def encode(self, images: Tensor) -> Float[Tensor, "n d"]:
        """Features of images, as of the classes that are predicted for them."""
        own = super().encode(images)
        self._check_learned("features")
        codes = torch.stack(self._codes())
        found = [self._predicted(part) for part in chunks(images)]
        return with_codes(own, codes[torch.cat(found)])

    def _predicted(self, images: Tensor) -> Int[Tensor, " n"]:
        """Rows of classes, of uint8 images or of decoded ones."""
        X = images if images.dtype == torch.uint8 else ((floats(images) + 1) * 127.5).round().clamp(0, 255).byte()
        return self.reader.scores(self.wide_memory, X).argmax(1)

    def within_reach(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """The part of an image itself at its length; a class's code stays as it is, as in training."""
        own, codes = Z.split([Z.shape[1] - self.settings.numbers_of_code, self.settings.numbers_of_code], 1)
        return with_codes(normalize(own, dim=1), codes / HALF)

    @reads
    def sample(self, label: int | str, n: int, direction: int | None = None) -> UInt8[Tensor, "n c h w"]:
        """Draw n images of a class from memory: from its Gaussian, or along one of its principal directions."""
        if direction is not None:
            return super().sample(label, n, direction)
        check_can_draw(self, "sample")
        self._check_learned("sample")
        latents = self._latents(Memory({0: self.recall(label)}))
        rows = torch.zeros(whole_number(n, "n", least=1), dtype=torch.long, device=self.device)
        return self.decode(latents.sample(rows, self._display_generator)).cpu()

    def replayed(self, generator: torch.Generator) -> tuple[Float[Tensor, "n d"], Int[Tensor, " n"]]:
        latents = self._latents(self.memory)
        rows = torch.arange(len(self.labels), device=self.device)
        rows = rows.repeat_interleave(REPLAYED * self.settings.memory.directions)
        return latents.sample(rows, generator), rows

    @property
    def as_wide(self) -> WideConfig:
        settings: WideGANConfig = self.settings
        return WideConfig(
            settings.network,
            settings.precision,
            settings.trunk,
            reading=settings.reading,
            calibration=settings.calibration,
        )
