"""The two players: encoder and decoder, each with its optimiser."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ictrl.training.ema import Averages
from ictrl.nets.dcgan import Decoder, Encoder

Network = TypeVar("Network", bound=nn.Module)


@dataclass
class Players:
    encoder: Encoder
    decoder: Decoder
    encoder_optimiser: torch.optim.Adam
    decoder_optimiser: torch.optim.Adam
    averages: Averages | None = None
    """of their weights, while a task is being learned whose recipe asks for them"""

    @classmethod
    def pair(cls, encoder: Encoder, decoder: Decoder, learning_rate: float, betas: tuple[float, float]) -> "Players":
        # capturable: a recorded step must count its steps on the device; fused: one kernel for all parameters
        on_gpu: dict[str, Any] = {}
        rate: float | Tensor = learning_rate
        if (first := next(encoder.parameters())).is_cuda:
            on_gpu, rate = {"capturable": True, "fused": True}, torch.tensor(learning_rate, device=first.device)
        return cls(
            encoder,
            decoder,
            torch.optim.Adam(encoder.parameters(), rate, betas, maximize=True, **on_gpu),
            torch.optim.Adam(decoder.parameters(), rate, betas, **on_gpu),
        )

    def set_rate(self, rate: float) -> None:
        """The learning rate of both; a recorded step reads it from the device."""
        for optimiser in (self.encoder_optimiser, self.decoder_optimiser):
            for group in optimiser.param_groups:
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate

    def forget_moments(self) -> None:
        """Both optimisers as they were before their first step."""
        for optimiser in (self.encoder_optimiser, self.decoder_optimiser):
            optimiser.state.clear()

    @property
    def parts(self) -> tuple[nn.Module | torch.optim.Optimizer, ...]:
        """Everything that a step changes."""
        return self.encoder, self.decoder, self.encoder_optimiser, self.decoder_optimiser

    def train_statistics(self, train: bool) -> None:
        """BatchNorm normalises by the batch and learns its statistics, or uses those it has."""
        self.encoder.train(train)
        self.decoder.train(train)


def frozen_copy(network: Network) -> Network:
    """The network as it is now, never to change."""
    return copy.deepcopy(network).eval().requires_grad_(False)


@contextmanager
def untrained(network: nn.Module) -> Iterator[None]:
    network.requires_grad_(False)
    try:
        yield
    finally:
        network.requires_grad_(True)
