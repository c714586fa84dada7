"""`ICTRL`: the object a user holds.

It learns one task of new classes after another and keeps two networks and a few moments of every class; no image and
no feature of an image outlives the call that brought it. A call succeeds or leaves the learner as it was.

    learner = ICTRL(load_recipe("digits"))
    learner.learn(images, labels)      # again for the next classes
    learner.predict(images)            # from memory alone
"""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ictrl.memory.classifiers import Classifier, Moments, classifier_of
from ictrl.config import Recipe
from ictrl.errors import InputError
from ictrl.training.game import CHUNK, EpochReport, Progress, Resume, play
from ictrl.methods.inputs import (
    Images,
    check_new_classes,
    checked_images,
    checked_labels,
    like,
    listed,
    resolve_device,
    whole_number,
)
from ictrl.memory.store import ClassMemory, Memory, fit_transport, form_class_memory, merged
from ictrl.nets.dcgan import Decoder, Encoder, parameter_count, to_float, to_uint8
from ictrl.training.players import Players
from ictrl.recipes.reader import differences
from ictrl.memory.recognition import Recognition, recognise
from ictrl.training.profiler import Stopwatch
from ictrl.methods.storage import (
    LEARNER,
    STOPPED_TASK,
    Stored,
    load_optimiser,
    optimiser_tensors,
    read_stored,
    write_stored,
)

DEFAULTS = Recipe()
LEAST_AGAIN = 0.25  # images for a review, as a share of those the class was learned from


@dataclass(frozen=True)
class Review:
    """What became of images that were reviewed."""

    label: int | None
    """the class that was learned again; None if nothing was changed"""
    recognition: Recognition
    """what the images were taken for"""
    reason: str | None
    """why nothing was changed"""
    few: bool = False
    """whether they were too few to learn from, whatever they were taken for"""


