"""The two players: encoder and decoder, each with its optimiser."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, TypeVar, cast

import torch
from torch import Tensor, nn

from ictrl.nets.wrappers import ImageDecoder, ImageEncoder

COMPILER = "torch._dynamo"
Made = TypeVar("Made")


@dataclass(frozen=True)
class Players:
    """Encoder and decoder; each descends a loss of its own."""

    encoder: ImageEncoder
    decoder: ImageDecoder
    encoder_optimiser: torch.optim.Adam
    decoder_optimiser: torch.optim.Adam

    @classmethod
    def pair(
        cls, encoder: ImageEncoder, decoder: ImageDecoder, learning_rate: float, betas: tuple[float, float]
    ) -> "Players":
        return cls(encoder, decoder, adam(encoder, learning_rate, betas), adam(decoder, learning_rate, betas))

    def train_statistics(self, train: bool) -> None:
        """BatchNorm normalises by the batch and learns its statistics, or uses those it has."""
        self.encoder.train(train)
        self.decoder.train(train)


class NoOptimiser:
    """In the place of one where nothing will learn: making a real one loads torch's compiler, which is slow."""

    state: ClassVar[dict[Any, Any]] = {}

    def register_step_pre_hook(self, hook: Any) -> None:
        """There will be no step."""


_idle: ContextVar[bool] = ContextVar("idle", default=False)


def without_optimisers(make: Callable[[], Made]) -> Made:
    """Networks made without their optimisers."""
    context = copy_context()
    context.run(_idle.set, True)
    return context.run(make)


def load_compiler() -> None:
    """Import torch's compiler, as its optimisers do when the first is made.

    It takes seconds, and a Ctrl-C meanwhile would leave it half imported, so that the process could never learn again.
    In a thread that does not hear Ctrl-C, it goes on to its end.
    """
    if COMPILER not in sys.modules:
        importing = threading.Thread(target=import_module, args=(COMPILER,), name="import of torch's compiler")
        importing.start()
        importing.join()


def adam(
    network: nn.Module, learning_rate: float, betas: tuple[float, float], weight_decay: float = 0.0
) -> torch.optim.Adam:
    """Adam for a network, such that its step can be recorded on a GPU; with weight decay it is AdamW."""
    if _idle.get():
        return cast(torch.optim.Adam, NoOptimiser())
    load_compiler()
    # capturable: a recorded step must count its steps on the device; fused: one kernel for all parameters
    on_gpu: dict[str, Any] = {}
    rate: float | Tensor = learning_rate
    if (first := next(network.parameters())).is_cuda:
        on_gpu, rate = {"capturable": True, "fused": True}, torch.tensor(learning_rate, device=first.device)
    if weight_decay:
        return torch.optim.AdamW(network.parameters(), rate, betas, weight_decay=weight_decay, **on_gpu)
    return torch.optim.Adam(network.parameters(), rate, betas, **on_gpu)


def sgd(network: nn.Module, learning_rate: float, momentum: float = 0.0, weight_decay: float = 0.0) -> torch.optim.SGD:
    """SGD for a network, such that its step can be recorded on a GPU."""
    if _idle.get():
        return cast(torch.optim.SGD, NoOptimiser())
    load_compiler()
    on_gpu: dict[str, Any] = {}
    rate: float | Tensor = learning_rate
    if (first := next(network.parameters())).is_cuda:  # one kernel for all parameters, the rate read on the device
        on_gpu, rate = {"fused": True}, torch.tensor(learning_rate, device=first.device)
    return torch.optim.SGD(network.parameters(), rate, momentum, weight_decay=weight_decay, **on_gpu)


@contextmanager
def untrained(network: nn.Module) -> Iterator[None]:
    """Within it, gradients pass through the network and leave nothing behind."""
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
