"""The encoders that recipes choose from by name."""

import torch
from torch import nn

from ictrl.config import NetworkConfig
from ictrl.nets.dcgan import Encoder
from ictrl.nets.layers import initialise_uniformly
from ictrl.nets.resnet import ResNet
from ictrl.nets.resnet18 import ResNet18

ENCODERS: dict[str, type[Encoder] | type[ResNet] | type[ResNet18]] = {
    "dcgan": Encoder,
    "resnet": ResNet,
    "resnet18": ResNet18,
}


def encoder_of(network: NetworkConfig, generator: torch.Generator | None = None) -> nn.Module:
    """A new encoder as a recipe describes it."""
    kind = ENCODERS[network.kind]
    encoder = kind(network.image_size, network.channels, network.width, network.feature_dim, generator=generator)
    if network.initialisation == "torch":
        initialise_uniformly(encoder, generator)
    return encoder
