"""`ICTRL`: incremental closed-loop transcription, the paper's method and what goes beyond it.

It learns one task of new classes after another and keeps two networks and a few moments of every class; no image and
no feature of an image outlives the call that brought it.

    learner = ICTRL(load_recipe("ictrl-digits"))
    learner.learn(images, labels)      # again for the next classes
    learner.predict(images)            # from memory alone

A later task is the same game as the first, against old classes replayed from memory. When it has moved the encoder,
memory moves along (drift compensation). *Review* shows a class again, unlabelled, and learns it once more.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ictrl.config import GameStageConfig, ICTRLConfig
from ictrl.errors import InputError
from ictrl.memory.compensation import fit_compensation
from ictrl.memory.few_images import LEAST, check_enough
from ictrl.memory.recognition import Recognition, recognise
from ictrl.memory.store import Memory, merged
from ictrl.methods.closed_loop import ClosedLoopLearner
from ictrl.methods.inference import check_can_learn
from ictrl.methods.labels import number_of
from ictrl.methods.threads import learns
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.loop import Progress, TaskHooks
from ictrl.training.task import CHUNK

LEAST_AGAIN = 0.25  # images for a review, as a share of those the class was learned from


@dataclass(frozen=True)
class Review:
    """What became of images that were reviewed."""

    label: int | str | None
    """the class that was learned again; None if nothing was changed"""
    recognition: Recognition
    """what the images were taken for"""
    reason: str | None
    """why nothing was changed"""
    few: bool = False
    """whether they were too few to learn from, whatever they were taken for"""


class ICTRL(ClosedLoopLearner):
    """Learns image classes task by task; classifies and replays them from memory alone.

    `encoder` and `decoder` may be networks of your own: modules that turn images (n, channels, side, side) in [−1, 1]
    into features (n, d) and back. The learner adds unit length and precision. `objective` makes both players' losses
    from the weights of a stage, by default `theory.objectives.closed_loop`.
    """

    settings_type = ICTRLConfig
    shares_batches = True

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> Memory:
        check_enough(y)
        settings: ICTRLConfig = self.settings
        if not self.memory:
            self.play(X, y, self.memory, settings.first, hooks)
            if settings.game.optimiser == "fresh":
                for optimiser in self._state.optimisers.values():
                    optimiser.state.clear()
            return Memory(self.formed(self.encode(X), y))
        moved, Z = self._play_and_follow(X, y, self.memory, settings.later, hooks)
        return moved.with_classes(self.formed(Z, y))

    @learns
    def review(
        self,
        images: Any,
        *,
        label: int | str | None = None,
        merge: bool = False,
        certain: bool = True,
        epochs: int | None = None,
        distillation: float = 1.0,
        progress: Progress | None = None,
    ) -> Review:
        """Go through images of one class again that was learned before, without being told which.

        They are recognised by the subspace of their features, and then learned in the same constrained game as a new
        class would be; the class's memory is replaced by what was learned, or merged with it, weighted by counts.
        Images that are recognised with doubt change nothing, unless `certain` is False; too few images (less than a
        quarter of those the class was learned from) never do. With a `label` nothing has to be recognised. `epochs`
        takes the place of the recipe's, and `distillation` multiplies its weights of distillation: what is seen again
        may move more freely than what is seen once. `progress` is called after every epoch. What `review` returns says
        what was done, and why.
        """
        check_can_learn(self, "review")
        X = self._checked(images)
        self._check_learned("review")
        if label is not None:
            self.recall(label)
            label = number_of(label, self.class_names, self._by_name)
        seen = recognise(self.encode(X), self.memory)
        again = seen.label if label is None else label
        least = max(LEAST, self.settings.memory.neighbours, round(LEAST_AGAIN * int(self.memory[again].count)))
        if len(X) < least:  # a game on a few images would spoil what many have taught
            few = "1 image is" if len(X) == 1 else f"{len(X)} images are"
            reason = f"{few} too few to learn their class again: {least} or more are needed"
            return Review(None, seen, reason, few=True)
        if label is None and certain and seen.doubt:
            return Review(None, seen, seen.doubt)
        stage = review_stage(self.settings.later, epochs, distillation)
        # a class that is learned again has no second place among the old ones, from which it would be pushed away
        others = Memory({other: kept for other, kept in self.memory.items() if other != again})
        y = torch.full((len(X),), again, device=self.device)
        moved, Z = self._play_and_follow(X, y, others or self.memory, stage, TaskHooks(progress))
        formed = self.formed(Z, y)[again]
        relearned = merged(moved[again], formed, self._state.generator) if merge else formed
        self.kept = moved.with_classes({again: relearned})
        return Review(self.class_names[again] if self._by_name else again, seen, None)

    def _play_and_follow(
        self,
        X: UInt8[Tensor, "n c h w"],
        y: Int[Tensor, " n"],
        others: Memory,
        stage: GameStageConfig,
        hooks: TaskHooks,
    ) -> tuple[Memory, Float[Tensor, "n d"]]:
        """A later task; returns the memory of before, moved along with the encoder, and the new images' features."""
        memory = self.settings.memory
        witnesses = self._witnesses(X) if memory.drift_compensation else None
        self.play(X, y, others, stage, hooks)
        Z = self.encode(X)
        if witnesses is None:
            return self.memory, Z
        replayed, Z_before, weights = witnesses
        Z_after = torch.cat([Z, *(self.encode(part) for part in replayed)])
        return self.memory.moved(fit_compensation(Z_before, Z_after, weights, memory.compensation_ridge)), Z

    def _witnesses(self, X: UInt8[Tensor, "n c h w"]) -> tuple[list[Tensor], Tensor, Tensor]:
        """Images replayed from memory, the features of new and replayed images as they are now, and their weights.

        Seen again after the task, these show how the encoder has moved.
        """
        memory = self.settings.memory
        seen, shares = [X], [1.0, memory.compensation_replayed]
        if shares[1]:
            with torch.no_grad():
                Z_old, _ = self.memory.gaussians().sample(memory.samples, self._state.generator)
                seen.append(torch.cat([self.decoder(part) for part in Z_old.split(CHUNK)]))
        Z = torch.cat([self.encode(part) for part in seen])
        weights = torch.cat([Z.new_full((len(part),), share / len(part)) for part, share in zip(seen, shares)])
        return seen[1:], Z, weights


def review_stage(later: GameStageConfig, epochs: int | None, distillation: float) -> GameStageConfig:
    """How a class is learned again: a later task of so many epochs, its weights of distillation times a factor."""
    if epochs is not None and epochs < 1:
        raise InputError(f"Expected at least 1 epoch but got {epochs}.")
    if not 0 <= distillation < float("inf"):
        raise InputError(f"Expected distillation to be at least 0 times the recipe's but got {distillation}.")
    held = ("distill_new", "distill_replayed", "loop", "redrawn")
    weights = replace(later.weights, **{name: distillation * getattr(later.weights, name) for name in held})
    return replace(later, epochs=epochs or later.epochs, weights=weights)
