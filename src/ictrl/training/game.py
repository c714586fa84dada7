"""The minimax game: the encoder ascends, the decoder descends, on the rates of X → Z → X̂ → Ẑ.

One *step* shows both players the same new images and the same features drawn from old memory. The encoder moves first;
the decoder answers the encoder that has just moved. `play` is the loop of one task.

BatchNorm. The first task trains in the ordinary way. Afterwards the statistics are frozen for good and only scale and
shift go on learning: with statistics of new images alone the features of every old class would shift at once, and no
objective sees that.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from ictrl.training.ema import Averages, learn_statistics_again
from ictrl.training.graphs import Captured, side_stream
from ictrl.config import AnchorsConfig, GameConfig, ObjectiveConfig
from ictrl.errors import NonFiniteError
from ictrl.nets.layers import exact_float32
from ictrl.memory.store import Gaussians
from ictrl.nets.dcgan import Decoder, Encoder, to_float
from ictrl.theory.objectives import Terms, anchor, decoder_objective, encoder_objective, transcription_terms
from ictrl.training.players import Players, frozen_copy, untrained
from ictrl.theory.rates import ClassLayout, class_layout
from ictrl.training.profiler import Lap, Stopwatch, untimed
from ictrl.training.loader import Passes, Supply, shown

TURNS = 4  # quarters
CHUNK = 2048  # images that pass through a network at once where nothing is learned from them


@dataclass(frozen=True)
class EpochReport:
    """What a progress callback hears after every epoch."""

    epoch: int
    """from 1"""
    epochs: int
    terms: dict[str, float]
    """`encoder.NAME` and `decoder.NAME` for each term of either player, means over the epoch's steps"""


@dataclass(frozen=True)
class Resume:
    """Where a task was stopped: after which epoch, and how to put players and generator back to it."""

    epoch: int
    restore: Callable[[], None]


Progress = Callable[[EpochReport], None]


@dataclass(frozen=True)
class Batch:
    """What one step is played on. Classes are numbered: old ones first, then those being learned."""

    X: Float[Tensor, "n c h w"]
    """new images"""
    Z_before: Float[Tensor, "n d"] | None
    """their features when the task began; None where no anchors hold the encoder"""
    Z_old: Float[Tensor, "m d"]
    """features drawn from memory; no rows on a first task"""
    X_before: Float[Tensor, "m c h w"] | None
    """their images by the decoder as it was when the task began; None where nobody needs them"""
    layout: ClassLayout
    """classes of the n new and m old rows, in this order"""
    old_classes: int


@dataclass(frozen=True)
class Rules:
    """What the players play for, and how."""

    objective: ObjectiveConfig
    anchors: AnchorsConfig
    encoder_before: Encoder | None = None
    """the encoder as it was when the task began, if its features of replayed images are held"""
    frozen: bool = False
    """old memory is replayed by the decoder of before, and not by the decoder as it is"""
    lap: Lap = untimed


def encoder_step(players: Players, batch: Batch, rules: Rules) -> Terms:
    """The encoder climbs its objective by one step; returns the terms it saw before moving."""
    encoder, decoder, lap = players.encoder, players.decoder, rules.lap
    with lap("encoder: f(X)"):
        Z_new = encoder(batch.X)
    # The decoder is the opponent here and its images are given. The paper's Ẑ_new(θ, η) depends on θ through X̂ as well;
    # that path is cut, as is usual where two players take turns, and saves a pass back through the decoder.
    with lap("encoder: g(Z)"), torch.no_grad():
        if rules.frozen and batch.X_before is not None:
            X_hat = torch.cat([decoder(Z_new), batch.X_before])
        else:
            X_hat = decoder(torch.cat([Z_new, batch.Z_old]))
    with lap("encoder: f(X_hat)"):
        Z_hat = encoder(X_hat)
    with lap("encoder: rates"):
        terms = _terms(torch.cat([Z_new, batch.Z_old]), Z_hat, batch, rules)
    n, anchors = len(batch.X), rules.anchors
    with lap("encoder: anchors"):
        if rules.encoder_before is not None:
            with torch.no_grad():  # the encoder of before is a fixed target
                Z_hat_before = rules.encoder_before(X_hat[n:])
            terms = replace(terms, anchor_replayed=anchor(Z_hat[n:], Z_hat_before))
        if batch.Z_before is not None:
            terms = replace(terms, anchor_new=anchor(Z_new, batch.Z_before))
        if anchors.loop and batch.old_classes:
            terms = replace(terms, loop=_loop(Z_hat[n:], batch.Z_old))
    value = encoder_objective(terms, *_weights(batch, rules), anchors.new, anchors.replayed, anchors.loop)
    _update("encoder", players.encoder_optimiser, value, lap)
    return terms


