"""A network of two layers from features to features."""

import torch
from torch import nn
from torch.nn.utils import skip_init


def mlp(d: int, hidden: int, out: int, generator: torch.Generator) -> nn.Sequential:
    """Two linear layers with GELU between them; weights from N(0, 1/inputs) by the generator given, on its device."""
    device = generator.device
    first, last = skip_init(nn.Linear, d, hidden, device=device), skip_init(nn.Linear, hidden, out, device=device)
    with torch.no_grad():
        for layer in (first, last):
            layer.weight.normal_(0.0, layer.in_features**-0.5, generator=generator)
            layer.bias.zero_()
    return nn.Sequential(first, nn.GELU(), last)
