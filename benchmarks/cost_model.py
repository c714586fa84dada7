"""What a run costs: seconds, memory of the GPU and bytes over the network, from what it has to do.

Both models add up what a step has to do, each kind of work divided by the speed at which one machine does it. Those
speeds are *constants*, fitted once per machine to short measurements (`cost.py`); what is predicted is something else.

    a step of the trunk     launch + rows · (F / flops + A / elements)        F: operations of a pass, A: activations
    reading an image        views · (F / read_flops + A / read_elements) + D² / products
    a class's task          + D³ / factors
    a step of the game      launch + convolutions / flops + (3k + 2) 2d³ / rates + rows d² / moments

A pass is what one image takes through the encoder, once forwards; rows are the images that pass through it in a step.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from scipy.optimize import nnls
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ictrl.config import NetworkConfig
from ictrl.experiment.evaluation import ReadBefore
from ictrl.nets.families import encoder_of

FLOAT, HALF, DOUBLE = 4, 2, 8  # bytes
ADAM = 4 * FLOAT  # of a weight: itself, its gradient and two moments


@dataclass(frozen=True)
class Pass:
    """One image through an encoder."""

    flops: float
    """multiplications and additions of its convolutions"""
    activations: float
    """numbers that come out of them"""
    parameters: int


def pass_of(network: NetworkConfig) -> Pass:
    """Counted, nothing is computed."""
    with torch.device("meta"):
        encoder = encoder_of(network, torch.Generator())
        X = torch.zeros(1, network.channels, network.image_size, network.image_size)
    made: list[int] = []

    def count(layer: nn.Module, given: object, out: torch.Tensor) -> None:
        made.append(out.numel())

    for layer in encoder.modules():
        if not list(layer.children()) and any(True for _ in layer.parameters(recurse=False)):
            layer.register_forward_hook(count)
    with FlopCounterMode(display=False) as counted, torch.no_grad():
        encoder.eval()(X)
    parameters = sum(weights.numel() for weights in encoder.parameters())
    return Pass(float(counted.get_total_flops()), float(sum(made)), parameters)


def fitted(work: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """Seconds per unit of each kind of work, none below 0, so that relative errors are small."""
    A, t = np.array(work, float), np.array(seconds, float)
    scale = A.max(0).clip(min=1e-30)
    return [float(x) for x in nnls(A / t[:, None] / scale, np.ones(len(t)))[0] / scale]


def cost(work: Sequence[float], constants: Sequence[float]) -> float:
    return float(np.dot(work, constants))


# wide


@dataclass(frozen=True)
class WideRun:
    """A run of `wide`: images per task, and how they are learned and read."""

    network: NetworkConfig
    tasks: int
    images: int
    """training images per task"""
    test_images: int
    """per task"""
    classes: int
    """per task"""
    epochs: int
    batch: int
    D: int
    """wide features"""
    views: int
    """that each image is read in: mirrored, moved"""
    trained: int = 3
    """views of an image in a step of the trunk"""


def trunk_work(network: NetworkConfig, rows: float) -> list[float]:
    one = pass_of(network)
    return [1.0, rows * one.flops, rows * one.activations]


def reading_work(network: NetworkConfig, images: float, views: int, D: int) -> list[float]:
    """Of images that are read and summed up for memory."""
    one = pass_of(network)
    return [images * views * one.flops, images * views * one.activations, images * float(D) ** 2, float(D) ** 3]


def wide_seconds(run: WideRun, trunk: Sequence[float], reading: Sequence[float], gpus: int = 1) -> dict[str, float]:
    """Of learning the first task, of reading all tasks into memory, and of all that is measured after each."""
    steps = run.epochs * ceil(run.images / run.batch)
    step = cost(trunk_work(run.network, run.batch / gpus * run.trained), trunk)
    read = cost(reading_work(run.network, run.images / gpus, run.views, run.D), reading)
    # test images, and all images once more for the floor untrained; the floor frozen is what memory says
    looked = cost(reading_work(run.network, judged_images(run) / gpus, run.views, 0), reading)
    return {"first task": steps * step, "reading": run.tasks * read, "measuring": 2 * looked + run.tasks * read}


def judged_images(run: WideRun) -> int:
    """Test images that are read in a run: once, as far as their wide features are kept; the others after every task."""
    once = min(run.tasks, ReadBefore.most // (FLOAT * run.D * run.test_images))
    again = run.tasks - once
    return run.test_images * (once + again * (again + 1) // 2)


def wide_gigabytes(run: WideRun, per_activation: float, gpus: int = 1, held: bool = True) -> float:
    """The most that lies on a GPU while the first task is learned, or while memory is formed."""
    one, pixels = pass_of(run.network), run.network.channels * run.network.image_size**2
    images = run.images * pixels if held else 0
    training = ADAM * one.parameters + run.batch / gpus * run.trained * one.activations * per_activation
    forming = 3 * DOUBLE * run.D**2 + min(run.images, 16_384) * run.D * FLOAT * 3
    return (images + max(training, forming)) / 1e9


def wide_kept_bytes(classes: int, D: int) -> int:
    """A mean and a count per class, one factor for all (16 bits), diagonal and scales."""
    return classes * (D * FLOAT + 2 * 8) + D * (D - 1) // 2 * HALF + 2 * D * FLOAT


# the game


def game_work(new: float, old: float, classes: int, d: int, pass_flops: float) -> list[float]:
    """A step of both players: operations of their convolutions, of the rates, of the moments."""
    encoder = 3 * new + 3 * (new + old) + (new + old)  # f(X), f(X̂), g(Z)
    decoder = new + 3 * (new + old) + 2 * (new + old)  # f(X), g(Z), through f(X̂)
    return [1.0, pass_flops * (encoder + decoder), (3 * classes + 2) * 2.0 * d**3, (new + old) * float(d) ** 2]


# several GPUs


@dataclass(frozen=True)
class Network:
    """How GPUs are connected; data sheets say so, nothing here was measured."""

    name: str
    bytes_per_second: float
    latency: float
    """seconds of one collective"""


def exchanged(numbers: Iterable[float], gpus: int) -> float:
    """Bytes that each GPU sends in a step to add up so many numbers over all (ring)."""
    return 2 * (gpus - 1) / gpus * FLOAT * sum(numbers)


def collective_seconds(nbytes: float, count: int, network: Network) -> float:
    return nbytes / network.bytes_per_second + count * network.latency