def decoder_step(players: Players, batch: Batch, rules: Rules) -> Terms:
    """The decoder descends its objective by one step; returns the terms it saw before moving."""
    encoder, decoder, lap = players.encoder, players.decoder, rules.lap
    with lap("decoder: f(X)"), torch.no_grad():  # features of images and memory are the decoder's input, not its doing
        Z_new = encoder(batch.X)
        # with a frozen replay, the decoder is compared with its former self and not with memory
        Z_old = encoder(batch.X_before) if rules.frozen and batch.X_before is not None else batch.Z_old
    with untrained(encoder):  # gradients pass through the encoder to the decoder and leave nothing behind
        with lap("decoder: g(Z)"):
            X_hat = decoder(torch.cat([Z_new, batch.Z_old]))
        with lap("decoder: f(X_hat)"):
            Z_hat = encoder(X_hat)
        with lap("decoder: rates"):
            terms = _terms(torch.cat([Z_new, Z_old]), Z_hat, batch, rules)
        n, anchors = len(batch.X), rules.anchors
        with lap("decoder: anchors"):
            if anchors.loop and batch.old_classes:
                terms = replace(terms, loop=_loop(Z_hat[n:], batch.Z_old))
            if anchors.redrawn and batch.X_before is not None:
                terms = replace(terms, redrawn=(X_hat[n:] - batch.X_before).float().square().mean())
        value = decoder_objective(terms, *_weights(batch, rules), anchors.loop, anchors.redrawn)
        _update("decoder", players.decoder_optimiser, value, lap)
    return terms


