"""How an encoder's stages are read: settings, wide features of images, memory and scores. What wide learners share."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ictrl.errors import ConfigError, InputError
from ictrl.memory.calibration import NOT_CALIBRATED, Calibration, held_out
from ictrl.memory.class_sums import ClassSums
from ictrl.memory.wide_features import Reduction, pooled
from ictrl.memory.wide_memory import DTYPES, WideClassifier, WideMemory, nothing_yet
from ictrl.nets.layers import exact_float32
from ictrl.nets.wrappers import check_stages, run_stages, to_float
from ictrl.parallel.sharing import everyones, mine, spread
from ictrl.shapes import Bool, Float, Int, UInt8
from ictrl.training.augmentation import shown
from ictrl.training.task import CHUNK, chunks

AT_ONCE = 8 * CHUNK  # images whose wide features are in memory together; what is made of more is summed up in parts


@dataclass(frozen=True)
class ReadingConfig:
    """How the encoder's stages become wide features, and these a class."""

    pool: int = 3
    """cells per side that each stage's activations are pooled to"""
    stage_pools: tuple[int, ...] = ()
    """the same for each stage, from the image on, such as 1 1 2; 0 leaves a stage out. Takes the place of pool"""
    reduction: Literal["none", "channels", "pca", "random"] = "none"
    """make them fewer: each stage's channels, or all numbers, to the first principal directions of the first task; or
    by a random matrix"""
    sizes: tuple[int, ...] = (512,)
    """numbers that remain at most: channels, one number for all stages or one for each that is read; or all numbers"""
    bits: Literal[8, 16] = 16
    """of each number of the covariance that is kept"""
    ridge: float | Literal["auto"] = "auto"
    """added to the covariance, as a share of the mean variance; auto: the square of wide features per image"""
    mirror: bool = False
    """read every image and its mirror image, and take the mean; for pictures that may be mirrored"""
    shifts: int = 0
    """read every image also moved by so many pixels up, down, left and right, and take the mean: slower, and better"""

    def __post_init__(self) -> None:
        if self.pool < 1:
            raise ConfigError(f"Expected reading.pool to be at least 1 but got {self.pool}.")
        if self.stage_pools and (min(self.stage_pools) < 0 or not any(self.stage_pools)):
            raise ConfigError(f"Expected reading.stage_pools of at least 0, not all 0, but got {self.stage_pools}.")
        if self.reduction not in ("none", "channels", "pca", "random"):
            known = '"none", "channels", "pca" or "random"'
            raise ConfigError(f"Expected reading.reduction to be {known} but got {self.reduction!r}.")
        if not self.sizes or min(self.sizes) < 1 or (self.reduction != "channels" and len(self.sizes) > 1):
            raise ConfigError(f"Expected reading.sizes of at least 1, several for channels only, but got {self.sizes}.")
        if self.bits not in DTYPES:
            raise ConfigError(f"Expected reading.bits to be 8 or 16 but got {self.bits}.")
        if self.shifts < 0:
            raise ConfigError(f"Expected reading.shifts to be at least 0 but got {self.shifts}.")
        if self.ridge != "auto" and not 0 < self.ridge < float("inf"):
            raise ConfigError(f'Expected reading.ridge to be "auto" or above 0 but got {self.ridge}.')

    @property
    def pools(self) -> tuple[int, ...]:
        return self.stage_pools or (self.pool,)


@dataclass(frozen=True)
class CalibrationConfig:
    """How probabilities and unknown images are told: by images that are held out while a task is learned."""

    held_out: float = 0.1
    """share of each new class's images that choose the temperature, and are then remembered as all others are; at
    least one, but ten must remain. 0: none. With fewer than twenty, a task is not calibrated"""

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise ConfigError(f"Expected calibration.held_out to be at least 0 and below 1 but got {self.held_out}.")


