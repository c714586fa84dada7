"""What learners by closed-loop transcription share: two players, a memory of class moments, drawing; and classifying.

`frozen` plays the game on the first task only, `ictrl` on every task; both classify by moments of features, and are
`ClosedLoopLearner`s. `wide-ictrl` draws as they do and classifies otherwise: it is a `DrawingLearner`.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ictrl.config import GameStageConfig, Recipe
from ictrl.errors import InputError
from ictrl.memory.classifiers import Classifier, classifier_of
from ictrl.memory.store import ClassMemory, Memory, form_class_memory
from ictrl.methods.base import Kept
from ictrl.methods.forgetting import ForgettingLearner
from ictrl.methods.inference import check_can_draw
from ictrl.methods.inputs import Images, check_features, like, seeded, whole_number
from ictrl.methods.labels import listed, number_of
from ictrl.methods.threads import reads, shows
from ictrl.nets.families import backbones
from ictrl.nets.wrappers import ImageDecoder, ImageEncoder, floats, precision_of, to_uint8
from ictrl.parallel.sharing import spread
from ictrl.shapes import Float, Int, UInt8
from ictrl.theory.objectives import Objective, closed_loop
from ictrl.theory.statistics import Moments
from ictrl.training.loop import TaskHooks
from ictrl.training.players import Players
from ictrl.training.state import TrainingState
from ictrl.training.task import CHUNK, GameTask, chunks, play_task

REPLAYED = 20  # features drawn from each direction to see whether memory survives the loop

ObjectiveOf = Callable[..., Objective]
"""(weights by name, first=…) -> both players' losses"""


