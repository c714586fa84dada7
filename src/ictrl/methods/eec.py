"""eec: images are encoded by autoencoders and kept as codes; decoded, they teach the classifier again (EEC, EECS).

An autoencoder g(f(x)) learns each new class, and pays in pixels and in what the classifier's last stage a sees:

    (1 − λ) mean (x − x̂)² + λ mean (a(x) − a(x̂))² / mean a(x)².

The codes f(x) of all images are kept until room is short; then those of a class become *concepts*, means and variances
of clusters, and images are drawn from these (`memory/concepts.py`). Each task the classifier learns from new images and
from as many decoded ones of every old class as there were, whose loss weighs exp(−decay · age), age in tasks: what was
decoded is worth less than what is real (Ayub and Wagner, *EEC: Learning to Encode and Regenerate Images for Continual
Learning*, ICLR 2021). The classifier is encoder and head, as of all methods here.

`eec` has an autoencoder for each class, as the paper where each task is one class; with more classes per task the paper
has one for each task. `eecs` has a single one, which learns the decoded images of old classes with each task again;
these are then encoded anew.

Settings: the authors' code, for ImageNet-50: autoencoders learn by Adam at 1e-3 for 100 epochs, 128 images in a step;
the classifier by SGD at 0.1 with momentum 0.9 and weight decay 5e-4 for 200 epochs, later 45. Its λ and decay are not
in it: those here are ours, as is how many vectors are kept (theirs are 25,000 concepts). Here every task has as many
epochs as any other, and classes' shares of the room are equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ictrl.config import StageConfig
from ictrl.errors import ConfigError
from ictrl.memory.concepts import Concepts, concepts_from
from ictrl.methods.checks import check_types
from ictrl.methods.class_drawing import RecognisedDrawing
from ictrl.methods.supervised import OptimiserConfig, Seen, SupervisedConfig, sgd_stage
from ictrl.nets.families import backbones
from ictrl.nets.layers import exact_float32
from ictrl.nets.wrappers import run_in, to_float, to_uint8
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.autoencoder import learn_to_code
from ictrl.training.loop import TaskHooks
from ictrl.training.state import TrainingState
from ictrl.training.task import CHUNK


@dataclass(frozen=True)
class EECConfig(SupervisedConfig):
    """A classifier, an autoencoder for each class, and codes or concepts of what it has seen."""

    name: ClassVar[str] = "eec"

    optimiser: OptimiserConfig = field(default_factory=lambda: OptimiserConfig("sgd", 0.9, 5e-4))
    stage: StageConfig = field(default_factory=lambda: sgd_stage(epochs=45, batch=128, learning_rate=0.1))
    """the classifier, every task"""
    coding: StageConfig = field(default_factory=lambda: StageConfig(epochs=100, batch=128, learning_rate=1e-3, ema=0.0))
    """an autoencoder, by Adam"""
    content: float = 0.25
    """λ, what the classifier sees of an image weighs so much, its pixels the rest"""
    decay: float = 0.05
    """how much less a decoded image weighs with each task that its class is old"""
    vectors: int = 5000
    """codes that are kept, of all classes together; a concept is two, a mean and variances"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.content <= 1:
            raise ConfigError(f"Expected content to be from 0 to 1 but got {self.content}.")
        if not 0 <= self.decay < float("inf"):
            raise ConfigError(f"Expected decay to be at least 0 but got {self.decay}.")
        if self.vectors < 2:
            raise ConfigError(f"Expected vectors to be at least 2, a concept's, but got {self.vectors}.")


@dataclass(frozen=True)
class EECSConfig(EECConfig):
    """The same with a single autoencoder, which learns decoded images of old classes again."""

    name: ClassVar[str] = "eecs"