class ICTRL:
    """Learns image classes task by task; classifies and replays them from memory alone.

    Images are uint8 arrays or tensors (n, channels, height, width), labels any integers. What comes back is of the
    kind that went in: an array for an array, a tensor on the same device for a tensor.
    """

    def __init__(
        self, recipe: Recipe = DEFAULTS, *, seed: int | None = None, device: str | torch.device | None = None
    ) -> None:
        if not isinstance(recipe, Recipe):
            raise InputError(f"Expected a Recipe but got {recipe!r}: load_recipe gives one by its name.")
        self.recipe = recipe
        self.seed = whole_number(recipe.seed if seed is None else seed, "seed", least=0)
        self.device = resolve_device(recipe.device if device is None else device)
        self.memory = Memory()
        self._classifier: Classifier | None = None
        # drawn on the CPU whatever the device, so that a seed means the same initial networks everywhere
        initial = torch.Generator().manual_seed(self.seed)
        shape = (
            recipe.network.image_size,
            recipe.network.channels,
            recipe.network.width,
            recipe.network.feature_dim,
        )
        encoder, decoder = Encoder(*shape, generator=initial), Decoder(*shape, generator=initial)
        encoder.precision = decoder.precision = _precision(recipe.game.precision, self.device)
        self._players = Players.pair(
            encoder.to(self.device).eval(),
            decoder.to(self.device).eval(),
            learning_rate=recipe.game.learning_rate,
            betas=(recipe.game.beta1, recipe.game.beta2),
        )
        self._generator = torch.Generator(self.device).manual_seed(self.seed)
        # looking at samples must not change what is learned next: they have a generator of their own
        self._display_generator = torch.Generator(self.device).manual_seed(self.seed)

    def __repr__(self) -> str:
        return f"ICTRL({self.recipe.name!r}, {len(self.memory)} classes, {self.parameters} parameters, {self.device})"

    @property
    def encoder(self) -> Encoder:
        return self._players.encoder

    @property
    def decoder(self) -> Decoder:
        return self._players.decoder

    @property
    def parameters(self) -> int:
        """Trainable numbers in both networks."""
        return parameter_count(self.encoder, self.decoder)

    @property
    def classes_(self) -> NDArray[np.int64]:
        """Labels learned so far, in ascending order."""
        return np.array(sorted(self.memory), dtype=np.int64)

    # learning

    def learn(
        self,
        images: Tensor | NDArray[Any],
        labels: ArrayLike,
        progress: Progress | None = None,
        resume: str | Path | None = None,
        stopwatch: Stopwatch | None = None,
    ) -> "ICTRL":
        """Learn one task: all images of some new classes. With every class at once, this is joint training.

        `progress` is called after every epoch; it may call `save_task` on this learner. `resume` is a file that
        `save_task` wrote during this very task, and learning goes on from there exactly as it would have. `stopwatch`
        is told where the time goes.
        """
        X = self._checked(images)
        y = checked_labels(labels, len(X))
        check_new_classes(y, self.memory)
        stopped = self._stopped_task(Path(resume)) if resume is not None else None
        with self._all_or_nothing():
            moved, formed = self._play_task(X, y.to(self.device), self.memory, progress, stopped, stopwatch)
            self._remember(moved.with_classes(formed))
        return self

    def partial_fit(
        self, images: Tensor | NDArray[Any], labels: ArrayLike, classes: ArrayLike | None = None
    ) -> "ICTRL":
        """`learn` under the name that scikit-learn gives it: one task of new classes a call.

        `classes`, all that will ever come, is there for code that names them; nothing has to be known in advance.
        """
        return self.learn(images, labels)

    def review(
        self,
        images: Tensor | NDArray[Any],
        *,
        label: int | None = None,
        merge: bool = False,
        certain: bool = True,
        progress: Progress | None = None,
    ) -> Review:
        """Go through images of one class again that was learned before, without being told which.

        They are recognised by the subspace of their features, and then learned in the same constrained game as a new
        class would be; the class's memory is replaced by what was learned, or merged with it, weighted by counts.
        Images that are recognised with doubt change nothing, unless `certain` is False; too few images (less than a
        quarter of those the class was learned from) never do. With a `label` nothing has to be recognised. `progress`
        is called after every epoch. What `review` returns says what was done, and why.
        """
        X = self._checked(images)
        self._check_learned("review")
        if label is not None:
            self.recall(label)
        seen = recognise(self._features(X), self.memory)
        again = seen.label if label is None else label
        least = max(self.recipe.memory.neighbours, round(LEAST_AGAIN * int(self.memory[again].count)))
        if len(X) < least:  # a game on a few images would spoil what many have taught
            few = "1 image is" if len(X) == 1 else f"{len(X)} images are"
            reason = f"{few} too few to learn their class again: {least} or more are needed"
            return Review(None, seen, reason, few=True)
        if label is None and certain and seen.doubt:
            return Review(None, seen, seen.doubt)
        label = again
        others = Memory({other: kept for other, kept in self.memory.items() if other != label})
        with self._all_or_nothing():
            y = torch.full((len(X),), label, device=self.device)
            # a class that is learned again has no second place among the old ones, from which it would be pushed away
            moved, formed = self._play_task(X, y, others or self.memory, progress)
            relearned = merged(moved[label], formed[label], self._generator) if merge else formed[label]
            self._remember(moved.with_classes({label: relearned}))
        return Review(label, seen, None)

    def _play_task(
        self,
        X: UInt8[Tensor, "n c h w"],
        y: Int[Tensor, " n"],
        others: Memory,
        progress: Progress | None = None,
        stopped: Resume | None = None,
        stopwatch: Stopwatch | None = None,
    ) -> tuple[Memory, dict[int, ClassMemory]]:
        """Learn images of some classes while others are replayed; returns the memory moved along, and those classes."""
        recipe, old = self.recipe, len(others)
        labels = y.unique()
        gaussians = others.gaussians() if old else None
        witnesses = self._witnesses(X) if old and recipe.memory.transport else None
        play(
            self._players,
            X,
            old + torch.searchsorted(labels, y),  # the game numbers classes: old ones first
            old + len(labels),
            gaussians,
            samples=recipe.memory.samples,
            game=recipe.game,
            objective=recipe.objective,
            anchors=recipe.anchors,
            generator=self._generator,
            progress=progress,
            resume=stopped,
            stopwatch=stopwatch,
        )
        memory, Z = self.memory, self._features(X)
        if witnesses is not None:
            replayed, Z_before, weights = witnesses
            Z_after = torch.cat([Z, *(self._features(part) for part in replayed)])
            memory = memory.transported(fit_transport(Z_before, Z_after, weights, recipe.memory.transport_ridge))
        formed = {
            int(label): form_class_memory(Z[y == label], recipe.memory.directions, recipe.memory.neighbours)
            for label in labels
        }
        return memory, formed

    def _remember(self, memory: Memory) -> None:
        self.memory, self._classifier = memory, None

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Players as they were, if anything goes wrong; memory is changed last."""
        states, random = [copy.deepcopy(part.state_dict()) for part in self._players.parts], self._generator.get_state()
        try:
            yield
        except BaseException:  # Ctrl-C too: half a task, its drift unaccounted for, is worth less than none
            for part, state in zip(self._players.parts, states):
                part.load_state_dict(state)
            self._players.averages = None
            self._players.train_statistics(False)
            self._generator.set_state(random)
            raise

    def _witnesses(self, X: UInt8[Tensor, "n c h w"]) -> tuple[list[Tensor], Tensor, Tensor]:
        """Images replayed from memory, the features of new and replayed images as they are now, and their weights.

        Seen again after the task, these show how the encoder has moved.
        """
        seen, shares = [X], [1.0, self.recipe.memory.transport_replayed]
        if shares[1]:
            with torch.no_grad():
                Z_old, _ = self.memory.gaussians().sample(self.recipe.memory.samples, self._generator)
                seen.append(torch.cat([self.decoder(part) for part in Z_old.split(CHUNK)]))
        Z = torch.cat([self._features(part) for part in seen])
        weights = torch.cat([Z.new_full((len(part),), share / len(part)) for part, share in zip(seen, shares)])
        return seen[1:], Z, weights

    # using what was learned

    @property
    def classifier(self) -> Classifier:
        """What `predict` decides by: made of memory alone."""
        return self._memory_classifier("classifier")

    def predict(self, images: Images) -> Images:
        """The label of each image, from memory alone."""
        classifier = self._memory_classifier("predict")
        return like(classifier.decide(self.views(images)), images)

    def residuals(self, images: Images) -> Images:
        """What each of `classes_` does not explain of each image: (n, classes); the smallest is the class predicted."""
        classifier = self._memory_classifier("residuals")
        return like(classifier.judge(self.views(images)), images)

    def score(self, images: Tensor | NDArray[Any], labels: ArrayLike) -> float:
        """Share of the images whose label is predicted, from memory alone."""
        expected = checked_labels(labels, len(images))
        self._memory_classifier("score")
        predicted = self.predict(torch.as_tensor(images))
        return float((predicted.cpu() == expected).float().mean())

    def features(self, images: Tensor | NDArray[Any]) -> Float[Tensor, "n d"]:
        """Unit-length features under the encoder as it is now, on the learner's device."""
        return self._features(self._checked(images))

    def views(self, images: Tensor | NDArray[Any]) -> Float[Tensor, "views n d"]:
        """The features by which images are classified: their own and, if the recipe says so, their mirror images'."""
        X = self._checked(images)
        seen = (X, X.flip(-1)) if self.recipe.classifier.mirrored else (X,)
        return torch.stack([self._features(view) for view in seen])

    def reconstruct(self, images: Images) -> Images:
        """g(f(x)): each image as the learner sees it, uint8."""
        return like(self.decode(self.features(images)), images)

    def decode(self, Z: Float[Tensor, "n d"]) -> UInt8[Tensor, "n c h w"]:
        """g(z): the image that the decoder draws of each feature, on the learner's device."""
        d = self.recipe.network.feature_dim
        if not isinstance(Z, Tensor) or not Z.is_floating_point() or Z.ndim != 2 or Z.shape[1] != d or not len(Z):
            got = f"{Z.dtype} of shape {tuple(Z.shape)}" if isinstance(Z, Tensor) else type(Z).__name__
            raise InputError(f"Expected features as a float tensor (n, {d}) but got {got}.")
        with torch.no_grad():
            return torch.cat([to_uint8(self.decoder(part)) for part in Z.to(self.device).split(CHUNK)])

    def sample(self, label: int, n: int, direction: int | None = None) -> UInt8[Tensor, "n c h w"]:
        """Replay n images of a class from memory: along one of its principal directions, or over all in turn."""
        self._check_learned("sample")
        kept = Memory({0: self.recall(label)}).gaussians()
        n = whole_number(n, "n", least=1)
        r = len(kept.means)
        if direction is not None and not 0 <= whole_number(direction, "direction") < r:
            raise InputError(f"Expected direction from 0 to {r - 1} for label {label} but got {direction}.")
        each = n if direction is not None else -(-n // r)
        Z, _ = kept.sample(each, self._display_generator)
        by_direction = Z.view(r, each, -1)
        chosen = by_direction[direction] if direction is not None else by_direction.transpose(0, 1).flatten(0, 1)[:n]
        return self.decode(chosen).cpu()

    def recall(self, label: int) -> ClassMemory:
        """What is kept of a class."""
        self._check_learned("recall")
        label = whole_number(label, "label")
        if label not in self.memory:
            raise InputError(f"Expected a learned label but got {label}; learned are {listed(self.classes_)}.")
        return self.memory[label]

    def _checked(self, images: Tensor | NDArray[Any]) -> UInt8[Tensor, "n c h w"]:
        return checked_images(images, self.recipe.network.channels, self.recipe.network.image_size)

    def _features(self, images: Tensor) -> Float[Tensor, "n d"]:
        """Features of uint8 images or of decoded ones; BatchNorm never learns from them."""
        parts = []
        with torch.no_grad():
            for part in images.split(CHUNK):
                part = part.to(self.device)
                parts.append(self.encoder(to_float(part) if part.dtype == torch.uint8 else part))
        return torch.cat(parts)

    def _check_learned(self, caller: str) -> None:
        if not self.memory:
            raise InputError(f"Expected a learner that has learned but got a new one: call learn before {caller}.")

    def _memory_classifier(self, caller: str) -> Classifier:
        self._check_learned(caller)
        if self._classifier is None:
            self._classifier = classifier_of(Moments.of_memory(self.memory), self.recipe.classifier)
        return self._classifier

    # keeping it

    def save(self, path: str | Path, notes: Mapping[str, str] | None = None) -> None:
        """Write everything, optimisers and random state included, as one safetensors file; atomically.

        `notes` are texts of your own; `ictrl.storage.read_stored` gives them back.
        """
        memory = {f"memory.{name}": tensor for name, tensor in self.memory.state().items()}
        self._write(Path(path), LEARNER, {**self._player_tensors(), **memory}, notes=notes)

    def save_task(self, path: str | Path, report: EpochReport) -> None:
        """Write a task that is being learned, from within `learn`'s progress callback, so that it can be resumed."""
        self._write(Path(path), STOPPED_TASK, self._player_tensors(), epoch=report.epoch)

    @classmethod
    def load(cls, path: str | Path, device: str | torch.device | None = None, recipe: Recipe | None = None) -> "ICTRL":
        """Read what `save` wrote; a file from a stranger cannot run code.

        On the kind of device it was saved on, learning goes on exactly as it would have; or by another recipe, if one
        is given, with networks of the same shape.
        """
        stored = read_stored(Path(path), LEARNER)
        learner = cls(recipe or stored.recipe, seed=stored.seed, device=device)
        with _fitting(path):
            learner._load_players(stored)
            memory = {name: tensor.to(learner.device) for name, tensor in stored.group("memory").items()}
            learner.memory = Memory.from_state(stored.labels, memory, learner.recipe.network.feature_dim)
        return learner

    def _write(
        self, path: Path, kind: str, tensors: dict[str, Tensor], epoch: int = 0, notes: Mapping[str, str] | None = None
    ) -> None:
        labels, device = list(self.memory), self.device.type
        write_stored(path, kind, Stored(self.recipe, self.seed, labels, device, tensors, epoch, dict(notes or {})))

    def _stopped_task(self, path: Path) -> Resume:
        stored = read_stored(path, STOPPED_TASK)
        same = not differences(stored.recipe, self.recipe)
        if not same or (stored.seed, stored.labels) != (self.seed, list(self.memory)):
            raise InputError(f"Expected a task stopped by this very learner but {path} belongs to another.")

        def restore() -> None:
            with _fitting(path):
                self._load_players(stored)

        return Resume(stored.epoch, restore)

    def _player_tensors(self) -> dict[str, Tensor]:
        """Everything that a step of the game changes."""
        players = self._players
        groups = {
            "encoder": players.encoder.state_dict(),
            "decoder": players.decoder.state_dict(),
            "encoder_optimiser": optimiser_tensors(players.encoder_optimiser),
            "decoder_optimiser": optimiser_tensors(players.decoder_optimiser),
        }
        if players.averages is not None:
            groups["averages"] = players.averages.state()
        tensors = {f"{group}.{name}": tensor for group, state in groups.items() for name, tensor in state.items()}
        return {**tensors, "generator": self._generator.get_state()}

    def _load_players(self, stored: Stored) -> None:
        players = self._players
        players.encoder.load_state_dict(stored.group("encoder"))
        players.decoder.load_state_dict(stored.group("decoder"))
        load_optimiser(players.encoder_optimiser, stored.group("encoder_optimiser"))
        load_optimiser(players.decoder_optimiser, stored.group("decoder_optimiser"))
        if players.averages is not None:
            players.averages.load(stored.group("averages"))
        if stored.device == self.device.type:  # random states of other kinds of devices mean nothing here
            self._generator.set_state(stored.tensors["generator"])


def _precision(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return {"bfloat16": torch.bfloat16, "float32": torch.float32}[name]


@contextmanager
def _fitting(path: str | Path) -> Iterator[None]:
    """Turns whatever goes wrong while contents are put into place into one line."""
    try:
        yield
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"Expected a saved learner but the contents of {path} do not fit: {reason}.") from None