class DrawingLearner(ForgettingLearner[Kept]):
    """Encoder, decoder and memory. Networks of one's own take the place of the paper's: see `nets.wrappers`."""

    misfit = "One saved with networks of your own needs them again: load(path, encoder=…, decoder=…)."
    keeps = "moments of every class"
    predicts_by = ("encoder",)
    keeps_statistics = True

    def __init__(
        self,
        recipe: Recipe | None = None,
        *,
        seed: int | None = None,
        device: str | torch.device | None = None,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
        objective: ObjectiveOf = closed_loop,
    ) -> None:
        self._own_networks = encoder, decoder
        self._objective = objective
        super().__init__(recipe, seed=seed, device=device)

    def build(self, initial: torch.Generator) -> TrainingState:
        return self._paired(*backbones(self.settings.network, self._own_networks, initial))

    def _paired(self, encoder: nn.Module, decoder: nn.Module) -> TrainingState:
        """Two networks as players."""
        settings = self.settings
        precision = precision_of(settings.game.precision, self.device)
        self._players = Players.pair(
            ImageEncoder(encoder, settings.network.feature_dim, precision).to(self.device).eval(),
            ImageDecoder(decoder, precision).to(self.device).eval(),
            learning_rate=settings.first.learning_rate,
            betas=(settings.game.beta1, settings.game.beta2),
        )
        # looking at samples must not change what is learned next: they have a generator of their own
        self._display_generator = seeded(self.device, self.seed)
        return TrainingState(
            networks={"encoder": encoder, "decoder": decoder},
            optimisers={"encoder": self._players.encoder_optimiser, "decoder": self._players.decoder_optimiser},
            generator=seeded(self.device, self.seed),
        )

    @property
    @shows
    def encoder(self) -> ImageEncoder:
        return self._players.encoder

    @property
    @shows
    def decoder(self) -> ImageDecoder:
        check_can_draw(self, "draw")
        return self._players.decoder

    # memory

    @property
    @abstractmethod
    def memory(self) -> Memory:
        """What is kept of every class to draw from: moments, by label, in the order of learning."""

    @reads
    def recall(self, label: int | str) -> ClassMemory:
        """What is kept of one class."""
        check_can_draw(self, "recall")
        self._check_learned("recall")
        label = number_of(label, self.class_names, self._by_name)
        if label not in self.memory:
            raise InputError(f"Expected a learned label but got {label}; learned are {listed(self.classes_)}.")
        return self.memory[label]

    def formed(self, Z: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> dict[int, ClassMemory]:
        """The memory of each class that these features belong to."""
        memory = self.settings.memory
        return {
            int(label): form_class_memory(Z[y == label], memory.directions, memory.neighbours, memory.disjoint)
            for label in y.unique()
        }

    def play(
        self,
        X: UInt8[Tensor, "n c h w"],
        y: Int[Tensor, " n"],
        others: Memory,
        stage: GameStageConfig,
        hooks: TaskHooks,
    ) -> None:
        """The game on images of some classes while others are replayed."""
        labels, old = y.unique(), len(others)
        numbered = old + torch.searchsorted(labels, y)  # the game numbers classes: old ones first
        gaussians = others.gaussians() if old else None
        task = GameTask(X, numbered, old + len(labels), gaussians, self.settings.memory.samples)
        objective = self.objective_of(stage, first=not old)
        play_task(self._players, task, stage, self.settings.game, objective, self._state, hooks)

    def objective_of(self, stage: GameStageConfig, first: bool) -> Objective:
        """What both players play for; who has nothing to pay for does not move."""
        return self._objective(vars(stage.weights), first=first)

    # features

    @reads
    def features(self, images: Any) -> Float[Tensor, "n d"]:
        """Unit-length features under the encoder as it is now, on the learner's device."""
        return self.encode(self._checked(images))

    def encode(self, images: Tensor) -> Float[Tensor, "n d"]:
        """Features of uint8 images or of decoded ones; BatchNorm never learns from them."""
        with torch.no_grad():
            return spread(lambda X: torch.cat([self.encoder(floats(x.to(self.device))) for x in chunks(X)]), images)

    # drawing

    @reads
    def reconstruct(self, images: Images) -> Images:
        """g(f(x)): each image as the learner sees it, uint8."""
        return like(self.decode(self.features(images)), images)

    @reads
    def decode(self, Z: Float[Tensor, "n d"]) -> UInt8[Tensor, "n c h w"]:
        """g(z): the image that the decoder draws of each feature, on the learner's device."""
        check_features(Z, self.recipe.method.network.feature_dim)
        with torch.no_grad():
            return torch.cat([to_uint8(self.decoder(part)) for part in Z.to(self.device).split(CHUNK)])

    @reads
    def sample(self, label: int | str, n: int, direction: int | None = None) -> UInt8[Tensor, "n c h w"]:
        """Replay n images of a class from memory: along one of its principal directions, or over all in turn."""
        check_can_draw(self, "sample")
        self._check_learned("sample")
        kept = Memory({0: self.recall(label)}).gaussians()
        n = whole_number(n, "n", least=1)
        r = len(kept.means)
        if direction is not None and not 0 <= whole_number(direction, "direction") < r:
            raise InputError(f"Expected direction from 0 to {r - 1} for label {label} but got {direction}.")
        each = n if direction is not None else -(-n // r)
        by_direction = kept.sample(each, self._display_generator)[0].view(r, each, -1)
        chosen = by_direction[direction] if direction is not None else by_direction.transpose(0, 1).flatten(0, 1)[:n]
        return self.decode(chosen).cpu()


class ClosedLoopLearner(DrawingLearner[Memory]):
    """Classifies by the moments of features that it draws from."""

    _classifier: tuple[Memory, Classifier] | None = None

    @property
    def memory(self) -> Memory:
        return self.kept

    def class_memory(self) -> Memory:
        """`memory`, as the capability `KeepsMoments` asks for it."""
        return self.kept

    def kept_tensors(self) -> dict[str, Tensor]:
        return self.kept.state()

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> Memory:
        return Memory.from_state(labels, tensors, self.recipe.method.network.feature_dim)

    def kept_to_predict(self) -> dict[str, Tensor]:
        return {name: kept[:0] if ".direction_" in name else kept for name, kept in self.kept_tensors().items()}

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        return -self.classifier.judge(self._views(X))

    @property
    def classifier(self) -> Classifier:
        """What `predict` decides by: made of memory alone."""
        self._check_learned("classifier")
        if self._classifier is None or self._classifier[0] is not self.memory:
            self._classifier = self.memory, self.classifier_of(Moments.of_classes(self.memory))
        return self._classifier[1]

    def classifier_of(self, moments: Moments) -> Classifier:
        """The classifier that the recipe asks for, made of these moments instead of memory's."""
        return classifier_of(moments, self.settings.classifier)

    @reads
    def residuals(self, images: Images) -> Images:
        """What each of `classes_` does not explain of each image: (n, classes); the smallest is the class predicted."""
        return like(-self._scored(images, "residuals"), images)

    @reads
    def views(self, images: Any) -> Float[Tensor, "views n d"]:
        """The features by which images are classified: their own and, if the recipe says so, their mirror images'."""
        return self._views(self._checked(images))

    def _views(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "views n d"]:
        mirror = self.settings.classifier.mirror
        seen = ((part, part.flip(-1)) if mirror else (part,) for part in chunks(X))
        return torch.cat([torch.stack([self.encode(view) for view in views]) for views in seen], dim=1)

    @reads
    def replay_recognised(self) -> float:
        """Share of features drawn from memory that the classifier still assigns to their class after f(g(z)).

        Where it is low, the decoder has not learned to replay, and memory will not hold: train longer.
        """
        check_can_draw(self, "replay")
        generator = torch.Generator(self.device).manual_seed(0)
        Z, y = self.memory.gaussians().sample(REPLAYED, generator)
        with torch.no_grad():
            Z_hat = torch.cat([self.encoder(self.decoder(part)) for part in Z.split(CHUNK)])
        labels = torch.tensor(list(self.memory), device=Z.device)[y]
        return float((self.classifier.predict(Z_hat) == labels).double().mean())
