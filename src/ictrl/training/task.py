"""One task of the game: images, old memory and rules put together for the loop.

Classes are numbered here, the old ones first. What is distilled needs the players of before: their features of the new
images are computed once where images come as they are, and at every step where they are shifted or rotated.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ictrl.config import GameConfig, GameStageConfig
from ictrl.memory.store import Gaussians
from ictrl.nets.wrappers import to_float
from ictrl.parallel.sharing import gathered, mine, shared
from ictrl.shapes import Float, Int, UInt8
from ictrl.theory.objectives import Objective
from ictrl.theory.statistics import ClassLayout, class_layout
from ictrl.training.augmentation import ROTATIONS, draw, rotated_labels
from ictrl.training.ema import refresh_batchnorm
from ictrl.training.game import Batch, Rules, decoder_step, encoder_step
from ictrl.training.loader import Batches, ImageSource
from ictrl.training.loop import TaskHooks, run_epochs
from ictrl.training.players import Players
from ictrl.training.profiler import untimed
from ictrl.training.replay import Replay, frozen_copy
from ictrl.training.state import TrainingState

CHUNK = 2048  # images that pass through a network at once where nothing is learned from them


def chunks(X: Tensor, size: int = CHUNK) -> tuple[Tensor, ...]:
    """Images, or what is computed of them, in parts; in one where a graph is exported, which takes any number."""
    return (X,) if torch.compiler.is_exporting() else X.split(size)


@dataclass(frozen=True)
class GameTask:
    """The images of the new classes, and what is replayed of the old ones."""

    images: UInt8[Tensor, "n c h w"]
    """anywhere; they are brought to the players' device as they are needed"""
    y: Int[Tensor, " n"]
    """classes o … classes − 1, on the players' device"""
    classes: int
    old: Gaussians | None = None
    """of the old classes 0 … o − 1"""
    samples: int = 1
    """drawn from each Gaussian"""


def play_task(
    players: Players,
    task: GameTask,
    stage: GameStageConfig,
    game: GameConfig,
    objective: Objective,
    state: TrainingState,
    hooks: TaskHooks,
) -> None:
    """Learn one task of the game."""
    first, device, generator = task.old is None, task.y.device, state.generator
    lap = hooks.profiler.lap if hooks.profiler is not None else untimed
    players.train_statistics(first)
    y, old = task.y, task.old
    if ROTATIONS * task.classes < 2**15:  # the fewer bits, the faster a GPU sorts labels
        y, old = y.short(), old and replace(old, labels=old.labels.short())
    frozen_replay = game.replay == "frozen"
    replay = None
    if old is not None:
        decoder_before = frozen_copy(players.decoder) if frozen_replay or objective.need("X_before") else None
        replay = Replay(old, task.samples, decoder_before, game.resample, generator)
    old_classes = replay.classes if replay is not None else 0
    new_classes = task.classes - old_classes
    held = objective.need("Z_before") or objective.need("Z_hat_before")
    encoder_before = frozen_copy(players.encoder) if held else None
    distilled = encoder_before if objective.need("Z_hat_before") else None
    rules = Rules(objective, game.eps_sq, distilled, frozen_replay, lap)

    source = ImageSource(task.images, device)
    size = stage.batch if stage.batch != "rule" else (replay.rows if replay is not None else 1) * new_classes
    batches = Batches(len(source), size, generator, device)
    features_before = None
    if encoder_before is not None and objective.need("Z_before"):
        features_before = _features_before(encoder_before, source, stage)
    augmentation, precision, d = stage.augmentation, players.encoder.precision, players.encoder.feature_dim
    told_apart = old_classes + new_classes * (ROTATIONS if augmentation.rotations else 1)

    moves = {"encoder": encoder_step, "decoder": decoder_step}
    playing = {player: moves[player] for player, loss in objective._asdict().items() if loss}  # who pays nothing rests

    def step(rows: Tensor, *sent: Tensor) -> dict[str, Tensor]:
        with lap("images and old features"):
            drawn, labels = draw(augmentation, rows, generator), y[rows]
            if drawn.turned is not None:
                labels = rotated_labels(labels, drawn.turned, old_classes)
            drawn = drawn.mine()  # all draw the same for the whole batch, so that there is one stream of random numbers
            X = drawn.apply(source.pixels(rows, *sent), precision)
            Z_before = None if features_before is None else features_before(X, mine(rows), drawn.flipped)
            batch = _batch(X, Z_before, labels, replay, told_apart, d)
        terms = {player: move(players, batch, rules) for player, move in playing.items()}
        return {f"{player}.{name}": value for player, seen in terms.items() for name, value in seen.items()}

    run_epochs(step, source, batches, stage, state, hooks)
    if first and stage.ema:
        batches.shuffle()
        upright = (to_float(source.pixels(*given)) for given in source.batches(batches.rows))
        refresh_batchnorm(players.encoder, upright, players.decoder)
    players.train_statistics(False)


def _batch(X: Tensor, Z_before: Tensor | None, y: Tensor, replay: Replay | None, classes: int, d: int) -> Batch:
    """With the labels of all new rows, those of other processes too."""
    if replay is None:
        Z_old = torch.zeros(0, d, device=X.device)
        return Batch(X, Z_before, Z_old, None, _layout([y], classes, d), old_classes=0)
    Z_old, y_old, X_old = replay.draw()
    return Batch(X, Z_before, Z_old, X_old, _layout([y, y_old], classes, d), replay.classes)


def _layout(labels: list[Tensor], classes: int, d: int) -> ClassLayout:
    """Of the rows of this process, with the counts of the whole batch."""
    own = class_layout(torch.cat([mine(y) for y in labels]), classes, d)
    return own if shared() is None else replace(own, counts=class_layout(torch.cat(labels), classes, d).counts)


FeaturesBefore = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(images as shown, their rows, whether they are mirrored) -> features by the encoder of before"""


def _features_before(encoder: nn.Module, source: ImageSource, stage: GameStageConfig) -> FeaturesBefore:
    augmentation = stage.augmentation
    if not augmentation.moves_or_recolours:
        cached = _all_features(encoder, source, augmentation.mirror)
        return lambda X, rows, flipped: cached[flipped, rows]

    def computed(X: Tensor, rows: Tensor, flipped: Tensor) -> Tensor:
        with torch.no_grad():
            return encoder(X)

    return computed


def _all_features(encoder: nn.Module, source: ImageSource, mirror: bool) -> Float[Tensor, "views n d"]:
    """Features of all images, and of their mirror images if those are shown too."""
    rows = torch.arange(len(source), device=source.device).split(CHUNK)
    with torch.no_grad():
        parts = [
            torch.stack(
                [
                    gathered(encoder(to_float(view)), len(given[0]))
                    for view in ((pixels, pixels.flip(-1)) if mirror else (pixels,))
                ]
            )
            for given in source.batches(rows)
            for pixels in [source.pixels(*given)]
        ]
    return torch.cat(parts, dim=1)
