"""The networks that recipes choose from: encoders by name, and the decoder that goes with them."""

import copy
from typing import Any, TypeVar

import torch
from torch import nn

from ictrl.config import NetworkConfig
from ictrl.errors import ConfigError, InputError
from ictrl.nets.dcgan import Decoder, Encoder
from ictrl.nets.layers import initialise_uniformly
from ictrl.nets.perceptron import Perceptron
from ictrl.nets.resnet import ResNet
from ictrl.nets.resnet18 import ResNet18
from ictrl.nets.scaled import Scaled
from ictrl.nets.wrappers import check_backbone

ENCODERS: dict[str, type[Encoder] | type[ResNet] | type[ResNet18] | type[Perceptron]] = {
    "dcgan": Encoder,
    "resnet": ResNet,
    "resnet18": ResNet18,
    "mlp": Perceptron,
}


Given = TypeVar("Given")


def copy_of(given: Given, what: str = "a network", shared: dict[int, Any] | None = None) -> Given:
    """A copy that shares nothing but what is named here by its id, so that the other one stays as it is."""
    try:
        return copy.deepcopy(given, shared)
    except torch.OutOfMemoryError:
        raise
    except (TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"Expected {what} to be something that copy.deepcopy can copy but got: {reason}") from None


def encoder_of(network: NetworkConfig, generator: torch.Generator | None = None) -> nn.Module:
    """A new encoder as a recipe describes it."""
    kind = ENCODERS[network.kind]
    encoder = kind(network.image_size, network.channels, network.width, network.feature_dim, generator=generator)
    if network.initialisation == "torch":
        initialise_uniformly(encoder, generator)
    if network.pixel_means:
        return Scaled(encoder, network.pixel_means, network.pixel_deviations)
    return encoder


def own_encoder_or_new(
    own: nn.Module | None, network: NetworkConfig, generator: torch.Generator | None = None
) -> nn.Module:
    """A copy of one's own encoder, if there is one, or else a new one as the recipe describes it."""
    if own is None:
        return encoder_of(network, generator)
    if network.pixel_means:
        raise ConfigError(
            "Expected no network.pixel_means with an encoder of your own, which is given pixels from −1 to 1, but got "
            f"{network.pixel_means}: scale them in its forward and its stages, and leave the setting out."
        )
    return copy_of(own)


def backbones(
    network: NetworkConfig, own: tuple[nn.Module | None, nn.Module | None], generator: torch.Generator
) -> tuple[nn.Module, nn.Module]:
    """Encoder and decoder: copies of one's own where there are any, which are checked, and otherwise new ones."""
    size, channels, d = network.image_size, network.channels, network.feature_dim
    encoder, own_decoder = own_encoder_or_new(own[0], network, generator), copy_of(own[1])
    own_encoder = encoder if own[0] is not None else None
    width = network.width if network.decoder_width is None else network.decoder_width
    decoder = own_decoder or Decoder(size, channels, width, d, generator=generator)
    for name, given, shapes in (
        ("encoder", own_encoder, ((2, channels, size, size), (2, d))),
        ("decoder", own_decoder, ((2, d), (2, channels, size, size))),
    ):
        if given is not None:
            weight = next(given.parameters(), torch.zeros(0))  # a network may have none
            check_backbone(name, given.eval(), torch.zeros(shapes[0], device=weight.device), shapes[1])
    return encoder, decoder