class WideReader:
    """Reads images by an encoder that offers its `stages`."""

    def __init__(
        self, encoder: nn.Module, shape: tuple[int, int, int], reading: ReadingConfig, precision: torch.dtype
    ) -> None:
        self.encoder, self.reading, self.precision = encoder, reading, precision
        self.device = next(encoder.parameters()).device
        self._classifier: tuple[WideMemory, WideClassifier, float] | None = None
        self._check(shape)

    def __getstate__(self) -> dict[str, Any]:
        """A copy makes its classifier anew."""
        return {**vars(self), "_classifier": None}

    def stages(self, X: UInt8[Tensor, "n c h w"]) -> list[Float[Tensor, "n _ _ _"]]:
        """Each stage of each image, pooled; the mean over the views that the recipe asks for."""
        found = []
        with torch.no_grad(), exact_float32():
            for part in chunks(X):
                seen = [
                    pooled(run_stages(self.precision, self.encoder, view), self.reading.pools)
                    for view in self._views(part.to(self.device))
                ]
                found.append([torch.stack(stage).mean(0) for stage in zip(*seen)])
        return [torch.cat(stage) for stage in zip(*found)]

    def _views(self, X: UInt8[Tensor, "n c h w"]) -> Iterator[Float[Tensor, "n c h w"]]:
        """Images as they are, mirrored, moved."""
        far = self.reading.shifts
        if not far and not self.reading.mirror and X.device.type == "cpu":  # the same numbers, sooner
            yield to_float(X)
            return
        moves = ((0, 0), (far, 0), (-far, 0), (0, far), (0, -far)) if far else ((0, 0),)
        n = X.shape[0]  # which may be any number in an exported graph; len(X) may not
        for mirrored in (0, 1) if self.reading.mirror else (0,):
            flipped = torch.full((n,), mirrored, device=self.device)
            for move in moves:
                yield shown(X, flipped, flipped.new_tensor(move)[:, None].repeat(1, n), None, torch.float32)

    def features(self, X: UInt8[Tensor, "n c h w"], memory: WideMemory) -> Float[Tensor, "n D"]:
        """φ of images, reduced as this memory's."""
        return spread(lambda part: self._phi(part, memory), X)

    def _phi(self, X: UInt8[Tensor, "n c h w"], memory: WideMemory) -> Float[Tensor, "n D"]:
        with exact_float32():
            parts = [memory.reduction.apply(self.stages(part)) for part in chunks(X, AT_ONCE)]
        return torch.cat(parts)

    def read(self, memory: WideMemory, stages: list[Tensor]) -> Float[Tensor, "n D"]:
        """φ from the activations of stages, reduced as this memory's."""
        return memory.reduction.apply(pooled(stages, self.reading.pools))

    def remembered(
        self, memory: WideMemory, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], share: float = 0.0, seed: int = 0
    ) -> WideMemory:
        """A memory with the classes of these images; the first ones decide how φ is reduced.

        It is calibrated by this share of them, drawn by the seed, and is otherwise the same with any share. Processes
        that share the images each read their own, and add up sums.
        """
        # of its own, so that what trains draws the same with any share
        apart = held_out(y, share, torch.Generator().manual_seed((seed + 1_000_003 * len(memory.counts)) % 2**63))
        with exact_float32():
            if not len(memory.counts):
                memory = replace(memory, reduction=self._reduction(X))
            return self._formed(memory, X, y, apart)

    def _reduction(self, X: UInt8[Tensor, "n c h w"]) -> Reduction:
        reading, parts = self.reading, chunks(mine(X), AT_ONCE)
        return Reduction.fitted(reading.reduction, reading.sizes, (self.stages(part) for part in parts))

    def _formed(
        self, memory: WideMemory, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], apart: Bool[Tensor, " n"]
    ) -> WideMemory:
        """With the classes of these images, calibrated by those apart: by a memory without them, then forgotten.

        An encoder that was trained on this very task has seen them: what its first task says is optimistic. From the
        second task on they are as new to it as any image to come, unless it learns on.
        """
        labels, known, bits = y.unique(), len(memory.counts), self.reading.bits
        calibrated = bool(apart.any()) and known + len(labels) > 1  # one class alone is always certain
        parts = list(zip(*(chunks(mine(whole), AT_ONCE) for whole in (X, y, apart))))
        sums = others = ClassSums.nothing(y.device)
        for part, own, hidden in parts:
            phi = self._phi(part, memory)
            sums += ClassSums.of(phi, own)
            if calibrated:
                others += ClassSums.of(phi[~hidden], own[~hidden])
                seen = [phi[hidden]]
        formed = memory.with_sums(sums, bits)
        if not calibrated:
            return formed
        classifier = WideClassifier.of(memory.with_sums(others, bits), self.reading.ridge)
        again: Iterable[Tensor] = seen
        if len(parts) > 1:  # not all at once: they are looked at again
            again = (self._phi(part[hidden], memory) for part, _, hidden in parts if hidden.any())
        judged = [(classifier.scores(phi), classifier.strangeness(phi)) for phi in chain(again, [phi[:0]])]
        scores, strangeness = map(torch.cat, zip(*judged))
        rows = known + torch.searchsorted(labels, mine(y)[mine(apart)])
        return replace(formed, calibration=memory.calibration.with_task(*map(everyones, (scores, rows, strangeness))))

    def scores(self, memory: WideMemory, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """The logarithm of every class's probability, in the memory's order."""
        with exact_float32():
            _, classifier, temperature = self._made_of(memory)
            scores = spread(lambda own: self._of_parts(classifier.scores, own, memory), X)
        return (scores / temperature).log_softmax(1)

    def strangeness(self, memory: WideMemory, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, " n"]:
        """How little an image looks like any class, from 0 to 2."""
        with exact_float32():
            found = self.classifier_of(memory).strangeness
            return spread(lambda own: self._of_parts(found, own, memory), X)

    def _of_parts(
        self, found: Callable[[Tensor], Tensor], X: UInt8[Tensor, "n c h w"], memory: WideMemory
    ) -> Float[Tensor, "n *found"]:
        """What is found of the wide features of images, some of which are in memory at a time."""
        return torch.cat([found(self._phi(part, memory)) for part in chunks(X, AT_ONCE)])

    def classifier_of(self, memory: WideMemory) -> WideClassifier:
        """Made of a memory with this reading's ridge, once."""
        return self._made_of(memory)[1]

    def _made_of(self, memory: WideMemory) -> tuple[WideMemory, WideClassifier, float]:
        if (made := self._classifier) is None or made[0] is not memory:
            made = memory, WideClassifier.of(memory, self.reading.ridge), memory.calibration.temperature
            self._classifier = made
        return made

    def kept_from(self, classes: int, tensors: dict[str, Tensor]) -> WideMemory:
        """From what `WideMemory.tensors` gave; KeyError or ValueError if they do not fit."""
        if not classes:
            return nothing_yet(self.device)
        reading = self.reading
        matrices = tuple(
            tensors[f"reduction.{i}"] for i in range(sum(name.startswith("reduction.") for name in tensors))
        )
        reduction = Reduction(reading.reduction, reading.sizes, matrices)
        plain = {name: tensors[name] for name in ("counts", "means", "diagonal", "scales", "factor")}
        kept = WideMemory(**plain, reduction=reduction, calibration=Calibration.from_tensors(tensors))
        fitted = Reduction.fitted(reading.reduction, reading.sizes, [self._blank])
        D = fitted.apply(self._blank).shape[1]
        expected = {"counts": (classes,), "means": (classes, D), "diagonal": (D,), "scales": (D,)}
        expected |= {"factor": (D * (D - 1) // 2,)}
        expected |= {f"reduction.{i}": tuple(matrix.shape) for i, matrix in enumerate(fitted.matrices)}
        plain = replace(kept, calibration=NOT_CALIBRATED).tensors()  # which has checked itself
        shapes = {name: tuple(tensor.shape) for name, tensor in plain.items()}
        if shapes != expected or kept.factor.dtype != DTYPES[reading.bits]:
            raise ValueError(f"the wide memory has shapes {shapes} for {classes} classes and {D} wide features")
        return kept

    def _check(self, shape: tuple[int, int, int]) -> None:
        """Refuse an encoder that offers no stages, and settings for other stages than it has."""
        check_stages(self.encoder)
        with torch.no_grad():
            found = run_stages(self.precision, self.encoder, torch.zeros(1, *shape, device=self.device))
        if not isinstance(found, list) or not all(isinstance(s, Tensor) and s.ndim == 4 for s in found) or not found:
            raise InputError("Expected the encoder's stages(X) to give a list of tensors (n, channels, side, side).")
        pools, sizes = self.reading.pools, self.reading.sizes
        if len(pools) not in (1, len(found)):
            raise ConfigError(f"Expected reading.stage_pools for {len(found)} stages but got {len(pools)}.")
        self._blank = pooled(found, pools)
        if self.reading.reduction == "channels" and len(sizes) not in (1, len(self._blank)):
            raise ConfigError(f"Expected reading.sizes for the {len(self._blank)} stages read but got {len(sizes)}.")