class EEC(RecognisedDrawing[Concepts]):
    """Encoded episodes, an autoencoder for each class."""

    settings_type = EECConfig
    keeps = "codes, or means and variances of their clusters"
    _weights: Tensor | None = None  # of the images that a task's classifier sees

    # networks

    def autoencoders(self, classes: int) -> int:
        """How many there are for so many classes."""
        return classes

    def coder_of(self, row: int) -> tuple[nn.Module, nn.Module]:
        """Encoder and decoder of a class."""
        coders, decoders = self._state.networks["coders"], self._state.networks["decoder"]
        place = self.autoencoders(row + 1) - 1
        return coders[place], decoders[place]  # type: ignore[index]

    def _networks(self, initial: torch.Generator, generator: torch.Generator) -> TrainingState:
        state = super()._networks(initial, generator)
        none = {"coders": nn.ModuleList(), "decoder": nn.ModuleList()}
        return self._coding(state, none, self.autoencoders(0))

    def _coding(self, state: TrainingState, coding: Mapping[str, nn.Module], wanted: int) -> TrainingState:
        """A classifier's state with these autoencoders and, up to so many, new ones, each by a seed of its own."""
        coders, decoders = (nn.ModuleList(coding[name]) for name in ("coders", "decoder"))  # type: ignore[arg-type]
        for place in range(len(coders), wanted):
            initial = torch.Generator().manual_seed((self.seed + 1_000_003 * (place + 1)) % 2**63)
            coder, decoder = backbones(self.settings.network, (None, None), initial)
            coders.append(coder.to(self.device))
            decoders.append(decoder.to(self.device))
        networks = {**state.networks, "coders": coders.eval(), "decoder": decoders.eval()}
        return TrainingState(networks, state.optimisers, state.generator)

    def _coding_now(self) -> dict[str, nn.Module]:
        return {name: self._state.networks[name] for name in ("coders", "decoder") if name in self._state.networks}

    def resize(self, classes: int) -> None:
        coding = self._coding_now()
        super().resize(classes)
        if coding:  # not while a class is forgotten
            self._state = self._coding(self._state, coding, self.autoencoders(classes))

    def drop_row(self, row: int) -> None:
        coding, classes = self._coding_now(), len(self.labels)
        super().drop_row(row)
        if self.autoencoders(classes) == classes:
            coding = {name: nn.ModuleList([*part[:row], *part[row + 1 :]]) for name, part in coding.items()}  # type: ignore[index]
        self._state = self._coding(self._state, coding, self.autoencoders(classes - 1))

    # codes and images

    def coded(self, X: UInt8[Tensor, "n c h w"], row: int) -> Float[Tensor, "n d"]:
        """f(x) of images, by the autoencoder of that class."""
        coder, _ = self.coder_of(row)
        with torch.no_grad(), exact_float32():
            parts = [run_in(self._precision, coder, to_float(part.to(self.device))).float() for part in X.split(CHUNK)]
        return torch.cat(parts)

    def decoded(self, Z: Float[Tensor, "n d"], row: int) -> Float[Tensor, "n c h w"]:
        """g(z), by the autoencoder of that class."""
        _, decoder = self.coder_of(row)
        with torch.no_grad(), exact_float32():
            return torch.cat([run_in(self._precision, decoder, part).float() for part in Z.split(CHUNK)])

    def drawn(self, row: int, n: int, generator: torch.Generator) -> Float[Tensor, "n c h w"]:
        return self.decoded(self.kept.of(row).sample(n, generator), row)

    def redrawn(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"]) -> Float[Tensor, "n c h w"]:
        """g(f(x)), by the autoencoder of the class that is predicted."""
        found = torch.zeros(X.shape, device=self.device)
        for row in rows.unique().tolist():
            mine = rows == row
            found[mine] = self.decoded(self.coded(X[mine.to(X.device)], row), row)
        return found

    def replayed(self) -> dict[int, UInt8[Tensor, "n c h w"]]:
        """Of each old class as many images as there were, decoded from what is kept of it."""
        generator = self._state.generator
        return {row: to_uint8(self.decoded(self.kept.of(row).every(generator), row)) for row in range(len(self.labels))}

    # learning

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> Concepts:
        settings: Any = self.settings
        rows, old, classes = self.rows_of(y), len(self.labels), len(self.labels) + len(y.unique())
        # follows from the state at the task's beginning, so that a stopped task finds the same again
        replayed = self.replayed()
        self.resize(classes)
        images = torch.cat([X, *(part.to(X.device) for part in replayed.values())])
        rows = torch.cat([rows, *(torch.full((len(part),), row, device=y.device) for row, part in replayed.items())])
        task = int(self.kept.born.max()) + 1 if old else 0
        born = torch.cat([self.kept.born, torch.full((classes - old,), task, device=self.device)])
        self._weights = torch.exp(-settings.decay * (task - born).float())[rows]
        groups = self.to_be_coded(rows, old)
        solving, *coding = hooks.in_turn(settings.stage.epochs, *(settings.coding.epochs for _ in groups))
        if solving is not None:
            self.train(images, rows, settings.stage, solving)
        self._weights = None
        for (row, places), part in zip(groups, coding):
            if part is not None:
                mine = images[places.to(images.device)]
                learn_to_code(self.coder_of(row), self.encoder, mine, settings, self._precision, self._state, part)
        return self.remembered(images, rows, old, born)

    def to_be_coded(self, rows: Int[Tensor, " n"], old: int) -> list[tuple[int, Int[Tensor, " m"]]]:
        """For each autoencoder that learns, a class that it is of and the places of its images: each new class."""
        return [(row, (rows == row).nonzero()[:, 0]) for row in range(old, int(rows.max()) + 1)]

    def remembered(
        self, images: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"], old: int, born: Int[Tensor, " k"]
    ) -> Concepts:
        """What is kept with the new classes, within the room that there is."""
        found = self.kept
        for row in range(old, len(born)):
            found = found.with_class(self.coded(images[(rows == row).to(images.device)], row), row)
        return found._replace(born=born).within(self.settings.vectors, self._state.generator)

    def loss(self, seen: Seen, working: Mapping[str, nn.Module]) -> dict[str, Tensor]:
        assert self._weights is not None
        each = cross_entropy(self.logits(seen.X), seen.rows, reduction="none")
        return {"cross_entropy": (self._weights[seen.chosen] * each).mean()}

    # what is kept

    def kept_tensors(self) -> dict[str, Tensor]:
        return self.kept.tensors() if len(self.kept.born) else {}

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> Concepts:
        d = self.settings.network.feature_dim
        if not labels:
            return Concepts.none(d, self.device)
        check_types(tensors, whole=("counts", "rows", "born"))
        return concepts_from(tensors, len(labels), d)


class EECS(EEC):
    """Encoded episodes, a single autoencoder."""

    settings_type = EECSConfig

    def autoencoders(self, classes: int) -> int:
        return 1

    def to_be_coded(self, rows: Int[Tensor, " n"], old: int) -> list[tuple[int, Int[Tensor, " m"]]]:
        return [(0, torch.arange(len(rows), device=rows.device))]

    def remembered(
        self, images: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"], old: int, born: Int[Tensor, " k"]
    ) -> Concepts:
        """Old classes too are encoded anew, from what was decoded of them, and are as many concepts as they were."""
        found, generator = Concepts.none(self.settings.network.feature_dim, self.device), self._state.generator
        for row in range(len(born)):
            mine = found.with_class(self.coded(images[(rows == row).to(images.device)], row), row).of(row)
            if row < old:
                mine = mine.condensed(len(self.kept.of(row).counts), generator)
            found = found.joined(mine)
        return found._replace(born=born).within(self.settings.vectors, generator)