class OldMemory:
    """The old classes during one task: features drawn from their Gaussians, once or at every step."""

    def __init__(
        self,
        gaussians: Gaussians,
        samples: int,
        decoder_before: Decoder | None,
        resample: Literal["task", "step"],
        generator: torch.Generator,
    ) -> None:
        self.gaussians = gaussians
        self.samples = samples
        self.decoder_before = decoder_before
        self.generator = generator
        self.classes = int(gaussians.labels[-1]) + 1
        self.rows = len(gaussians.means) * samples
        self.kept = self._draw() if resample == "task" else None

    def draw(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Z_old, y_old, and the images of Z_old by the decoder of before, if there is one."""
        return self.kept if self.kept is not None else self._draw()

    def _draw(self) -> tuple[Tensor, Tensor, Tensor | None]:
        Z_old, y_old = self.gaussians.sample(self.samples, self.generator)
        if self.decoder_before is None:
            return Z_old, y_old, None
        with torch.no_grad():
            return Z_old, y_old, self.decoder_before(Z_old)


def play(
    players: Players,
    images: UInt8[Tensor, "n c h w"],
    y: Int[Tensor, " n"],
    classes: int,
    old: Gaussians | None,
    *,
    samples: int,
    game: GameConfig,
    objective: ObjectiveConfig,
    anchors: AnchorsConfig,
    generator: torch.Generator,
    progress: Progress | None = None,
    resume: Resume | None = None,
    stopwatch: Stopwatch | None = None,
) -> None:
    """Learn one task: the old classes 0 … o−1 from the Gaussians of memory, the new ones o … classes−1 from images.

    Images may lie anywhere; labels lie on the players' device.
    """
    players.train_statistics(old is None)
    if TURNS * classes < 2**15:  # the fewer bits, the faster a GPU sorts labels
        y, old = y.short(), old and replace(old, labels=old.labels.short())
    if old is None:
        memory, epochs, size, held = None, game.first_epochs, game.first_batch, False
    else:
        needed = game.replay == "frozen" or anchors.redrawn > 0
        memory = OldMemory(old, samples, frozen_copy(players.decoder) if needed else None, game.resample, generator)
        epochs, held = game.epochs, anchors.new > 0 or anchors.replayed > 0
        size = memory.rows * (classes - memory.classes) if game.batch == "rule" else game.batch
    warmup = game.warmup if old is not None else 0
    lap = stopwatch.lap if stopwatch is not None else untimed
    rules = Rules(objective, anchors, frozen_copy(players.encoder) if held else None, game.replay == "frozen", lap)
    supply = Supply(images, y.device)
    # the encoder of before never changes: its features of images that come as they are need be computed only once
    cached = held and not game.shifts
    features_before = _features_before(players.encoder, supply, game.flips) if cached else None

    turns = game.first_turns and old is None
    told_apart = TURNS * classes if turns else classes
    passes = Passes(len(supply), size, generator, y.device)
    steps = len(passes.batches)
    players.averages = Averages((players.encoder, players.decoder), game.averaged * steps) if game.averaged else None

    # what was set up so far follows from the state at the task's beginning: a stopped task is set up again in the same
    # way, and only then put where it stopped
    played = 0
    if resume is not None:
        played = resume.epoch
        resume.restore()
    tally = _Tally()

    def step(rows: Tensor, *sent: Tensor) -> None:
        with lap("images and old features"):
            flipped, moves, turned, labels = torch.zeros_like(rows), None, None, y[rows]
            if game.flips:
                flipped = torch.randint(2, rows.shape, generator=generator, device=rows.device)
            if game.shifts:
                most = game.shifts
                moves = torch.randint(-most, most + 1, (2, len(rows)), generator=generator, device=rows.device)
            if turns:
                turned = torch.randint(TURNS, rows.shape, generator=generator, device=rows.device)
                labels = TURNS * labels + turned.to(labels.dtype)
            X = shown(supply.pixels(rows, *sent), flipped, moves, turned, players.encoder.precision)
            Z_before = None
            if features_before is not None:
                Z_before = features_before[flipped, rows]
            elif rules.encoder_before is not None:
                with torch.no_grad():
                    Z_before = rules.encoder_before(X)
            batch = _batch(X, Z_before, labels, memory, told_apart, players.encoder.feature_dim)
        terms = {"encoder": encoder_step(players, batch, rules), "decoder": decoder_step(players, batch, rules)}
        if players.averages is not None:
            players.averages.add()
        tally.add({f"{player}.{name}": value for player, seen in terms.items() for name, value in seen.named().items()})

    with (
        side_stream(y.device),
        exact_float32(),
        Captured(passes.shuffle, generator, y.device) as shuffle,
        Captured(step, generator, y.device) as captured,
    ):
        for epoch in range(played + 1, epochs + 1):
            if game.schedule != "constant" or warmup:
                players.set_rate(_rate(game, epoch, epochs, warmup))
            shuffle()
            for given in supply.batches(passes.batches):
                captured(*given)
            means = tally.means(steps)
            if stopwatch is not None:
                stopwatch.read(steps)
            _check_finite(means, epoch)
            if progress is not None:
                progress(EpochReport(epoch, epochs, means))
    players.set_rate(game.learning_rate)
    if players.averages is not None:
        players.averages.take()
        players.averages = None
        if old is None:
            passes.shuffle()
            upright = (to_float(supply.pixels(*given)) for given in supply.batches(passes.batches))
            learn_statistics_again(players.encoder, players.decoder, upright)
    if old is None and game.optimiser == "fresh":
        players.forget_moments()
    players.train_statistics(False)


class _Tally:
    """Means of named numbers over the steps of an epoch, kept on the device until they are asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.sums = torch.zeros(0)

    def add(self, values: dict[str, Tensor]) -> None:
        stacked = torch.stack([value.detach() for value in values.values()])
        if not self.names:
            self.names, self.sums = list(values), torch.zeros_like(stacked)
        self.sums += stacked

    def means(self, steps: int) -> dict[str, float]:
        """And begin anew. One read for all: reading a device's number waits for the device."""
        means = {name: value / steps for name, value in zip(self.names, self.sums.tolist())}
        self.sums.zero_()
        return means


def _rate(game: GameConfig, epoch: int, epochs: int, warmup: int) -> float:
    """The learning rate of an epoch, counted from 1."""
    fallen = 0.5 * (1 + math.cos(math.pi * (epoch - 1) / epochs)) if game.schedule == "cosine" else 1.0
    return game.learning_rate * fallen * min(1.0, epoch / (warmup + 1))


def _terms(Z: Tensor, Z_hat: Tensor, batch: Batch, rules: Rules) -> Terms:
    return transcription_terms(Z, Z_hat, batch.layout, batch.old_classes, rules.objective.eps_sq)


def _weights(batch: Batch, rules: Rules) -> tuple[float, float]:
    """λ, in a first task that of its own, and γ."""
    objective = rules.objective
    return (objective.lambda_new if batch.old_classes else objective.lambda_first), objective.gamma_old


def _update(player: str, optimiser: torch.optim.Optimizer, value: Tensor, lap: Lap) -> None:
    optimiser.zero_grad()
    with lap(f"{player}: gradient"):
        value.backward()
    with lap(f"{player}: update"):
        optimiser.step()


def _batch(X: Tensor, Z_before: Tensor | None, y: Tensor, memory: OldMemory | None, classes: int, d: int) -> Batch:
    if memory is None:
        Z_old = torch.zeros(0, d, device=X.device)
        return Batch(X, Z_before, Z_old, None, class_layout(y, classes, d), old_classes=0)
    Z_old, y_old, X_old = memory.draw()
    return Batch(X, Z_before, Z_old, X_old, class_layout(torch.cat([y, y_old]), classes, d), memory.classes)


def _features_before(encoder: Encoder, supply: Supply, flips: bool) -> Float[Tensor, "flips n d"]:
    """Features of all images as the encoder has them now, and of their mirror images if those are shown too."""
    rows = torch.arange(len(supply), device=supply.device).split(CHUNK)
    with torch.no_grad():
        parts = [
            torch.stack([encoder(to_float(p)) for p in ((pixels, pixels.flip(-1)) if flips else (pixels,))])
            for given in supply.batches(rows)
            for pixels in [supply.pixels(*given)]
        ]
    return torch.cat(parts, dim=1)


def _loop(Z_hat: Float[Tensor, "m d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, ""]:
    """How far features come back from where they set out; what is drawn from memory is not quite of unit length."""
    return anchor(Z_hat, nn.functional.normalize(Z, dim=1))


def _check_finite(means: dict[str, float], epoch: int) -> None:
    for name, value in means.items():
        if not math.isfinite(value):
            raise NonFiniteError(
                f"Expected finite objective terms but {name} became {value} in epoch {epoch}: lower game.learning_rate."
            )
